"""Keywords of the preconditioned estimators, and what they spend and release besides their steps."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpalgos.accounting.budget import SplitBudget
from dpalgos.catalog import Neighbors
from dpalgos.intervals.regression import RegressionInterval
from dpalgos.mechanisms import public_coordinates as public
from dpalgos.params import choice


@dataclass(frozen=True, kw_only=True, eq=False)
class PreconditionedParams(public.PublicRowsParams, RegressionInterval):
    """Keywords of linear and of generalized linear models alike."""

    intercept: bool = choice("whether the last column of X is the constant 1", (False, True), default=False)

    def divided(
        self, shares: dict[str, float], reserved: Mapping[str, float], shape: public.PublicShape | None
    ) -> SplitBudget:
        """Return how μ² is spent: reserved shares are of the whole, the others of what these leave."""
        budget = self.split_budget(shares, reserved)
        return replace(budget, shares=self.shares_with(shape, dict(budget.shares)))

    def shared_witnesses(self, d: int) -> dict[str, Neighbors]:
        return {
            public.PUBLIC_SHAPE: public.public_witness(self, d),
            **self.interval_witnesses(d),
        }
