"""Regressions of simulated users of m rows each: what private coefficients cost in risk."""

from collections.abc import Iterator
from typing import Literal

import numpy as np

import dpalgos
from tasks.problems.problem import ELEMENTS_BESIDE, Draw, Estimation, spread_over_blocks
from tasks.problems.user_simulation import SimulatedUsers
from tasks.work_units import Replicates


class ExcessRisk(Estimation):
    """Data with E xx' = I: the squared error of a row, halved, is least at the target."""

    def measure(self, estimate: np.ndarray) -> np.ndarray:
        """Return the risks above the least, half the squared distances to the target, (R,)."""
        return np.asarray(super().measure(estimate) ** 2 / 2)


class UsersOfSigns(SimulatedUsers):
    """Covariates are ±1, y = x'θ + an error uniform on [−1, 1]; half of θ are ``coef``, the others 0."""

    coef: float

    @property
    def source(self) -> str:
        return "users of signs"

    @property
    def task(self) -> str:
        return "linear_regression"

    def ranges(self, n: int, n_cells: int, replicates: int) -> list[tuple[int, int, int]]:
        """Return blocks of about as much data each; every step of a fit is a pass over the rows."""
        return spread_over_blocks(replicates, 4 * (n_cells + 1) * (self._size(n) + ELEMENTS_BESIDE))

    def n_bytes(self, n: int) -> int:
        """Return the memory of one data set, with the phases' own copies."""
        return 32 * self._size(n)

    def _size(self, n: int) -> int:
        return self.n_users(n) * self.n_samples(n) * self.d

    def draws(self, replicates: Replicates, prepared: None) -> Iterator[Draw]:
        n_users, m = self.n_users(replicates.n), self.n_samples(replicates.n)
        truth = np.where(np.arange(self.d) < self.d // 2, self.coef, 0.0)
        for replicate, rng in replicates.generators("data"):
            X = rng.integers(0, 2, (n_users * m, self.d), dtype=np.int8) * 2.0 - 1.0
            y = X @ truth + rng.uniform(-1, 1, n_users * m)
            yield ExcessRisk(
                sample=dpalgos.Sample(X, y, user_ids=np.repeat(np.arange(n_users), m)),
                first=replicate,
                replicates=1,
                target=truth,
                batched=False,
            )


class UserRegressionSimulation(UsersOfSigns):
    """Estimation of the coefficients of users of signs."""

    kind: Literal["user_regression_simulation"]

    @property
    def metric(self) -> str:
        return "excess_risk"
