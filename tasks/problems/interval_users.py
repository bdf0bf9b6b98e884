"""Coverage of intervals where whole users are protected: means of users, and regressions of their rows."""

from typing import Literal

from tasks.problems.interval_coverage import IntervalProblem
from tasks.problems.user_simulation import GaussianUsers, UsersOfSigns


class IntervalUsers(IntervalProblem, GaussianUsers):
    """Intervals for the mean of users."""

    kind: Literal["interval_users"]


class IntervalUserRegression(IntervalProblem, UsersOfSigns):
    """Intervals for the coefficients of users."""

    kind: Literal["interval_user_regression"]
