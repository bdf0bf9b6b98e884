"""Privacy losses: numerical composition of releases that are not all Gaussian.

Privacy-loss distributions compose events that have a dominating pair. The library dp-accounting does the
numerical work. It rounds losses up: the ε is an upper bound. A composition may take seconds. Therefore
results are cached by the events, without their labels.

Gaussian sums over a secret random sample of rows: every row is drawn independently with probability q
(Poisson sampling). Each drawn row adds a vector of ℓ2 norm at most C. Their sum is released with noise
N(0, σ² I). Replacing a drawn row moves the sum by at most 2C. Therefore the noise multiplier is z = σ / (2C).
(Tools for the relation that adds or removes a row use σ / C; replacing a row costs more than they print.)
Under replacing one row, the release is dominated by the pair

    P = (1 − q) N(0, 1) + q N(s, 1)    against    Q = (1 − q) N(0, 1) + q N(−s, 1),    s = 1 / (2z).

Compositions are dominated by products of this pair (Zhu, Dong & Wang 2022, Theorem 10).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from typing import TYPE_CHECKING

import numpy as np
import scipy

from dpalgos.accounting.events import Event, Gaussian, GaussianNoise
from dpalgos.accounting.other_events import Dominating, Pure, SampledGaussian
from dpalgos.typing import FloatArray

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_FAR = 9.0  # standard deviations; larger losses count as infinite, with probability 1e-19
_STEPS_PER_DEVIATION = 10.0
_MOST_POINTS = 1e6
_INTERVAL = 1e-4


def losses_epsilon(events: Sequence[Event], delta: float) -> float:
    """Return an upper bound of ε at δ for the composition; infinite if losses are not known."""
    known = [each for event in events if isinstance(each := event.dominating, Dominating)]
    if len(known) < len(events) or not all(map(_is_finite, known)):
        return math.inf
    return pld_epsilon(_merged(known), delta)


@lru_cache(maxsize=512)
def pld_epsilon(events: tuple[Dominating, ...], delta: float) -> float:
    """Return an upper bound of ε at δ for the composition.

    A pure event is dominated by randomized response at its ε. A Gaussian event is dominated by a standard
    normal shifted by 1/z. The module states the pair for random samples. Pure events alone need no grid.
    """
    pure = tuple(event for event in events if isinstance(event, Pure))
    if len(pure) == len(events) and math.prod(event.n_charges + 1 for event in pure) <= _MOST_POINTS:
        return _pure_epsilon(pure, delta)
    with np.errstate(over="ignore"):
        return float(_composed(events).get_epsilon_for_delta(delta))


def _is_finite(event: Dominating) -> bool:
    """Return whether losses are finite: noise multipliers and ε may be 0, or so large that they are not."""
    size = event.noise_multiplier if isinstance(event, GaussianNoise) else event.epsilon
    return 0 < size < math.inf


def _merged(events: Iterable[Dominating]) -> tuple[Dominating, ...]:
    """Return events with equal ones counted together; composition does not depend on their order.

    All Gaussian releases are exactly one: their dominating pairs compose to a shift by √Σ 1/z².
    """
    counts: dict[Dominating, int] = {}
    precision = 0.0
    for event in events:
        if isinstance(event, Gaussian):
            precision += event.mu_squared
        else:
            one = replace(event, times=1)
            counts[one] = counts.get(one, 0) + event.times
    others = [replace(event, times=count) for event, count in counts.items()]
    return (*([Gaussian(precision**-0.5)] if precision else []), *others)


@lru_cache(maxsize=8)  # a risk needs many δ of the same events
def _composed(events: tuple[Dominating, ...]) -> "PrivacyLossDistribution":
    interval = _interval(events)
    with np.errstate(over="ignore"):
        return reduce(lambda one, other: one.compose(other), (_losses(event, interval) for event in events))


def _losses(event: Dominating, interval: float) -> "PrivacyLossDistribution":
    """Return the privacy losses of all releases of an event, on a grid."""
    # The import takes half a second, and most runs are purely Gaussian.
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution as pld

    if isinstance(event, SampledGaussian):
        once = pld.from_gaussian_mechanism(
            2 * event.noise_multiplier,
            1.0,
            value_discretization_interval=interval,
            sampling_prob=event.sampling_rate,
            neighboring_relation=NeighboringRelation.REPLACE_ONE,
        )
        return once.self_compose(event.times)
    if isinstance(event, Gaussian):  # together as one release of less noise
        return pld.from_gaussian_mechanism(
            event.noise_multiplier / event.times**0.5, 1.0, value_discretization_interval=interval
        )
    losses, log_masses = _randomized_responses(event)
    masses: dict[int, float] = {}
    for loss, mass in zip(
        np.ceil(losses / interval).astype(int).tolist(), np.exp(log_masses).tolist(), strict=True
    ):
        masses[loss] = masses.get(loss, 0.0) + mass
    return pld.PrivacyLossDistribution.create_from_rounded_probability(masses, 0.0, interval)


def _pure_epsilon(events: tuple[Pure, ...], delta: float) -> float:
    """Return the smallest ε with Σ p (1 − e^(ε − loss))⁺ ≤ δ; that sum is its largest partial sum."""
    losses, log_masses = np.zeros(1), np.zeros(1)
    for event in events:
        of_event, of_their_masses = _randomized_responses(event)
        losses = np.add.outer(losses, of_event).ravel()
        log_masses = np.add.outer(log_masses, of_their_masses).ravel()
    order = np.argsort(-losses)[: np.count_nonzero(losses > 0)]
    beyond = np.cumsum(np.exp(log_masses[order])) - delta
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.log(beyond) - np.logaddexp.accumulate(log_masses[order] - losses[order])
    return float(np.max(values, where=beyond > 0, initial=0.0))


def _randomized_responses(event: Pure) -> tuple[FloatArray, FloatArray]:
    """Return the possible total losses of pure releases, and their log probabilities."""
    epsilon, count = event.epsilon, event.n_charges
    ups = np.arange(count + 1)
    log_choices = -np.log(count + 1) - scipy.special.betaln(ups + 1, count - ups + 1)
    log_masses = log_choices + epsilon * ups + count * scipy.special.log_expit(-epsilon)
    return epsilon * (2 * ups - count), log_masses


def _interval(events: tuple[Dominating, ...]) -> float:
    drawn = [_grid_interval(event) for event in events if isinstance(event, SampledGaussian)]
    if len(drawn) == len(events):
        return min(drawn, default=_INTERVAL)
    spread = sum(_spread(event) for event in events)
    # Rounding costs up to one interval per event, and the grid must resolve the smallest loss. Few δ have an
    # ε below the mean loss. If the mean loss is large, the interval is in its units.
    coarsest = _INTERVAL * max(1.0, sum(_mean_loss(event) for event in events))
    finest = min(coarsest, 1e-3 * max(spread, 1e-6) / max(len(events), 1), *drawn)
    return max(finest, spread / 2e6)


def _mean_loss(event: Dominating) -> float:
    if isinstance(event, Pure):
        return event.n_charges * event.epsilon * float(np.tanh(event.epsilon / 2))
    return event.rho if isinstance(event, Gaussian) else 0.0


def _spread(event: Dominating) -> float:
    if isinstance(event, Pure):
        return event.n_charges * event.epsilon
    if isinstance(event, SampledGaussian):
        return event.times * _loss_deviation(event) ** 2 + 10 / event.noise_multiplier
    return event.times * (1 / event.noise_multiplier**2 + 10 / event.noise_multiplier)


def _grid_interval(event: SampledGaussian) -> float:
    """Return a grid interval that is fine enough for many releases over random samples of rows."""
    s, rate = 1 / (2 * event.noise_multiplier), event.sampling_rate
    nobody = np.log1p(-rate) if rate < 1 else -np.inf
    drawn = np.log(rate) - s * s / 2 + s * (s + _FAR) * np.array([1, -1])
    widest = 2 * float(np.subtract(*np.logaddexp(nobody, drawn)))
    return max(_loss_deviation(event) / _STEPS_PER_DEVIATION, widest / _MOST_POINTS)


def _loss_deviation(event: SampledGaussian) -> float:
    """Return the approximate standard deviation of one release's loss."""
    s = 1 / (2 * event.noise_multiplier)
    with np.errstate(over="ignore"):
        amplified = 2 * event.sampling_rate * np.sqrt(np.sinh(s * s))
    return float(min(amplified, 2 * s))
