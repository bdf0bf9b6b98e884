"""Calibration by search: the least noise at which the accountant proves (ε, δ).

Where every release is Gaussian, :func:`dpalgos.accounting.gaussian_dp.noise_multiplier` is exact. A mixture
of Gaussian releases and selections is planned by zero-concentrated DP
(:func:`dpalgos.accounting.budget.concentrated_rho`); then all its noise is scaled by one factor until the
planned events prove just the requested ε.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.composition import certified_epsilon, renyi_epsilon
from dpalgos.accounting.events import BoundedRangeEvent, Event, GaussianEvent
from dpalgos.accounting.gaussian_dp import noise_multiplier
from dpalgos.accounting.losses import EventCost, pld_epsilon

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
    """Return the least factor on the noise of a plan at which its events prove (ε, δ), to .998 of ε.

    ``planned`` maps a factor to the events of a run whose noise is multiplied by it; ``most`` is a factor at
    which the plan is known to hold, 1 for a plan by zero-concentrated DP. ``renyi_only`` proves by Rényi DP
    alone, which is fast.
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


def least_noise_factor_of_many(
    planned: Callable[[float], Sequence[Event]], epsilon: float, delta: float, *, most: float = 1.0
) -> float:
    """Return the same, faster for very many releases: the search begins where Rényi DP alone proves (ε, δ).

    ``most`` is infinite where no factor is known at which the plan holds.
    """
    by_renyi = least_noise_factor(planned, epsilon, delta, most=_START, renyi_only=True)
    return least_noise_factor(planned, epsilon, delta, most=min(by_renyi, most))


def least_noise(
    budget: SplitBudget,
    *,
    selections: Mapping[str, int],
    gaussians: Mapping[str, int],
    search: Callable[[Callable[[float], Sequence[Event]], float, float], float] = least_noise_factor,
) -> dict[str, float]:
    """Return the least noise of a budget's parts: ε0 of selections, multipliers of Gaussian releases.

    ``selections`` and ``gaussians`` map parts to how many selections of bounded range, or Gaussian releases,
    they make. Shares are of ρ, which proves (ε, δ); then all noise is scaled by the factor that ``search``
    finds.
    """
    chosen = {part: budget.selection_epsilon(part, count) for part, count in selections.items()}
    released = {part: budget.gaussian_multiplier(part, count) for part, count in gaussians.items()}

    def planned(factor: float) -> list[Event]:
        # Rounded as noise of scale 2/ε0 is, so that the certificate of a run is one that was computed here.
        epsilons = {part: 2 / (2 / (one / factor)) for part, one in chosen.items()}
        events: list[Event] = [
            BoundedRangeEvent(label="", epsilon=one, sensitivity=1.0, count=selections[part])
            for part, one in epsilons.items()
        ]
        for part, z in released.items():
            count = gaussians[part]
            events.append(
                GaussianEvent(label="", noise_multiplier=factor * z, l2_sensitivity=1.0, count=count)
            )
        return events

    factor = search(planned, budget.epsilon, budget.delta)
    scaled = {part: one / factor for part, one in chosen.items()}
    return scaled | {part: factor * z for part, z in released.items()}


@lru_cache(maxsize=1024)
def sampled_noise_multiplier(epsilon: float, delta: float, rate: float, n_releases: int) -> float:
    """Return about the least z at which ``n_releases`` sums over Poisson samples are (ε, δ)-DP together."""

    def excess(log_multiplier: float) -> float:
        cost = EventCost("sampled", float(np.exp(log_multiplier)), n_releases, rate)
        return float(np.log(max(pld_epsilon((cost,), delta), 1e-300) / epsilon))

    # As if all rows were drawn: holds exactly, and the grid adds less than that.
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


@dataclass(frozen=True, kw_only=True)
class TunedNoise:
    """The noise of a pipeline that makes selections in order to tune, and fits.

    ε0 of each selection and, for each fit, the factor on the noise that would make it (ε, δ)-DP by itself.
    """

    selection_epsilon: float
    fit_factors: tuple[float, ...]


def tuned_noise(
    fit: Callable[[float], Sequence[Event]],
    *,
    epsilon: float,
    delta: float,
    selection_share: float,
    n_selections: int,
    fit_shares: Sequence[float] = (),
) -> TunedNoise:
    """Return the least noise at which selections and fits are together (ε, δ)-DP.

    ``fit`` maps a factor to the events of a fit whose noise is multiplied by it, (ε, δ)-DP at 1. Selections
    of bounded range divide ``selection_share`` of ρ evenly; fits have ``fit_shares``, or are one with the
    rest.
    """
    shares = tuple(fit_shares) or (1 - selection_share,)
    named = {"selections": selection_share, **{f"fit {k + 1}": share for k, share in enumerate(shares)}}
    budget = SplitBudget(epsilon=epsilon, delta=delta, shares=named, gaussian=False)
    alone = budget.selection_epsilon("selections", n_selections)

    def planned(factor: float) -> list[Event]:
        selections = BoundedRangeEvent(label="", epsilon=alone / factor, sensitivity=1.0, count=n_selections)
        return [selections, *(event for share in shares for event in fit(factor / np.sqrt(share)))]

    # A fit that is calibrated exactly may exceed its share of ρ: at 1 the plan need not hold.
    factor = least_noise_factor_of_many(planned, epsilon, delta, most=np.inf)
    return TunedNoise(
        selection_epsilon=alone / factor,
        fit_factors=tuple(float(factor / np.sqrt(share)) for share in shares),
    )
