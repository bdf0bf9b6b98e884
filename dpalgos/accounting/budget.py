"""An (ε, δ) split into named shares among the releases of one estimator.

Shares are of the quantity that adds up: μ² where every release is Gaussian (exact), else ρ of
zero-concentrated DP. What the releases really spend is certified from their events at the end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np
import scipy

from dpalgos.accounting.gaussian_dp import check_budget, gaussian_mu
from dpalgos.errors import InputError

_ORDERS_FROM, _ORDERS_TO = 1e-6, 1e8
_BELOW = 1 - 1e-12  # lest rounding lift a sum of parts of ε above it


@lru_cache(maxsize=4096)
def concentrated_rho(epsilon: float, delta: float) -> float:
    """Return the largest ρ for which ρ-zCDP gives (ε, δ)-DP, rounded down by a relative 1e-8.

    By the best order of Canonne, Kamath & Steinke (2020), Proposition 12:
    log δ = min over α > 1 of (α − 1)(αρ − ε) − log(α − 1) + α log(1 − 1/α).
    """

    check_budget(epsilon, delta)
    # The best order grows as log(1/δ)/ε.
    largest = max(_ORDERS_TO, -1e3 * float(np.log(delta)) / epsilon)
    orders = 1 + np.geomspace(_ORDERS_FROM, largest, 40_000)
    constant = -np.log(orders - 1) + orders * np.log1p(-1 / orders) - np.log(delta)

    def excess(log_rho: float) -> float:
        return float(np.min((orders - 1) * (orders * np.exp(log_rho) - epsilon) + constant))

    return float(np.exp(scipy.optimize.brentq(excess, -700.0, np.log(epsilon + 10), xtol=1e-12))) * (1 - 1e-8)


def printed_rho(epsilon: float, delta: float) -> float:
    """Return the ρ that papers put for (ε, δ): ε = ρ + 2 √(ρ log 1/δ) (Bun & Steinke 2016)."""
    log_term = -np.log(delta)
    return float((epsilon / (np.sqrt(epsilon + log_term) + np.sqrt(log_term))) ** 2)


@dataclass(frozen=True, kw_only=True)
class SplitBudget:
    """An (ε, δ) split into named shares, as an estimator states those of its releases.

    Parameters
    ----------
    epsilon, delta : float
        The whole.
    shares : mapping of str to float
        Part → its share.
    gaussian : bool
        Whether every release is Gaussian, so that shares are of μ² and nothing is lost.

    Raises
    ------
    InputError
        If a share is not positive, or they do not sum to 1.

    Examples
    --------
    >>> budget = SplitBudget(epsilon=0.5, delta=1e-5, shares={"range": 0.1, "mean": 0.9})
    >>> budget.gaussian_multiplier("mean") < budget.gaussian_multiplier("range")
    True
    """

    epsilon: float
    delta: float
    shares: Mapping[str, float]
    gaussian: bool = True

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        object.__setattr__(self, "shares", MappingProxyType(dict(self.shares)))
        for part, share in self.shares.items():
            if not 0 < share <= 1:
                raise InputError(f"the share of {part!r} must be above 0 and at most 1, got {share!r}")
        total = sum(self.shares.values())
        if abs(total - 1) > 1e-9:
            raise InputError(f"shares must sum to 1, got {total:g} for {', '.join(self.shares)}; change one")

    def gaussian_multiplier(self, part: str, releases: int = 1) -> float:
        """Return the noise multiplier of each of a part's ``releases`` Gaussian releases."""
        share = self._share(part)
        if self.gaussian:
            mu = gaussian_mu(self.epsilon, self.delta)
            return float(np.sqrt(releases / share) / mu)
        return float(np.sqrt(releases / (2 * share * self._rho)))

    def selection_epsilon(self, part: str, selections: int = 1) -> float:
        """Return ε0 of each of a part's ``selections`` bounded-range selections, which cost ε0²/8 each."""
        if self.gaussian:
            raise InputError("a purely Gaussian budget has no selections; construct it with gaussian=False")
        return float(np.sqrt(8 * self._share(part) * self._rho / selections))

    def split_epsilon(self, part: str, releases: int = 1) -> float:
        """Return the ε of each of a part's releases where they simply add up, rounded down."""
        return _BELOW * self.epsilon * self._share(part) / releases

    @property
    def _rho(self) -> float:
        return concentrated_rho(self.epsilon, self.delta)

    def _share(self, part: str) -> float:
        if part not in self.shares:
            raise InputError(f"part must be one of {', '.join(self.shares)}, got {part!r}")
        return self.shares[part]
