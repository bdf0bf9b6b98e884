"""The Gaussian mechanism, exactly (Balle & Wang 2018; Gaussian DP, Dong, Roth & Su 2022).

T adaptively chosen releases with noise multipliers z_t are exactly one Gaussian release with μ² = Σ 1/z_t².
Therefore everything here is in terms of μ = 1/z.
"""

from functools import lru_cache

import numpy as np
import scipy

from dpalgos.errors import InputError, shown
from dpalgos.release.checks import is_number

# Calibration keeps this relative margin: rounding never raises the certified ε above the requested one.
_MARGIN = 1e-10
_SMALLEST_EPSILON = 1e-6
# Budgets that double precision accounts for without overflow or underflow, on the grid of orders.
EPSILONS = (1e-9, 1e6)
DELTAS = (1e-100, 0.9)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the smallest δ at which μ-Gaussian DP gives (ε, δ)-DP; μ is sensitivity over noise.

    δ(ε; μ) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2), computed from logarithms.
    """
    if mu == 0:
        return 0.0
    if not np.isfinite(mu):
        return 1.0
    first = scipy.special.log_ndtr(-epsilon / mu + mu / 2)
    second = epsilon + scipy.special.log_ndtr(-epsilon / mu - mu / 2)
    return float(-np.exp(first) * np.expm1(min(second - first, 0.0)))


@lru_cache(maxsize=4096)
def gaussian_epsilon(delta: float, mu: float) -> float:
    """Return the smallest ε ≥ 0 at which μ-Gaussian DP gives (ε, δ)-DP; infinite for δ = 0 or μ = ∞."""
    if mu == 0 or gaussian_delta(0.0, mu) <= delta:
        return 0.0
    if delta <= 0 or not np.isfinite(mu):
        return float("inf")
    upper = mu * mu / 2 + mu * np.sqrt(2 * np.log(1 / delta)) + 1e-12
    root = scipy.optimize.brentq(
        lambda epsilon: gaussian_delta(epsilon, mu) - delta, 0.0, upper, xtol=1e-14, rtol=1e-13
    )
    return float(root) * (1 + 1e-12)


@lru_cache(maxsize=4096)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest μ for which μ-Gaussian DP gives (ε, δ)-DP; refuse an invalid (ε, δ).

    This is the inverse of :func:`gaussian_epsilon`, rounded down by a relative 1e-10.
    """

    check_budget(epsilon, delta)
    if epsilon < _SMALLEST_EPSILON:
        epsilon = 0.0  # a smaller μ than the given ε allows: more noise, but no cancellation
    low, high = 1.0, 1.0
    while gaussian_delta(epsilon, high) < delta:
        high *= 2
    while gaussian_delta(epsilon, low) > delta:
        low /= 2
    root = scipy.optimize.brentq(
        lambda log_mu: gaussian_delta(epsilon, np.exp(log_mu)) - delta, np.log(low), np.log(high)
    )
    mu = float(np.exp(root)) * (1 - _MARGIN)
    while gaussian_delta(epsilon, mu) > delta:
        mu *= 1 - _MARGIN
    return mu


def noise_multiplier(epsilon: float, delta: float, n_releases: int = 1) -> float:
    """Return the smallest multiplier at which ``n_releases`` adaptive releases are (ε, δ)-DP together."""
    return float(np.sqrt(n_releases)) / gaussian_mu(epsilon, delta)


def check_budget(epsilon: object, delta: object) -> None:
    """Refuse an invalid (ε, δ), or one that floating point cannot account for."""
    if not is_number(epsilon) or not 0 < epsilon < np.inf:
        raise InputError(
            f"epsilon must be a positive finite number, got {shown(epsilon)}; pass e.g. epsilon=0.5"
        )
    if not is_number(delta) or not 0 < delta < 1:
        raise InputError(
            f"delta must be a number above 0 and below 1, got {shown(delta)}; pass e.g. delta=1e-6, "
            "well below 1/n"
        )
    for name, value, (minimum, maximum) in (("epsilon", epsilon, EPSILONS), ("delta", delta, DELTAS)):
        if not minimum <= value <= maximum:
            text = f"{value:g}" if isinstance(value, float) else "more"
            raise InputError(
                f"{name} must lie between {minimum:g} and {maximum:g}, got {text}; pass one in between"
            )
