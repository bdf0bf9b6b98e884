"""Classify labelled frames: train on a random half, test on the other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

import dpalgos
from data.frame_features import Frames, draw_halves
from data.registry import get_dataset
from dpalgos.sample import Design
from tasks.problems.base import Draw, Prepared, ProblemBase
from tasks.work_units import Block, row_generators

FALSE_POSITIVE_RATES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
MISCLASSIFICATION = "misclassification"
SMOKE_FRAMES = 1600

_BATCH = 10  # replicates that run together: two blocks of a study's 20 occupy two cores


def rate_metric(rate: float) -> str:
    """Return the name of the true positive rate at a false positive rate: ``tpr_at_fpr_01``."""
    return f"tpr_at_fpr_{round(100 * rate):02d}"


METRICS = (MISCLASSIFICATION, "auc", *map(rate_metric, FALSE_POSITIVE_RATES))


@dataclass(frozen=True, eq=False, kw_only=True)
class HalvesDraw(Draw):
    """A draw whose estimates are judged by the rows that they were not trained on.

    Attributes
    ----------
    y : (n,) array
        Labels, 0 or 1.
    column_names : tuple of str
        Names of the d columns.
    """

    y: np.ndarray
    column_names: tuple[str, ...]

    def measure(self, estimate: np.ndarray) -> np.ndarray:
        """Return the `METRICS` on the test rows, (metrics, R).

        A row is taken for 1 where its linear predictor is positive. Where predictors tie, the ROC curve
        takes the average over all orders of the tied rows.
        """
        scores = Design(self.sample).predict(self.columns(estimate))
        mask = self.sample.row_mask
        assert mask is not None
        tests = [~mask[:, r] for r in range(self.replicates)]
        found = [classification(scores[rows, r], self.y[rows]) for r, rows in enumerate(tests)]
        return np.array([[one[name] for one in found] for name in METRICS])

    def selection(self, estimate: np.ndarray) -> dict[str, int]:
        """Return in how many replicates each column has a coefficient, of sparse estimates."""
        counts = (self.columns(estimate) != 0).sum(axis=1)
        if counts.sum() > self.replicates * len(counts) / 2:
            return {}
        return {self.column_names[j]: int(counts[j]) for j in np.flatnonzero(counts)}


def classification(scores: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return misclassification, AUC and true positive rates at fixed false positive rates.

    The rates are those of `FALSE_POSITIVE_RATES`; without rows of both labels they are NaN.
    """
    levels, place = np.unique(scores, return_inverse=True)
    ones = np.bincount(place, weights=y, minlength=len(levels))[::-1]
    zeros = np.bincount(place, weights=1 - y, minlength=len(levels))[::-1]
    if ones.sum() and zeros.sum():
        hit = np.concatenate([[0.0], np.cumsum(ones) / ones.sum()])
        alarm = np.concatenate([[0.0], np.cumsum(zeros) / zeros.sum()])
        area = float(np.trapezoid(hit, alarm))
        # Of several rates at one false positive rate, the highest is attained.
        last = np.append(np.diff(alarm) > 0, True)
        rates = np.interp(FALSE_POSITIVE_RATES, alarm[last], hit[last])
    else:
        area, rates = float("nan"), np.full(len(FALSE_POSITIVE_RATES), np.nan)
    return {
        MISCLASSIFICATION: float(np.mean((scores > 0) != (y > 0))),
        "auc": area,
        **{rate_metric(rate): float(v) for rate, v in zip(FALSE_POSITIVE_RATES, rates, strict=True)},
    }


class RandomHalves(ProblemBase):
    """Frames of a flock; n of them to train on, the others to test on.

    ``scaling`` says whether columns are scaled by public constants or by the data, which is not private;
    ``split`` whether rows are drawn, or whole simulations.
    """

    kind: Literal["random_halves"]
    dataset: str
    scaling: Literal["public", "data"]
    split: Literal["rows", "simulations"] = "rows"

    @property
    def source(self) -> str:
        """Name of the dataset."""
        return self.dataset

    @property
    def metric(self) -> str:
        """Share of the test rows that are misclassified."""
        return MISCLASSIFICATION

    @property
    def protected(self) -> bool:
        """Whether the columns are put into public units."""
        return self.scaling == "public"

    def sizes(self, n: int) -> dict[str, int]:
        """Return n and d, with an intercept."""
        dataset = get_dataset(self.dataset)
        return {"n": n, "d": dataset.n_boids * len(dataset.columns) + 1}

    def n_bytes(self, n: int) -> int:
        """Return the memory of all frames, once in a block, whatever n is."""
        return 4 * get_dataset(self.dataset).n_rows * self.sizes(n)["d"]

    def ranges(self, n: int, n_cells: int, replicates: int) -> list[tuple[int, int, int]]:
        """Return blocks of a few replicates, which run together."""
        n_blocks = -(-replicates // _BATCH)
        edges = [replicates * i // n_blocks for i in range(n_blocks + 1)]
        work = n_cells * n * self.sizes(n)["d"]
        return [(a, b - a, (b - a) * work) for a, b in pairwise(edges)]

    def draws(self, block: Block, design: Prepared | None) -> Iterator[Draw]:
        """Yield the one draw of all the block's replicates."""
        assert isinstance(design, Frames)
        mask = draw_halves(design, block.n, row_generators(block), self.split)
        yield HalvesDraw(
            sample=dpalgos.Sample(design.X, design.y, row_mask=mask, n_replicates=block.replicates),
            first=block.first,
            replicates=block.replicates,
            batched=True,
            y=design.y,
            column_names=design.column_names,
        )

    def metrics(self, measured: Sequence[np.ndarray], n: int) -> dict[str, np.ndarray]:
        """Return the `METRICS`."""
        return dict(zip(METRICS, np.concatenate(measured, axis=1), strict=True))
