"""Composition by privacy-loss distributions, where every event has a dominating pair.

The numerical work is dp-accounting's, which rounds losses up: the ε is an upper bound. It takes up to
seconds, so results are cached by the events' costs.

Gaussian sums over a random sample of the rows that stays secret. Every row is drawn with probability q,
independently (Poisson sampling), and the sum of vectors of the rows drawn, each of ℓ2 norm at most C, is
released with noise N(0, σ² I). The noise multiplier is z = σ / (2C): 2C is how far replacing a row that was
drawn moves the sum. (Tools that count adding or removing a row take σ / C; replacing a row costs more than
what they print.)

Under replacing one row, the release is dominated by the pair

    P = (1 − q) N(0, 1) + q N(s, 1)    against    Q = (1 − q) N(0, 1) + q N(−s, 1),    s = 1 / (2z),

so that compositions are dominated by products of it (Zhu, Dong & Wang 2022, Theorem 10).

Proof. Given who of the others was drawn, which is independent of the row, the release is N(0), or N(g) with
the row and N(g') with the other row (in units of σ, origin at the sum of the others), ‖g‖, ‖g'‖ ≤ s.
Hockey-stick divergences are jointly convex, so it suffices to bound, for every a ≥ 1,

    H_a = ∫ [(1 − q) N(0) + q N(g) − a (1 − q) N(0) − a q N(g')]⁺  =  q E (1 − w U − a V)⁺,

w = (a − 1)(1 − q)/q, where x ~ N(g), U = N(0)/N(g) and V = N(g')/N(g) at x. log U and log V are jointly
Gaussian with mean −½ variance, variances ‖g‖² and ‖g − g'‖² and covariance ⟨g, g − g'⟩. The mean of a convex
function of a sum of positive multiples of such variables grows with every entry of their covariance matrix,
since no second derivative is negative, the mixed one included. The entries are at most s², 4s² and 2s², and
g = −g' of norm s has them all. For a < 1, H_a(P, Q) = 1 − a + a H_(1/a)(Q, P).

The loss log P/Q grows with x, so that its law is known in closed form. It is put on a grid: what lies between
two points is split among them such that both of its probabilities, under P and under Q, are kept, which
dominates.
"""

import math
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy

from dpalgos.typing import FloatArray

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_FAR = 9.0  # standard deviations beyond which losses count as infinite, with probability 1e-19
_STEPS_PER_DEVIATION = 10.0
_MOST_POINTS = 1e6
_LARGE = 300.0  # from which exponentials and their squares overflow
_INTERVAL = 1e-4
_CLEARLY = 1.02  # a factor on ε that is far larger than rounding errors


def loss_deviation(multiplier: float, rate: float) -> float:
    """Return about the standard deviation of one release's loss."""
    s = 1 / (2 * multiplier)
    with np.errstate(over="ignore"):
        amplified = 2 * rate * np.sqrt(np.sinh(s * s))
    return float(min(amplified, 2 * s))


def grid_interval(multiplier: float, rate: float) -> float:
    """Return the step of a grid that is fine enough for many releases together."""
    s = 1 / (2 * multiplier)
    widest = 2 * float(_loss(np.array([s + _FAR]), s, rate)[0])
    return max(loss_deviation(multiplier, rate) / _STEPS_PER_DEVIATION, widest / _MOST_POINTS)


def sampled_gaussian_losses(multiplier: float, rate: float, interval: float) -> "PrivacyLossDistribution":
    """Return a dominating distribution of one release's privacy losses on a grid."""
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld

    s = 1 / (2 * multiplier)
    most = int(np.ceil(float(_loss(np.array([s + _FAR]), s, rate)[0]) / interval))
    places = np.arange(-most, most + 1)
    x = _where_loss_is(places * interval, s, rate)
    nobody = (1 - rate) * _between(x) if rate < 1 else 0.0
    on_first, on_second = (nobody + rate * _between(x - shift) for shift in (s, -s))
    # Split between the ends of a cell: p = low + high and r = low e^−ε + high e^−(ε + interval).
    gap = -np.expm1(-interval)
    losses = places[:-1] * interval
    high = np.clip((on_first - on_second * np.exp(np.minimum(losses, _LARGE))) / gap, 0, on_first)
    high = np.where(losses < _LARGE, high, on_first)  # all at the upper end, which dominates, too
    masses = np.zeros(len(places))
    masses[:-1] += on_first - high
    masses[1:] += high
    masses[0] += (1 - rate) * scipy.special.ndtr(x[0]) + rate * scipy.special.ndtr(x[0] - s)
    above = (1 - rate) * scipy.special.ndtr(-x[-1]) + rate * scipy.special.ndtr(s - x[-1])
    kept = np.flatnonzero(masses > 0)
    first, last = int(kept[0]), int(kept[-1])
    on_grid = pld_pmf.DensePLDPmf(interval, first - most, masses[first : last + 1], float(above), True)
    return pld.PrivacyLossDistribution(on_grid)


