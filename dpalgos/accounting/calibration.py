"""Calibration by search: the smallest noise at which the accountant proves (ε, δ).

If every release is Gaussian, :func:`dpalgos.accounting.gaussian_dp.noise_multiplier` is exact. A mixture of
Gaussian releases and selections is first planned by zero-concentrated DP
(:func:`dpalgos.accounting.budget.concentrated_rho`). Then all its noise is scaled by one factor. The search
finds the factor at which the planned events prove the requested ε.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import scipy

from dpalgos.accounting.composition import certified_epsilon, renyi_epsilon
from dpalgos.accounting.events import Event
from dpalgos.accounting.gaussian_dp import noise_multiplier
from dpalgos.accounting.losses import pld_epsilon
from dpalgos.accounting.other_events import SampledGaussian

_CLOSE = 0.998  # a certificate within this factor of the requested ε is not worth a search
_START = 2.0
_LARGE = 8.0  # ε above which privacy-loss distributions take seconds and gain nothing that matters


def least_noise_factor(
    planned: Callable[[float], Sequence[Event]],
    epsilon: float,
    delta: float,
    *,
    most: float = 1.0,
    renyi_only: bool = False,
) -> float:
    """Return the smallest factor on the noise of a plan at which its events prove (ε, δ).

    The certified ε is at least 0.998 times the requested one.

    Parameters
    ----------
    planned : callable
        Factor → the events of a run whose noise is multiplied by it.
    most : float
        A factor at which the plan is known to hold: 1 for a plan by zero-concentrated DP.
    renyi_only : bool
        Whether to use Rényi DP only, which is fast.
    """
    prove = renyi_epsilon if renyi_only or epsilon > _LARGE else certified_epsilon

    def excess(log_factor: float) -> float:
        certified = prove(planned(float(np.exp(log_factor))), delta)
        return float(np.log(max(certified, 1e-300) / epsilon))

    high = float(np.log(most))
    while (excess_at_high := excess(high)) > 0:  # rounding in a plan that holds exactly
        high += 1e-6
    if excess_at_high >= np.log(_CLOSE):
        return float(np.exp(high))
    low = high - 0.05
    while excess(low) < 0:
        low, high = 2 * low - high, low
    root = float(scipy.optimize.brentq(excess, low, high, xtol=2e-4, rtol=1e-6))
    while excess(root) > 0:
        root += 2e-4
    return float(np.exp(root))


def least_noise(
    events: Sequence[Event], epsilon: float, delta: float, *, holds: bool = True, many: bool = False
) -> float:
    """Return the factor on the noise of planned releases at which they prove (ε, δ), to 0.998 of ε.

    If ``holds``, the plan itself is known to prove (ε, δ). Otherwise, or if releases are ``many``, the search
    starts from a plan that Rényi DP proves, which is fast.
    """
    return _least_factor(tuple(events), epsilon, delta, holds, many or not holds)


@lru_cache(maxsize=4096)
def _least_factor(events: tuple[Event, ...], epsilon: float, delta: float, holds: bool, many: bool) -> float:
    def planned(factor: float) -> list[Event]:
        return [event.scaled(factor) for event in events]

    most = 1.0 if holds else np.inf
    if many:
        by_renyi = least_noise_factor(planned, epsilon, delta, most=_START, renyi_only=True)
        most = min(by_renyi, most)
    return least_noise_factor(planned, epsilon, delta, most=most)


@lru_cache(maxsize=1024)
def sampled_noise_multiplier(epsilon: float, delta: float, rate: float, n_releases: int) -> float:
    """Return about the smallest z at which ``n_releases`` sums over Poisson samples are (ε, δ)-DP."""

    def excess(log_multiplier: float) -> float:
        event = SampledGaussian(float(np.exp(log_multiplier)), rate, times=n_releases)
        return float(np.log(max(pld_epsilon((event,), delta), 1e-300) / epsilon))

    # Valid if all rows are drawn; the grid adds less than 0.005.
    high = float(np.log(noise_multiplier(epsilon, delta, n_releases))) + 0.005
    low = high + float(np.log(rate))
    if excess(high) > 0:
        return float(np.exp(high))
    while excess(low) < 0:
        low -= 1.0
    root = float(scipy.optimize.brentq(excess, low, high, xtol=1e-4))
    while excess(root) > 0:
        root += 1e-4
    return float(np.exp(root))


def printed_rho(epsilon: float, delta: float) -> float:
    """Return the ρ of an (ε, δ) by the papers' formula ε = ρ + 2 √(ρ log 1/δ) (Bun & Steinke 2016)."""
    log_term = -np.log(delta)
    return float((epsilon / (np.sqrt(epsilon + log_term) + np.sqrt(log_term))) ** 2)
