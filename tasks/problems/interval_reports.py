"""Coverage of intervals under local privacy: regressions of people with one report each."""

from typing import Literal

from tasks.problems.interval_coverage import IntervalProblem
from tasks.problems.local_regression import SimulatedPeople


class IntervalReports(IntervalProblem, SimulatedPeople):
    """Intervals for the coefficients of a simulation, from local reports."""

    kind: Literal["interval_reports"]

    @property
    def task(self) -> str:
        return "linear_regression"
