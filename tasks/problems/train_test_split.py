"""Random rows of a registered table to train on, the others to test on: how well does a fit predict?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from data.datasets import get_dataset
from data.prepare.frame_features import stream_frames
from data.prepare.table_design import PreparedTable, draw_training_rows
from data.simulations.flock import SOURCE, compare
from data.store.references import FramesRef
from dpalgos.models.families import get_family
from dpalgos.rows.wide import Design
from reports.page import Finding
from tasks.problems.problem import Draw, HeadlineRun
from tasks.problems.registered_table import RegisteredTableProblem
from tasks.run_options import Profile
from tasks.work_units import Replicates

if TYPE_CHECKING:
    from reports.page import Finding

FALSE_POSITIVE_RATES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
MISCLASSIFICATION, SQUARED_ERROR, DEVIANCE = "misclassification", "mean_squared_error", "mean_deviance"
SMOKE_ROWS = 1600

BATCH = 10  # replicates that run together: two blocks of a study's 20 occupy two cores
_FILM = (0, 5, 10, 15)  # frames of a simulation that are shown


def _rate_name(rate: float) -> str:
    """Return the name of the true positive rate at a false positive rate: ``tpr_at_fpr_01``."""
    return f"tpr_at_fpr_{round(100 * rate):02d}"


CLASSIFICATION = (MISCLASSIFICATION, "auc", *map(_rate_name, FALSE_POSITIVE_RATES))


@dataclass(frozen=True, eq=False, kw_only=True)
class PredictionDraw(Draw):
    """A draw whose estimates are judged by the rows that they were not trained on."""

    y: np.ndarray
    column_names: tuple[str, ...]
    family: str  # of the responses; empty where they are predicted linearly

    def measure(self, estimate: np.ndarray) -> np.ndarray:
        """Return what is measured on the test rows, (metrics, R): `CLASSIFICATION`, or a mean loss.

        A row is taken for 1 where its linear predictor is positive. Where predictors tie, the ROC curve
        takes the average over all orders of the tied rows.
        """
        scores = Design(self.sample).predict(self.columns(estimate))
        mask = self.sample.row_mask
        assert mask is not None
        tests = [(scores[rows, r], self.y[rows]) for r, rows in enumerate(~mask.T)]
        if self.family == "logistic":
            measured = [classification(*test) for test in tests]
            return np.array([[one[name] for one in measured] for name in CLASSIFICATION])
        if self.family:
            family = get_family(self.family)
            losses = [family.deviance(eta[:, None], family.encode(y)).mean() for eta, y in tests]
            return np.array([losses])
        return np.array([[float(np.mean((y - eta) ** 2)) for eta, y in tests]])

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
        **{_rate_name(rate): float(v) for rate, v in zip(FALSE_POSITIVE_RATES, rates, strict=True)},
    }


class TrainTestSplit(RegisteredTableProblem):
    """Rows of a table; n of them to train on, the others to test on.

    ``groups`` says whether single rows are drawn, or whole groups of alike rows where a dataset knows them
    (the simulations of a flock's frames).
    """

    kind: Literal["train_test_split"]
    groups: Literal["rows", "simulations"] = "rows"

    @property
    def metric(self) -> str:
        """Share of the test rows that are misclassified, or a mean loss."""
        if self.family == "logistic":
            return MISCLASSIFICATION
        return DEVIANCE if self.family else SQUARED_ERROR

    @property
    def measures(self) -> tuple[str, ...]:
        return CLASSIFICATION if self.family == "logistic" else (self.metric,)

    @property
    def task(self) -> str:
        """What is estimated; the label of frames is their response."""
        return "glm" if self.family else "linear_regression"

    def check(self, n: int, task: str) -> None:
        super().check(n, task)
        if not self.response and self.about.kind == "table":
            raise ValueError("response is missing; name the column that is to be predicted")

    def check_data(self, n: int) -> None:
        super().check_data(n)
        about = self.about
        if n >= about.n_rows:
            raise ValueError(
                f"grid.n must be below the {about.n_rows:,} rows of {about.name}, got {n}: some are tested on"
            )

    def smoke_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        return (min(SMOKE_ROWS // 2, *sizes),)

    def stand_in_rows(self, profile: Profile) -> int | None:
        return SMOKE_ROWS if profile == "smoke" and self.about.kind == "frames" else None

    def n_bytes(self, n: int) -> int:
        """Return the memory of all rows, once in a block, whatever n is."""
        return 4 * self.about.n_rows * self.sizes(n)["d"]

    def ranges(self, n: int, n_cells: int, replicates: int) -> list[tuple[int, int, int]]:
        n_blocks = -(-replicates // BATCH)
        edges = [replicates * i // n_blocks for i in range(n_blocks + 1)]
        work = n_cells * n * self.sizes(n)["d"]
        return [(a, b - a, (b - a) * work) for a, b in pairwise(edges)]

    def draws(self, replicates: Replicates, prepared: PreparedTable) -> Iterator[Draw]:
        assert prepared.y is not None
        whole = self.groups != "rows"
        mask = draw_training_rows(prepared, replicates.n, replicates.row_generators(), whole_groups=whole)
        yield PredictionDraw(
            sample=self.sample_of(prepared, mask),
            first=replicates.first,
            public_y=self.public_y,
            y=prepared.y,
            column_names=prepared.column_names,
            family=self.family,
        )

    def exhibits(self, run: HeadlineRun) -> dict[str, Any]:
        """Return ROC curves and what was selected; of frames also how a stand-in compares, and a film."""
        if self.family != "logistic":
            return {}
        counts = run.table.label_counts if isinstance(run.table, FramesRef) else ()
        shown: dict[str, Any] = {"classification": {"label_counts": list(counts)}}
        if isinstance(run.table, FramesRef):
            shown["boids"] = _flock_exhibit(run.table, run.selected)
        return shown

    def findings(self, exhibits: Mapping[str, Any]) -> tuple["Finding", ...]:
        """Return the error of always predicting the more frequent label."""
        counts = exhibits.get("classification", {}).get("label_counts", ())
        if not counts:
            return ()
        rate = min(counts) / sum(counts)
        text = f"Predicting the more frequent label for every row is wrong for {rate:.3f} of the rows."
        return (Finding(label="the more frequent label", value=rate, text=text, about="Without a look at x"),)


def _flock_exhibit(ref: FramesRef, selected: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """Return the content of `reports.exhibits.boids`; rows of data only where they are simulated."""
    about = get_dataset(ref.name)
    shown: dict[str, Any] = {
        "features": list(about.column_names),
        "n_boids": about.n_boids,
        "selected": selected,
        "film": [],
        "summary": [],
        "summary_source": SOURCE,
    }
    if ref.data_source == "real":
        return shown
    return {**shown, "summary": compare(ref), "film": _film(ref)}


def _film(ref: FramesRef) -> list[dict[str, Any]]:
    length, columns = ref.frames_per_simulation, ("x", "y", "x_velocity", "y_velocity")
    frames: dict[int, np.ndarray] = {}
    for block, labels in stream_frames(ref):
        for start in range(0, len(labels) - length + 1, length):
            if (label := int(labels[start])) not in frames:
                film = np.round(block[:, start : start + length].astype(np.float64), 1)
                frames[label] = film.reshape(-1, len(get_dataset(ref.name).columns), length)
        if len(frames) == 2:
            break
    return [
        {"label": label, "frame": frame + 1}
        | {name: frames[label][:, place, frame].tolist() for place, name in enumerate(columns)}
        for label in sorted(frames, reverse=True)
        for frame in _FILM
    ]
