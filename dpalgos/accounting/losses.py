"""Composition by privacy-loss distributions, for events that have a dominating pair.

The library dp-accounting does the numerical work. It rounds losses up: the ε is an upper bound. A composition
may take seconds. Therefore results are cached by the costs of the events.

Gaussian sums over a secret random sample of rows: every row is drawn independently with probability q
(Poisson sampling). Each drawn row adds a vector of ℓ2 norm at most C. Their sum is released with noise
N(0, σ² I). Replacing a drawn row moves the sum by at most 2C. Therefore the noise multiplier is z = σ / (2C).
(Tools for the relation that adds or removes a row use σ / C; replacing a row costs more than they print.)
Under replacing one row, the release is dominated by the pair

    P = (1 − q) N(0, 1) + q N(s, 1)    against    Q = (1 − q) N(0, 1) + q N(−s, 1),    s = 1 / (2z).

Compositions are dominated by products of this pair (Zhu, Dong & Wang 2022, Theorem 10).
"""

import math
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy

from dpalgos.typing import FloatArray

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_FAR = 9.0  # standard deviations; larger losses count as infinite, with probability 1e-19
_STEPS_PER_DEVIATION = 10.0
_MOST_POINTS = 1e6
_INTERVAL = 1e-4


class EventCost(NamedTuple):
    """Releases of one kind: "gaussian" or "sampled" (of that noise multiplier and rate), or "pure" (of ε)."""

    kind: str
    parameter: float
    n_releases: int
    rate: float = 1.0


@lru_cache(maxsize=512)
def pld_epsilon(costs: tuple[EventCost, ...], delta: float) -> float:
    """Return an upper bound of ε at δ for the composition.

    A pure event is dominated by randomized response at its ε. A Gaussian event is dominated by a standard
    normal shifted by 1/z. The module states the pair for random samples. Pure events alone need no grid.
    """
    pure = all(cost.kind == "pure" for cost in costs)
    if pure and math.prod(cost.n_releases + 1 for cost in costs) <= _MOST_POINTS:
        return _pure_epsilon(costs, delta)
    with np.errstate(over="ignore"):
        return float(_composed(costs).get_epsilon_for_delta(delta))


@lru_cache(maxsize=8)  # a risk needs many δ of the same events
def _composed(costs: tuple[EventCost, ...]) -> "PrivacyLossDistribution":
    interval = _interval(costs)
    with np.errstate(over="ignore"):
        return reduce(lambda one, other: one.compose(other), (_losses(cost, interval) for cost in costs))


def _losses(cost: EventCost, interval: float) -> "PrivacyLossDistribution":
    """Return the privacy losses of all releases of a cost, on a grid."""
    # The import takes half a second, and most runs are purely Gaussian.
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution as pld

    kind, parameter, count, rate = cost
    if kind == "sampled":
        once = pld.from_gaussian_mechanism(
            2 * parameter,
            1.0,
            value_discretization_interval=interval,
            sampling_prob=rate,
            neighboring_relation=NeighboringRelation.REPLACE_ONE,
        )
        return once.self_compose(count)
    if kind == "gaussian":  # together as one release of less noise
        return pld.from_gaussian_mechanism(
            parameter / count**0.5, 1.0, value_discretization_interval=interval
        )
    losses, log_masses = _randomized_responses(cost)
    masses: dict[int, float] = {}
    for loss, mass in zip(
        np.ceil(losses / interval).astype(int).tolist(), np.exp(log_masses).tolist(), strict=True
    ):
        masses[loss] = masses.get(loss, 0.0) + mass
    return pld.PrivacyLossDistribution.create_from_rounded_probability(masses, 0.0, interval)