def sampled_gaussian_renyi(multiplier: float, rate: float, orders: FloatArray) -> FloatArray:
    """Return a bound on one release's Rényi divergences, by joint convexity in who was drawn; not tight."""
    plain = orders * (orders - 1) / (2 * multiplier**2)
    with np.errstate(divide="ignore"):
        drawn = np.logaddexp(np.log1p(-rate), np.log(rate) + plain)
    return np.asarray(drawn / (orders - 1))


def _loss(x: FloatArray, s: float, rate: float) -> FloatArray:
    if rate == 1 or s * float(np.abs(x).max()) > _LARGE:
        with np.errstate(divide="ignore"):
            nobody, drawn = np.log1p(-rate), np.log(rate) - s * s / 2
        return np.asarray(np.logaddexp(nobody, drawn + s * x) - np.logaddexp(nobody, drawn - s * x))
    first, second = (rate * np.exp(sign * s * x - s * s / 2) for sign in (1, -1))
    return np.asarray(np.log1p(-rate + first) - np.log1p(-rate + second))


def _where_loss_is(epsilon: FloatArray, s: float, rate: float) -> FloatArray:
    """Return x with loss ε: e^(sx − s²/2) = a solves q a² − (1 − q)(e^ε − 1) a − q e^(ε − s²) = 0."""
    size = np.abs(epsilon)  # the loss is odd
    if float(size.max()) > _LARGE:
        log_a = _log_root(size, s, rate)
    else:
        half = (1 - rate) * np.expm1(size) / 2
        log_a = np.log((half + np.sqrt(half**2 + rate**2 * np.exp(size - s * s))) / rate)
    return np.asarray(np.sign(epsilon) * (log_a + s * s / 2) / s)


def _log_root(size: FloatArray, s: float, rate: float) -> FloatArray:
    """Return log a where its powers overflow."""
    with np.errstate(divide="ignore"):
        half = np.log1p(-rate) + size + np.log(-np.expm1(-size)) - np.log(2)
        root = np.log(rate) + (size - s * s) / 2
        return np.asarray(np.logaddexp(half, np.logaddexp(2 * half, 2 * root) / 2) - np.log(rate))


def _between(x: FloatArray) -> FloatArray:
    """Return the standard normal's probability between neighboring points, with all digits in both tails."""
    beyond = scipy.special.ndtr(-np.abs(x))
    up_to = np.where(x[1:] > 0, 1 - beyond[1:], beyond[1:])
    return np.where(x[:-1] > 0, beyond[:-1] - beyond[1:], up_to - beyond[:-1])


class EventCost(NamedTuple):
    """Releases of one kind: "gaussian" or "sampled" (of that noise multiplier and rate), or "pure" (of ε)."""

    kind: str
    parameter: float
    n_releases: int
    rate: float = 1.0


@lru_cache(maxsize=512)
def pld_epsilon(costs: tuple[EventCost, ...], delta: float) -> float:
    """Return an upper bound of ε at δ for the composition.

    A pure event is dominated by randomized response at that ε, a Gaussian one by a shift of a standard normal
    by 1/z, one of a random part of the rows as the module says. Pure events alone need no grid.
    """
    pure = all(cost.kind == "pure" for cost in costs)
    if pure and math.prod(cost.n_releases + 1 for cost in costs) <= _MOST_POINTS:
        return _pure_epsilon(costs, delta)
    composed = _composed(costs)
    with np.errstate(over="ignore"):
        return float(composed.get_epsilon_for_delta(delta))


