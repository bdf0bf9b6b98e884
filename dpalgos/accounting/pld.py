"""Composition by privacy-loss distributions, where every event has a dominating pair.

The numerical work is dp-accounting's, which rounds losses up: the ε is an upper bound. It takes up to
seconds, so results are cached by the events' costs.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

# (kind, parameter, count): ("gaussian", noise multiplier, ·) or ("pure", ε, ·).
Cost = tuple[str, float, int]

_INTERVAL = 1e-4


@lru_cache(maxsize=512)
def pld_epsilon(costs: tuple[Cost, ...], delta: float) -> float:
    """Return an upper bound of ε at δ for the composition.

    Parameters
    ----------
    costs : tuple of (kind, parameter, count)
        Gaussian releases by their multiplier, pure ones by their ε. A pure event is dominated by
        randomised response at that ε, a Gaussian one by a shift of a standard normal by 1/z.
    delta : float
        In (0, 1).
    """
    composed = None
    interval = _interval(costs)
    for kind, parameter, count in costs:
        one = _dominating_pair(kind, parameter, interval).self_compose(count)
        composed = one if composed is None else composed.compose(one)
    with np.errstate(over="ignore"):
        return 0.0 if composed is None else float(composed.get_epsilon_for_delta(delta))


def _dominating_pair(kind: str, parameter: float, interval: float) -> "PrivacyLossDistribution":
    # Half a second to import, and most runs are purely Gaussian.
    from dp_accounting.pld import privacy_loss_distribution as pld
    from dp_accounting.pld.common import DifferentialPrivacyParameters

    if kind == "gaussian":
        return pld.from_gaussian_mechanism(parameter, value_discretization_interval=interval)
    return pld.from_privacy_parameters(
        DifferentialPrivacyParameters(parameter), value_discretization_interval=interval
    )


def _interval(costs: tuple[Cost, ...]) -> float:
    spread = sum(
        count * (parameter if kind == "pure" else 1 / parameter**2 + 10 / parameter)
        for kind, parameter, count in costs
    )
    n_releases = sum(count for _, _, count in costs)
    # Rounding costs up to one interval per release; the grid must resolve the smallest loss too.
    finest = min(_INTERVAL, 1e-3 * max(spread, 1e-6) / max(n_releases, 1))
    return max(finest, spread / 2e6)
