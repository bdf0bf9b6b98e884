"""Coverage of intervals under local privacy: regressions of people with one report each."""

from typing import ClassVar, Literal

from tasks.problems.interval_coverage import IntervalProblem
from tasks.problems.local_regression import SimulatedPeople


class IntervalReports(IntervalProblem, SimulatedPeople):
    """Intervals for the coefficients of a simulation, from local reports."""

    kind: Literal["interval_reports"]

    task: ClassVar[str] = "linear_regression"
