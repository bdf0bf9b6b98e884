"""Choosing the best of K candidates by the losses of simulated users: what the choice loses."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

import dpalgos
from tasks.problems.abilities import HeadlineRun
from tasks.problems.problem import ELEMENTS_BESIDE, Draw, Problem, spread_over_blocks
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

    @property
    def source(self) -> str:
        return "users who toss coins"

    @property
    def task(self) -> str:
        return "linear_regression"

    @property
    def metric(self) -> str:
        """The expected loss of the chosen candidate, minus that of the best one."""
        return "excess_loss"

    def sizes(self, n: int) -> dict[str, int]:
        """Return the size and the number of candidates, which is that of columns."""
        return {"n": n, "d": self.candidates}

    def ranges(self, n: int, n_cells: int, replicates: int) -> list[tuple[int, int, int]]:
        """Return blocks of about as much data each; a candidate's scores are drawn again and again."""
        passes = 20 * (n_cells + 1)
        return spread_over_blocks(replicates, passes * (self.users * self.candidates + ELEMENTS_BESIDE))

    def n_bytes(self, n: int) -> int:
        """Return the memory of one data set and its losses."""
        return 40 * self.users * self.candidates

    def draws(self, replicates: Replicates, prepared: None) -> Iterator[Draw]:
        chances = np.linspace(0.3, 0.7, self.candidates)
        for replicate, rng in replicates.generators("data"):
            lost = rng.binomial(replicates.n, chances, (self.users, self.candidates)) / replicates.n
            yield Choice(
                sample=dpalgos.Sample(
                    np.sqrt(2 * lost), np.zeros(self.users), user_ids=np.arange(self.users)
                ),
                first=replicate,
                replicates=1,
                losses=chances,
                batched=False,
            )

    def exhibits(self, run: HeadlineRun) -> dict[str, Any]:
        """Return the metric that compares the rules of selection."""
        return {"selection_rules": {"metric": self.metric}}
