"""How often intervals cover the truth, how wide they are, and how many coordinates have none.

The truth is what rows were simulated with, or the answer of a whole table, from which rows are drawn with
replacement.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

import dpalgos
from dpalgos.intervals.half_widths import NAIVE_HALF_WIDTH
from tasks.problems.problem import Draw, HeadlineRun, Problem

COVERAGE = "coverage"
FLAGGED = "flagged"
PIVOT = "squared_error_over_half_width"
NAIVE_COVERAGE = "coverage_without_noise"
SIGNS = "signs_known"


class Intervals(Problem):
    """The coverage of an answer's intervals, for any source whose target is in the coefficients' units."""

    measures: ClassVar[tuple[str, ...]] = ("l2_error",)

    def smoke_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted(sizes)[:2])

    def n_bytes(self, n: int) -> int:
        """Return the memory of a draw, with all products of two columns."""
        d = self.sizes(n)["d"]
        return super().n_bytes(n) + 8 * n * d * (d + 1) // 2

    def measure(self, draw: Draw, answer: dpalgos.Result) -> np.ndarray:
        """Return the error and means over coordinates of coverage and width, (7, R).

        Whether there is an interval; whether it covers; the squared error of its middle over its squared half
        width; whether an interval without the noise covers; whether there is one; whether the interval lies
        on the side of zero that the target is on.
        """
        assert draw.target is not None
        target = draw.target[:, None]
        off = np.abs(draw.columns(answer.estimate) - target)
        lower = upper = np.full_like(off, np.nan)
        if answer.interval is not None:
            lower, upper = (draw.columns(end) for end in answer.interval)
        half = (upper - lower) / 2
        there = np.isfinite(half)
        naive = np.broadcast_to(answer.diagnostics.get(NAIVE_HALF_WIDTH, np.nan), off.shape)
        middle_off = np.where(there, np.abs((lower + upper) / 2 - target), 0.0)
        squares = (middle_off / np.where(there, half, 1.0)) ** 2
        signs = ((lower > 0) & (target > 0)) | ((upper < 0) & (target < 0))
        covered = (lower <= target) & (target <= upper)
        shares = [there, covered, squares, off <= naive, np.isfinite(naive), signs]
        return np.stack([np.linalg.norm(off, axis=0), *(share.mean(axis=0) for share in shares)])

    def metrics(self, measured: Sequence[np.ndarray], n: int) -> dict[str, np.ndarray]:
        """Return the error; coverage and width of the coordinates that have intervals, NaN where none has."""
        error, there, covered, squares, naive, naive_there, signs = np.concatenate(measured, axis=1)
        some = np.where(there > 0, there, np.nan)
        return {
            self.metric: error,
            COVERAGE: covered / some,
            FLAGGED: 1 - there,
            PIVOT: squares / some,
            NAIVE_COVERAGE: np.where(naive_there > 0, naive, np.nan),
            SIGNS: signs,
        }

    def rates(self, task: str, n: int, epsilon: float, delta: float) -> dict[str, float]:
        """Return none: theory predicts errors, and these problems are about coverage."""
        return {}

    def exhibits(self, run: HeadlineRun) -> dict[str, Any]:
        names = {
            "coverage": COVERAGE,
            "flagged": FLAGGED,
            "pivot": PIVOT,
            "naive": NAIVE_COVERAGE,
            "signs": SIGNS,
        }
        return {**super().exhibits(run), "covered_shares": {**names, "n": run.replicates.n}}
