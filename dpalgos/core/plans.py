"""Plans that divide a budget over releases.

T Gaussian releases of noise multiplier z are exactly one of multiplier z/√T. So a plan of Gaussian releases
gives each label a share of μ², the squared parameter of Gaussian differential privacy, for all its releases
together. Shares that sum to 1 prove exactly (ε, δ).
"""

from collections.abc import Mapping
from typing import NamedTuple

from dpalgos.accounting.budget import SplitBudget
from dpalgos.core.slots import Gaussian


class Share(NamedTuple):
    """The share of a label in a budget, for all its ``times`` releases together; see :class:`Slot`."""

    share: float
    times: int = 1
    forms: tuple[str, ...] = ()


def gaussian_plan(epsilon: float, delta: float, shares: Mapping[str, Share]) -> dict[str, Gaussian]:
    """Return a plan of Gaussian releases by their shares of μ², which sum to 1."""
    budget = SplitBudget(epsilon=epsilon, delta=delta, shares={label: s.share for label, s in shares.items()})
    return {
        label: Gaussian(budget.gaussian_multiplier(label, one.times), times=one.times, forms=one.forms)
        for label, one in shares.items()
    }