def sampled_gaussian_renyi(multiplier: float, rate: float, orders: FloatArray) -> FloatArray:
    """Return a bound on one release's Rényi divergences; joint convexity in the drawn rows, not tight."""
    plain = orders * (orders - 1) / (2 * multiplier**2)
    with np.errstate(divide="ignore"):
        drawn = np.logaddexp(np.log1p(-rate), np.log(rate) + plain)
    return np.asarray(drawn / (orders - 1))


def _pure_epsilon(costs: tuple[EventCost, ...], delta: float) -> float:
    """Return the smallest ε with Σ p (1 − e^(ε − loss))⁺ ≤ δ; that sum is its largest partial sum."""
    losses, log_masses = np.zeros(1), np.zeros(1)
    for cost in costs:
        of_cost, of_their_masses = _randomized_responses(cost)
        losses = np.add.outer(losses, of_cost).ravel()
        log_masses = np.add.outer(log_masses, of_their_masses).ravel()
    order = np.argsort(-losses)[: np.count_nonzero(losses > 0)]
    beyond = np.cumsum(np.exp(log_masses[order])) - delta
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.log(beyond) - np.logaddexp.accumulate(log_masses[order] - losses[order])
    return float(np.max(values, where=beyond > 0, initial=0.0))


def _randomized_responses(cost: EventCost) -> tuple[FloatArray, FloatArray]:
    """Return the possible total losses of a pure cost's releases, and their log probabilities."""
    epsilon, count = cost.parameter, cost.n_releases
    ups = np.arange(count + 1)
    log_choices = -np.log(count + 1) - scipy.special.betaln(ups + 1, count - ups + 1)
    log_masses = log_choices + epsilon * ups + count * scipy.special.log_expit(-epsilon)
    return epsilon * (2 * ups - count), log_masses


def _interval(costs: tuple[EventCost, ...]) -> float:
    drawn = [_grid_interval(cost.parameter, cost.rate) for cost in costs if cost.kind == "sampled"]
    if len(drawn) == len(costs):
        return min(drawn, default=_INTERVAL)
    spread = sum(_spread(cost) for cost in costs)
    # Rounding costs up to one interval per cost, and the grid must resolve the smallest loss. Few δ have an ε
    # below the mean loss. If the mean loss is large, the interval is in its units.
    coarsest = _INTERVAL * max(1.0, sum(_mean_loss(cost) for cost in costs))
    finest = min(coarsest, 1e-3 * max(spread, 1e-6) / max(len(costs), 1), *drawn)
    return max(finest, spread / 2e6)


def _mean_loss(cost: EventCost) -> float:
    if cost.kind == "pure":
        return cost.n_releases * cost.parameter * float(np.tanh(cost.parameter / 2))
    return cost.n_releases / (2 * cost.parameter**2) if cost.kind == "gaussian" else 0.0


def _spread(cost: EventCost) -> float:
    if cost.kind == "pure":
        return cost.n_releases * cost.parameter
    if cost.kind == "sampled":
        return cost.n_releases * _loss_deviation(cost.parameter, cost.rate) ** 2 + 10 / cost.parameter
    return cost.n_releases * (1 / cost.parameter**2 + 10 / cost.parameter)


def _grid_interval(multiplier: float, rate: float) -> float:
    """Return a grid interval that is fine enough for many releases over random samples of rows."""
    s, nobody = 1 / (2 * multiplier), np.log1p(-rate) if rate < 1 else -np.inf
    drawn = np.log(rate) - s * s / 2 + s * (s + _FAR) * np.array([1, -1])
    widest = 2 * float(np.subtract(*np.logaddexp(nobody, drawn)))
    return max(_loss_deviation(multiplier, rate) / _STEPS_PER_DEVIATION, widest / _MOST_POINTS)


def _loss_deviation(multiplier: float, rate: float) -> float:
    """Return the approximate standard deviation of one release's loss."""
    s = 1 / (2 * multiplier)
    with np.errstate(over="ignore"):
        amplified = 2 * rate * np.sqrt(np.sinh(s * s))
    return float(min(amplified, 2 * s))
