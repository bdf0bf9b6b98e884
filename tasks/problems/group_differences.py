"""Estimate how two groups of people differ in their genotypes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

import dpalgos
from data.group_difference import GroupDifference, draw_people, paired_rows, person_mask
from tasks.problems.base import ELEMENTS_BESIDE, Draw, Estimation, Prepared, ProblemBase
from tasks.work_units import Block, row_generators

SUPPORT_RECALL = "support_recall"


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupEstimation(Estimation):
    """An estimation of which it is also asked whether the largest entries are found.

    Attributes
    ----------
    s : int
        How many.
    """

    s: int

    def measure(self, estimate: np.ndarray) -> np.ndarray:
        """Return the ℓ2 distances to the target, and the recall of its s largest entries, (2, R)."""
        recalls = support_recall(self.columns(estimate), self.target, self.s)
        return np.stack([super().measure(estimate), recalls])


def support_recall(coef: np.ndarray, target: np.ndarray, s: int) -> np.ndarray:
    """Return the share of the target's s largest entries that are among those of coef (d, R), (R,)."""
    wanted = largest(np.abs(target)[:, None], s)
    return np.asarray((wanted & largest(np.abs(coef), s)).sum(axis=0) / wanted.sum())


def largest(magnitudes: np.ndarray, s: int) -> np.ndarray:
    """Return which are the s largest of each column (d, R) and above zero; of equals, the first."""
    order = np.argsort(-magnitudes, axis=0, kind="stable")[:s]
    chosen = np.zeros(magnitudes.shape, dtype=bool)
    np.put_along_axis(chosen, order, True, axis=0)
    return np.asarray(chosen & (magnitudes > 0))


class GroupDifferences(ProblemBase):
    """Genotypes of two groups, n people drawn from each; the truth is the difference of everybody's means.

    ``unit`` is what a row stands for: a person, in 2n rows, or a pair as in the paper, in n rows. The mean of
    the rows is the same.
    """

    kind: Literal["group_differences"]
    dataset: str
    n_snps: Annotated[int, Field(strict=True, ge=1)]
    s: Annotated[int, Field(strict=True, ge=1)]
    selection: Literal["all_subjects", "public_panel", "evenly_spaced"]
    unit: Literal["person", "pair"]

    @property
    def source(self) -> str:
        """Name of the dataset."""
        return self.dataset

    @property
    def protected(self) -> bool:
        """Whether the SNPs are chosen without a look at those who are compared."""
        return self.selection != "all_subjects"

    def sizes(self, n: int) -> dict[str, int]:
        """Return n, d and s."""
        return {"n": n, "d": self.n_snps, "s": self.s}

    def ranges(self, n: int, n_cells: int, replicates: int) -> list[tuple[int, int, int]]:
        """Return one block: the design is small."""
        return [(0, replicates, n_cells * replicates * (n * self.n_snps + ELEMENTS_BESIDE))]

    def draws(self, block: Block, design: Prepared | None) -> Iterator[Draw]:
        """Yield all replicates at once, or one after another where each has rows of its own."""
        assert isinstance(design, GroupDifference)
        drawn = draw_people(design.sizes, block.n, row_generators(block))
        if self.unit == "person":
            mask = person_mask(drawn, len(design.X))
            sample = dpalgos.Sample(design.X, row_mask=mask, n_replicates=block.replicates)
            yield GroupEstimation(
                sample=sample,
                first=0,
                replicates=block.replicates,
                target=design.target,
                s=self.s,
                batched=True,
            )
            return
        for r in range(block.replicates):
            sample = dpalgos.Sample(paired_rows(design.X, drawn, r))
            yield GroupEstimation(
                sample=sample,
                first=block.first + r,
                replicates=1,
                target=design.target,
                s=self.s,
                batched=False,
            )

    def metrics(self, measured: Sequence[np.ndarray], n: int) -> dict[str, np.ndarray]:
        """Return the errors and the recall of the s SNPs that differ most."""
        return dict(zip((self.metric, SUPPORT_RECALL), np.concatenate(measured, axis=1), strict=True))
