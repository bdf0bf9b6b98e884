"""Composition by privacy-loss distributions, where every event has a dominating pair.

The numerical work is dp-accounting's, which rounds losses up: the ε is an upper bound. It takes up to
seconds, so results are cached by the events' costs.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit
from scipy.stats import binom

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
        one = _dominating_pair(kind, parameter, count, interval)
        composed = one if composed is None else composed.compose(one)
    with np.errstate(over="ignore"):
        return 0.0 if composed is None else float(composed.get_epsilon_for_delta(delta))


def _dominating_pair(kind: str, parameter: float, count: int, interval: float) -> "PrivacyLossDistribution":
    """Return the losses of ``count`` events, rounded up once: a shift by √count/z, or a binomial."""
    # Half a second to import, and most runs are purely Gaussian.
    from dp_accounting.pld import privacy_loss_distribution as pld

    if kind == "gaussian":
        return pld.from_gaussian_mechanism(parameter / np.sqrt(count), value_discretization_interval=interval)
    ups = np.arange(count + 1)
    losses = np.ceil(parameter * (2 * ups - count) / interval).astype(int)
    masses: dict[int, float] = {}
    for loss, mass in zip(losses.tolist(), binom.pmf(ups, count, expit(parameter)).tolist(), strict=True):
        masses[loss] = masses.get(loss, 0.0) + mass
    return pld.PrivacyLossDistribution.create_from_rounded_probability(masses, 0.0, interval)


def _interval(costs: tuple[Cost, ...]) -> float:
    spread = sum(
        count * (parameter if kind == "pure" else 1 / parameter**2 + 10 / parameter)
        for kind, parameter, count in costs
    )
    # Rounding costs up to one interval per cost; the grid must resolve the smallest loss too.
    finest = min(_INTERVAL, 1e-3 * max(spread, 1e-6) / max(len(costs), 1))
    return max(finest, spread / 2e6)