@lru_cache(maxsize=512)
def certainly_exceeds(costs: tuple[EventCost, ...], delta: float, epsilon: float) -> bool:
    """Return True only if :func:`pld_epsilon` is above ε; one sum finds that without a grid.

    True only for compositions of Gaussian and pure releases. At every ε their δ is no lower than with some
    pure releases left out and with the others' ε0 lowered. Left are one Gaussian release and k pure ones of
    equal ε0, which have an exact δ: the mean, over the loss of the pure ones, of the Gaussian δ at ε − loss.
    """
    if {cost.kind for cost in costs} != {"gaussian", "pure"}:
        return False
    precision = sum(cost.n_releases / cost.parameter**2 for cost in costs if cost.kind == "gaussian")
    pure = sorted((cost for cost in costs if cost.kind == "pure"), key=lambda cost: -cost.parameter)
    # All of at least some ε0 count as of that ε0; which one only decides how often the answer is True.
    counts = np.cumsum([cost.n_releases for cost in pure])
    best = int(np.argmax([cost.parameter**2 * count for cost, count in zip(pure, counts, strict=True)]))
    losses, log_masses = _randomized_responses(EventCost("pure", pure[best].parameter, int(counts[best])))
    mu, rests = np.sqrt(precision), _CLEARLY * epsilon - losses
    with np.errstate(over="ignore", invalid="ignore"):  # a sum that is not a number gives False
        first = scipy.special.log_ndtr(mu / 2 - rests / mu)
        second = rests + scipy.special.log_ndtr(-mu / 2 - rests / mu)
        deltas = -np.exp(first) * np.expm1(np.minimum(second - first, 0.0))
        return bool(np.exp(log_masses) @ deltas > delta)


def _pure_epsilon(costs: tuple[EventCost, ...], delta: float) -> float:
    """Return the least ε with Σ p (1 − e^(ε − loss))⁺ ≤ δ: that sum is the largest of its partial sums."""
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
    """Return the losses that a pure cost's releases may have together, and log probabilities."""
    epsilon, count = cost.parameter, cost.n_releases
    ups = np.arange(count + 1)
    log_choices = -np.log(count + 1) - scipy.special.betaln(ups + 1, count - ups + 1)
    log_masses = log_choices + epsilon * ups + count * scipy.special.log_expit(-epsilon)
    return epsilon * (2 * ups - count), log_masses


@lru_cache(maxsize=8)  # a risk asks for many δ of the same events
def _composed(costs: tuple[EventCost, ...]) -> "PrivacyLossDistribution":
    interval = _interval(costs)
    with np.errstate(over="ignore"):
        pairs = [_dominating_pair(cost, interval) for cost in costs]
        return reduce(lambda one, other: one.compose(other), pairs)


def _dominating_pair(cost: EventCost, interval: float) -> "PrivacyLossDistribution":
    """Return the privacy losses of all releases of a cost: composed exactly, then rounded up to the grid."""
    # Half a second to import, and most runs are purely Gaussian.
    from dp_accounting.pld import privacy_loss_distribution as pld

    kind, parameter, count, rate = cost
    if kind == "sampled":
        return sampled_gaussian_losses(parameter, rate, interval).self_compose(count)
    if kind == "gaussian":  # of all rows, and together as one release of less noise
        return sampled_gaussian_losses(parameter / np.sqrt(count), 1.0, interval)

    losses, log_masses = _randomized_responses(cost)
    masses: dict[int, float] = {}
    for loss, mass in zip(
        np.ceil(losses / interval).astype(int).tolist(), np.exp(log_masses).tolist(), strict=True
    ):
        masses[loss] = masses.get(loss, 0.0) + mass
    return pld.PrivacyLossDistribution.create_from_rounded_probability(masses, 0.0, interval)


def _interval(costs: tuple[EventCost, ...]) -> float:
    drawn = [grid_interval(cost.parameter, cost.rate) for cost in costs if cost.kind == "sampled"]
    if len(drawn) == len(costs):
        return min(drawn, default=_INTERVAL)
    spread = sum(_spread(cost) for cost in costs)
    # Rounding costs up to one interval per cost; the grid must resolve the smallest loss too. Few δ have an ε
    # below the mean loss: where that is large, the grid is as fine in its units.
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
        return cost.n_releases * loss_deviation(cost.parameter, cost.rate) ** 2 + 10 / cost.parameter
    return cost.n_releases * (1 / cost.parameter**2 + 10 / cost.parameter)
