"""Means of simulated users of m rows each: what errors owe to the numbers of users, rows and columns."""

from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np

import dpalgos
from tasks.problems.problem import ELEMENTS_BESIDE, Draw, Estimation, Problem, spread_over_blocks
from tasks.rules import RuleError, whole
from tasks.work_units import Replicates


class SimulatedUsers(Problem):
    """Users who all have as many rows, drawn anew in every replicate.

    Attributes
    ----------
    users, samples : int or str
        Numbers of users and of rows of each, which may be rules in n, the size of the study's grid.
    d : int
    """

    users: int | str
    samples: int | str
    d: int

    size_symbol: ClassVar[str] = "m"

    def check(self, n: int, task: str) -> None:
        """Refuse fewer than two users, no rows, or no columns."""
        if self.n_users(n) < 2 or self.n_samples(n) < 1 or self.d < 1:
            raise RuleError("users must be at least 2, samples and d at least 1; take larger ones")

    def sizes(self, n: int) -> dict[str, int]:
        return {"n": n, "d": self.d}

    def n_users(self, n: int) -> int:
        """Return the number of users."""
        return whole(self.users, {"n": n}, what="users")

    def n_samples(self, n: int) -> int:
        """Return the number of rows of a user."""
        return whole(self.samples, {"n": n}, what="samples")


class GaussianUsers(SimulatedUsers):
    """Users whose rows are N(μ, I), every entry of μ the same.

    A user's mean is drawn as one row, whose law it has.

    Attributes
    ----------
    center : float
        Every entry of μ.
    value_bound : float
        Of what is known of it beforehand: it lies in ± this.
    """

    center: float = 0.5
    value_bound: float = 10.0

    @property
    def source(self) -> str:
        return "Gaussian users"

    @property
    def task(self) -> str:
        return "mean"

    def ranges(self, n: int, n_cells: int, replicates: int) -> list[tuple[int, int, int]]:
        return spread_over_blocks(replicates, (n_cells + 1) * (self.n_users(n) * self.d + ELEMENTS_BESIDE))

    def n_bytes(self, n: int) -> int:
        """Return the memory of one data set, with what its rotation takes."""
        return 40 * self.n_users(n) * self.d

    def draws(self, replicates: Replicates, prepared: None) -> Iterator[Draw]:
        n_users, spread = self.n_users(replicates.n), float(self.n_samples(replicates.n)) ** -0.5
        for replicate, rng in replicates.generators("data"):
            yield Estimation(
                sample=dpalgos.Sample(
                    rng.normal(self.center, spread, (n_users, self.d)), user_ids=np.arange(n_users)
                ),
                first=replicate,
                replicates=1,
                target=np.full(self.d, self.center),
                batched=False,
            )


class UserSimulation(GaussianUsers):
    """Estimation of the mean of Gaussian users."""

    kind: Literal["user_simulation"]

    def rates(self, task: str, n: int, epsilon: float, delta: float) -> dict[str, float]:
        """Return the rate of users' means, with what remains however many rows they have."""
        from dpalgos.theory.rates import user_floor, user_mean_rate

        users, samples = self.n_users(n), self.n_samples(n)
        rate = user_mean_rate(users, samples, self.d, epsilon)
        floor = user_floor(users, epsilon, self.value_bound)
        return {"rate of users' means, no constants": max(rate, floor)}
