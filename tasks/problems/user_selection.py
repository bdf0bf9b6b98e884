"""Choosing the best of K candidates by the losses of simulated users: what the choice loses."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

import dpalgos
from tasks.problems.problem import Draw, HeadlineRun, Problem
from tasks.work_units import Replicates


@dataclass(frozen=True, eq=False, kw_only=True)
class Choice(Draw):
    """Users and the expected loss of each candidate, (K,)."""

    losses: np.ndarray

    def measure(self, estimate: np.ndarray) -> np.ndarray:
        """Return the expected loss of the chosen candidates beyond the least one's, (R,)."""
        return np.asarray(self.losses @ self.columns(estimate) - self.losses.min())


class UserSelection(Problem):
    """On every row a candidate loses 0 or 1; with chances from .3 to .7, equally spaced.

    A user's mean losses of n rows are drawn as a single row, the k-th entry of which has half its square for
    the k-th candidate's loss: the candidates are the unit vectors.
    """

    kind: Literal["user_selection"]
    users: Annotated[int, Field(strict=True, ge=2)]
    candidates: Annotated[int, Field(strict=True, ge=2)]

    size_symbol: ClassVar[str] = "m"
    source: ClassVar[str] = "users who toss coins"
    task: ClassVar[str] = "linear_regression"
    metric: ClassVar[str] = "excess_loss"

    def sizes(self, n: int) -> dict[str, int]:
        return {"n": n, "d": self.candidates}

    def elements(self, n: int) -> int:
        """Return 20 times the size of the data: a candidate's scores are drawn again and again."""
        return 20 * self.users * self.candidates

    def n_bytes(self, n: int) -> int:
        return 40 * self.users * self.candidates

    def draws(self, replicates: Replicates, prepared: None) -> Iterator[Draw]:
        chances = np.linspace(0.3, 0.7, self.candidates)
        for replicate, rng in replicates.generators("data"):
            lost = rng.binomial(replicates.n, chances, (self.users, self.candidates)) / replicates.n
            roots, users = np.sqrt(2 * lost), np.arange(self.users)
            sample = dpalgos.Sample(roots, np.zeros(self.users), user_ids=users)
            yield Choice(sample=sample, first=replicate, losses=chances)

    def exhibits(self, run: HeadlineRun) -> dict[str, Any]:
        return {"selection_rules": {"metric": self.metric}}
