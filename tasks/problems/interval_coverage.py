"""How often intervals cover the truth, how wide they are, and how many coordinates have none.

Data are simulated rows, users or local reports, or rows drawn with replacement of a table, which is the
population itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np

import dpalgos
from data.prepare.table_design import PreparedTable
from dpalgos.intervals.half_widths import NAIVE_HALF_WIDTH
from tasks.problems.local_regression import SimulatedPeople
from tasks.problems.problem import Draw, Estimation, HeadlineRun, Problem
from tasks.problems.registered_table import RegisteredTableProblem
from tasks.problems.simulation import RowSimulation
from tasks.problems.user_simulation import GaussianUsers, UsersOfSigns
from tasks.work_units import Replicates

COVERAGE = "coverage"
FLAGGED = "flagged"
PIVOT = "squared_error_over_half_width"
NAIVE_COVERAGE = "coverage_without_noise"
SIGNS = "signs_known"


@dataclass(frozen=True, eq=False, kw_only=True)
class IntervalDraw(Estimation):
    """Data with a target, of which the coverage of an answer's intervals is measured."""

    def measure_answer(self, answer: dpalgos.Result) -> np.ndarray:
        """Return the error and means over coordinates of coverage and width, (7, R).

        Whether there is an interval; whether it covers; the squared error of its middle over its squared half
        width; whether an interval without the noise covers; whether there is one; whether the interval lies
        on the side of zero that the target is on.
        """
        off = np.abs(self.columns(answer.estimate) - self.target[:, None])
        lower = upper = np.full_like(off, np.nan)
        if answer.interval is not None:
            lower, upper = (self.columns(end) for end in answer.interval)
        half, target = (upper - lower) / 2, self.target[:, None]
        there = np.isfinite(half)
        naive = np.broadcast_to(answer.diagnostics.get(NAIVE_HALF_WIDTH, np.nan), off.shape)
        middle_off = np.where(there, np.abs((lower + upper) / 2 - target), 0.0)
        squares = (middle_off / np.where(there, half, 1.0)) ** 2
        signs = ((lower > 0) & (target > 0)) | ((upper < 0) & (target < 0))
        covered = (lower <= target) & (target <= upper)
        shares = [there, covered, squares, off <= naive, np.isfinite(naive), signs]
        return np.stack([np.linalg.norm(off, axis=0), *(share.mean(axis=0) for share in shares)])


class IntervalProblem(Problem):
    """The metrics of intervals, for any kind of data.

    A new kind of data is a class of this one and of a problem whose draws are an :class:`Estimation`.
    """

    panel_word: ClassVar[str] = "panel"
    metric: ClassVar[str] = "l2_error"

    def smoke_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted(sizes)[:2])

    def draws(self, replicates: Replicates, prepared: Any) -> Iterator[Draw]:
        """Yield the draws of the other base class as draws on which intervals are measured."""
        for draw in super().draws(replicates, prepared):  # type: ignore[safe-super]
            assert isinstance(draw, Estimation)
            shared = {part.name: getattr(draw, part.name) for part in fields(Estimation)}
            yield IntervalDraw(**shared)

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

    def exhibits(self, run: HeadlineRun) -> dict[str, Any]:
        names = {
            "coverage": COVERAGE,
            "flagged": FLAGGED,
            "pivot": PIVOT,
            "naive": NAIVE_COVERAGE,
            "signs": SIGNS,
        }
        return {"covered_shares": {**names, "n": run.replicates.n}}


class IntervalSimulation(IntervalProblem, RowSimulation):
    kind: Literal["interval_simulation"]
    estimates: Literal["mean", "linear_regression", "glm"] = "linear_regression"  # what is estimated

    @property
    def task(self) -> str:
        return self.estimates

    def n_bytes(self, n: int) -> int:
        d = self.sizes(n)["d"]
        return 8 * n * (d + d * (d + 1) // 2)


class Resamples(RegisteredTableProblem):
    """Rows of a table drawn with replacement; the truth is the answer of all of them."""

    def draws(self, replicates: Replicates, prepared: PreparedTable) -> Iterator[Draw]:
        keywords: dict[str, Any] = {"family": self.family} if self.family else {}
        name = {"mean": "sample_mean", "glm": "glm"}.get(self.task, "ols")
        unused = np.random.default_rng(0)
        target = dpalgos.estimate(name, prepared.X, prepared.y, rng=unused, **keywords).estimate
        public_X, public_y = self.public_X, self.public_y
        for replicate, rng in replicates.generators("rows"):
            rows = rng.integers(0, len(prepared.X), replicates.n)
            y = None if prepared.y is None else prepared.y[rows]
            sample = dpalgos.Sample(prepared.X[rows], y, public_rows=public_X)
            yield Estimation(sample=sample, first=replicate, target=target, public_y=public_y)


class IntervalResamples(IntervalProblem, Resamples):
    """Intervals for the answer on a whole table, from n of its rows drawn with replacement."""

    kind: Literal["interval_resamples"]


class IntervalUsers(IntervalProblem, GaussianUsers):
    """Intervals for the mean of users."""

    kind: Literal["interval_users"]


class IntervalUserRegression(IntervalProblem, UsersOfSigns):
    """Intervals for the coefficients of users."""

    kind: Literal["interval_user_regression"]


class IntervalReports(IntervalProblem, SimulatedPeople):
    """Intervals for the coefficients of a simulation, from local reports."""

    kind: Literal["interval_reports"]

    task: ClassVar[str] = "linear_regression"
