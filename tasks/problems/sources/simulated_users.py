"""Simulated users of m rows each: what errors owe to users, rows and columns, and what a choice loses."""

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

import dpalgos
from tasks.cells import Replicates
from tasks.file_schema import Number, Whole
from tasks.problems.measures.estimation import ESTIMATION
from tasks.problems.measures.intervals import INTERVALS
from tasks.problems.problem import Cost, Draw, Kind, RowSource, Traits
from tasks.problems.theory import user_floor, user_mean_rate
from tasks.size_rules import RuleError, whole


class SimulatedUsers(RowSource):
    """Users with equally many rows, drawn again in every replicate."""

    users: Whole | str  # number of users, which may be a rule in n, the size of the study's grid
    samples: Whole | str  # number of rows of each, or a rule
    d: Whole

    def check(self, n: int, task: str, estimators: Sequence[str] = ()) -> None:
        if self.n_users(n) < 2 or self.n_samples(n) < 1 or self.d < 1:
            raise RuleError("users must be at least 2, samples and d at least 1; take larger ones")

    def sizes(self, n: int) -> dict[str, int]:
        return {"n": n, "d": self.d}

    def n_people(self, n: int) -> int:
        return self.n_users(n)

    def n_users(self, n: int) -> int:
        return whole(self.users, {"n": n}, what="users")

    def n_samples(self, n: int) -> int:
        return whole(self.samples, {"n": n}, what="samples")


class GaussianUsers(SimulatedUsers):
    """Users of rows N(μ, I), all entries of μ the same; a user's mean is drawn, whose law is known.

    It is in one row, or in as many as the user has where their numbers are unequal.
    """

    center: Number = 0.5  # every entry of μ
    # Users have this many rows to ``samples``, log-uniform; None: all have ``samples``.
    fewest: Whole | None = None
    value_bound: Number = 10.0  # what is known of it beforehand: it lies in ± this

    source: ClassVar[str] = "Gaussian users"
    traits: ClassVar[Traits] = Traits(task="mean", size_symbol="m", of_people=True)

    def check(self, n: int, task: str, estimators: Sequence[str] = ()) -> None:
        super().check(n, task, estimators)
        if self.fewest is not None and not 1 <= self.fewest <= self.n_samples(n):
            raise RuleError(f"fewest must lie between 1 and samples, got {self.fewest}; change one of them")

    def cost(self, n: int) -> Cost:
        """Return the cost; the memory is that of one dataset, with what its rotation takes."""
        elements = self.n_users(n) * self.d * (1 if self.fewest is None else self.n_samples(n))
        return Cost(elements=elements, n_bytes=40 * elements)

    def draws(self, replicates: Replicates, prepared: None) -> Iterator[Draw]:
        n_users, most = self.n_users(replicates.n), self.n_samples(replicates.n)
        for replicate, rng in replicates.generators("data"):
            if self.fewest is None:
                means = rng.normal(self.center, float(most) ** -0.5, (n_users, self.d))
                sample = dpalgos.Sample(means, user_ids=np.arange(n_users))
            else:
                rows = np.exp(rng.uniform(np.log(self.fewest), np.log(most + 1), n_users)).astype(int)
                means = rng.normal(self.center, rows[:, None] ** -0.5, (n_users, self.d))
                ids = np.repeat(np.arange(n_users), rows)
                sample = dpalgos.Sample(means[ids], user_ids=ids)
            yield Draw(sample=sample, first=replicate, target=np.full(self.d, self.center))

    def rates(self, task: str, n: int, epsilon: float, delta: float) -> dict[str, float]:
        """Return the rate of users' means of equally many rows, with what remains however many they have."""
        if self.fewest is not None:
            return {}
        users, samples = self.n_users(n), self.n_samples(n)
        rate = user_mean_rate(users, samples, self.d, epsilon)
        floor = user_floor(users, epsilon, self.value_bound)
        return {"rate of users' means, no constants": max(rate, floor)}


class UsersOfSigns(SimulatedUsers):
    """Covariates are ±1, y = x'θ + an error uniform on [−1, 1]; half of θ are ``coef``, the others 0."""

    coef: Number

    source: ClassVar[str] = "users of signs"
    # E xx' = I
    traits: ClassVar[Traits] = Traits(
        task="linear_regression", errors=("excess_risk",), size_symbol="m", of_people=True
    )

    def cost(self, n: int) -> Cost:
        """Return the cost: every step of a fit is a pass over the rows, and phases have their own copies."""
        elements = 4 * self.n_users(n) * self.n_samples(n) * self.d
        return Cost(elements=elements, n_bytes=8 * elements)

    def draws(self, replicates: Replicates, prepared: None) -> Iterator[Draw]:
        n_users, m = self.n_users(replicates.n), self.n_samples(replicates.n)
        truth = np.where(np.arange(self.d) < self.d // 2, self.coef, 0.0)
        for replicate, rng in replicates.generators("data"):
            X = rng.integers(0, 2, (n_users * m, self.d), dtype=np.int8) * 2.0 - 1.0
            y = X @ truth + rng.uniform(-1, 1, n_users * m)
            sample = dpalgos.Sample(X, y, user_ids=np.repeat(np.arange(n_users), m))
            yield Draw(sample=sample, first=replicate, target=truth)


class UsersWithCandidates(RowSource):
    """Users to choose among candidates, each of which loses 0 or 1 on a row.

    Probabilities of a loss are from 0.3 to 0.7, equally spaced; they are the target.

    A user's mean losses of n rows are drawn as a single row. Half the square of its k-th entry is the k-th
    candidate's loss: the candidates are the unit vectors.
    """

    users: Annotated[int, Field(strict=True, ge=2)]
    candidates: Annotated[int, Field(strict=True, ge=2)]

    source: ClassVar[str] = "users who toss coins"
    traits: ClassVar[Traits] = Traits(
        task="linear_regression", errors=("excess_loss",), size_symbol="m", of_people=True
    )

    def sizes(self, n: int) -> dict[str, int]:
        return {"n": n, "d": self.candidates}

    def n_people(self, n: int) -> int:
        return self.users

    def cost(self, n: int) -> Cost:
        """Return the cost: a candidate's scores are drawn again and again."""
        size = self.users * self.candidates
        return Cost(elements=20 * size, n_bytes=40 * size)

    def draws(self, replicates: Replicates, prepared: None) -> Iterator[Draw]:
        chances = np.linspace(0.3, 0.7, self.candidates)
        for replicate, rng in replicates.generators("data"):
            lost = rng.binomial(replicates.n, chances, (self.users, self.candidates)) / replicates.n
            roots, users = np.sqrt(2 * lost), np.arange(self.users)
            sample = dpalgos.Sample(roots, np.zeros(self.users), user_ids=users)
            yield Draw(sample=sample, first=replicate, target=chances)


KINDS = {
    "user_simulation": Kind(GaussianUsers, ESTIMATION, intervals=INTERVALS),
    "user_regression_simulation": Kind(UsersOfSigns, ESTIMATION, intervals=INTERVALS),
    "user_selection": Kind(UsersWithCandidates, ESTIMATION),
}
