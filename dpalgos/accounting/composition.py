"""From the events of a run to the ε that they prove.

Purely Gaussian runs compose exactly (Gaussian DP); everything else composes in Rényi DP over a
fixed grid of orders, of which zero-concentrated DP is the linear case. A run of pure events is
also certified by the sum of its ε where that is smaller.
"""

from collections.abc import Sequence

import numpy as np

from dpalgos.accounting.events import (
    BoundedRangeEvent,
    Event,
    FailureEvent,
    GaussianEvent,
    GaussianSketchEvent,
    PureEvent,
)
from dpalgos.accounting.gaussian import gaussian_delta, gaussian_epsilon
from dpalgos.typing import FloatArray

ORDERS: FloatArray = 1 + np.logspace(-3, 6, 2000)


def certified_epsilon(events: Sequence[Event], delta: float) -> float:
    """Return the smallest proved ε at δ for the adaptive composition of the events.

    Parameters
    ----------
    events : sequence of Event
        Everything that was released; an empty sequence costs nothing.
    delta : float
        The δ at which the guarantee is stated, in (0, 1).

    Returns
    -------
    float
        ε ≥ 0; infinite where the events prove nothing at this δ.
    """
    delta, releases = _without_failures(events, delta)
    if delta <= 0:
        return float("inf")
    gaussians = [event for event in releases if isinstance(event, GaussianEvent)]
    if len(gaussians) == len(releases):
        return gaussian_epsilon(delta, total_mu(gaussians))
    curve = sum((_renyi(event) for event in releases), np.zeros_like(ORDERS))
    proved = _epsilon_from_renyi(curve, delta)
    pure = [event for event in releases if isinstance(event, PureEvent | BoundedRangeEvent)]
    if len(pure) == len(releases):
        proved = min(proved, sum(event.count * event.epsilon for event in pure))
    return proved


def certified_delta(events: Sequence[Event], epsilon: float) -> float:
    """Return the smallest proved δ at ε for the adaptive composition of the events."""
    failure, releases = _without_failures(events, 0.0)
    gaussians = [event for event in releases if isinstance(event, GaussianEvent)]
    if len(gaussians) == len(releases):
        return min(1.0, gaussian_delta(epsilon, total_mu(gaussians)) - failure)
    curve = sum((_renyi(event) for event in releases), np.zeros_like(ORDERS))
    log_delta = (ORDERS - 1) * (curve - epsilon) - np.log(ORDERS - 1) + ORDERS * np.log1p(-1 / ORDERS)
    return float(min(1.0, np.exp(np.min(log_delta)) - failure))


def total_mu(events: Sequence[GaussianEvent]) -> float:
    """Return the μ of the one Gaussian release that the composition amounts to."""
    if any(event.noise_multiplier <= 0 for event in events):
        return float("inf")
    return float(np.sqrt(sum(event.count / event.noise_multiplier**2 for event in events)))


def budget_shares(events: Sequence[Event], delta: float) -> dict[str, float]:
    """Return how the budget is split among the labels of the events; the shares sum to 1.

    Shares of μ² for a purely Gaussian run, else of the Rényi divergence at the order that gives the
    certified ε. Failure events, which spend δ, are left out.
    """
    delta, releases = _without_failures(events, delta)
    curves: dict[str, FloatArray] = {}
    for event in releases:
        curves[event.label] = curves.get(event.label, np.zeros_like(ORDERS)) + _renyi(event)
    total = np.sum(list(curves.values()), axis=0) if curves else np.zeros_like(ORDERS)
    best = int(np.argmin(_renyi_bound(total, max(delta, np.finfo(float).tiny))))
    if not 0 < total[best] < np.inf:
        return {}
    return {label: float(curve[best] / total[best]) for label, curve in curves.items()}


def sketch_renyi(n_rows: int, ratio: float, orders: FloatArray = ORDERS) -> FloatArray:
    """Return the Rényi divergences of a Gaussian sketch under replacing one row.

    Replacing a row a by b changes G by bb' − aa'. In the metric of G at most two eigenvalues
    leave 1, one of them down to 1 − ratio, the other up to 1 + ratio, where ratio = B²/ridge; per
    direction D_α(N(0, κ) ‖ N(0, 1)) = −½ log κ − log(α + (1 − α)κ) / (2(α − 1)), which grows as κ
    leaves 1 on either side. The roles of the two data sets are symmetric.
    """
    if ratio >= 1:
        return np.full_like(orders, np.inf)
    total = np.zeros_like(orders)
    for kappa in (1 - ratio, 1 + ratio):
        mixture = orders + (1 - orders) * kappa
        with np.errstate(invalid="ignore", divide="ignore"):
            term = -0.5 * np.log(kappa) - np.log(mixture) / (2 * (orders - 1))
        total += np.where(mixture > 0, term, np.inf)
    return n_rows * total


def _without_failures(events: Sequence[Event], delta: float) -> tuple[float, list[Event]]:
    failure = sum(event.delta for event in events if isinstance(event, FailureEvent))
    return delta - failure, [event for event in events if not isinstance(event, FailureEvent)]


def _renyi(event: Event) -> FloatArray:
    match event:
        case GaussianEvent(noise_multiplier=z, count=count):
            return ORDERS * (count / (2 * z * z) if z > 0 else np.inf)
        case PureEvent(epsilon=epsilon, count=count):
            return count * np.minimum(ORDERS * epsilon**2 / 2, epsilon)
        case BoundedRangeEvent(epsilon=epsilon, count=count):
            return count * np.minimum(ORDERS * epsilon**2 / 8, epsilon)
        case GaussianSketchEvent(n_rows=n_rows, row_bound_squared=bound, ridge=ridge):
            return sketch_renyi(n_rows, bound / ridge if ridge > 0 else np.inf)
        case _:
            raise TypeError(f"an accountant cannot compose {type(event).__name__}")


def _epsilon_from_renyi(curve: FloatArray, delta: float) -> float:
    return max(0.0, float(np.min(_renyi_bound(curve, delta))))


def _renyi_bound(curve: FloatArray, delta: float) -> FloatArray:
    # Canonne, Kamath & Steinke (2020), Proposition 12.
    return np.asarray(curve + np.log1p(-1 / ORDERS) - (np.log(delta) + np.log(ORDERS)) / (ORDERS - 1))
