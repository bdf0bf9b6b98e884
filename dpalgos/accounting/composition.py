"""Composition: the ε that the events of a run prove.

Purely Gaussian runs compose exactly (Gaussian DP). All other runs get the smallest of three valid bounds:

- Rényi DP over a fixed grid of orders; zero-concentrated DP is its linear case.
- Privacy-loss distributions, if every event has a dominating pair.
- The sum of ε, if all events are pure.

Events under different neighboring relations do not compose. :class:`Spending` adds up several runs on one
dataset, where each run may depend on earlier results. :mod:`dpalgos.accounting.budget` decides which of them
fit into a budget.

**Privacy-loss distributions** compose events that have a dominating pair. The library dp-accounting does the
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
from functools import lru_cache, reduce
from typing import TYPE_CHECKING

import numpy as np
import scipy

from dpalgos.accounting.events import Dominating, Gaussian, Pure, SampledGaussian
from dpalgos.typing import FloatArray

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial

from dpalgos.accounting.events import Event, GaussianNoise, Relation
from dpalgos.accounting.gaussian_dp import gaussian_epsilon
from dpalgos.errors import InputError

ORDERS: FloatArray = 1 + np.logspace(-3, 6, 2000)
_ROUNDING = 1e-9  # of costs: less than what is left below the budget
_FAR = 9.0  # standard deviations; larger losses count as infinite, with probability 1e-19
_STEPS_PER_DEVIATION = 10.0
_MOST_POINTS = 1e6
_INTERVAL = 1e-4


def certified_epsilon(events: Sequence[Event], delta: float) -> float:
    """Return the smallest ε at δ that is proved for the adaptive composition of the events.

    Parameters
    ----------
    events : sequence of Event
        The releases of a run, such as ``Result.events``.
    delta : float
        δ in [0, 1).

    Returns
    -------
    float
        0 without events; infinite if they prove nothing at this δ.

    Raises
    ------
    InputError
        If the events do not share one neighboring relation.

    References
    ----------
    Dong, Roth and Su (2022), Gaussian differential privacy; Mironov (2017), Rényi differential privacy; and
    privacy-loss distributions of the library dp-accounting.
    """
    return privacy_profile(events)(delta)


def privacy_profile(events: Sequence[Event]) -> Callable[[float], float]:
    """Return the function δ → the smallest proved ε; the events are checked and merged once.

    Raises
    ------
    InputError
        If the events do not share one neighboring relation.
    """
    common_relation(events)
    if any(event.group is not None for event in events):
        profiles = [privacy_profile(those) for those in by_group(events)]
        return lambda delta: max(profile(delta) for profile in profiles)
    if (mu := exact_mu(events)) is not None:
        return partial(gaussian_epsilon, mu=mu)
    return partial(_mixed_epsilon, _Mixture(_costs(events), events))


@dataclass(frozen=True)
class _Mixture:
    """Events that are not all Gaussian, or may fail; equal to others of the same costs."""

    costs: tuple[tuple[object, ...], ...]
    events: Sequence[Event] = field(compare=False)


@lru_cache(maxsize=512)
def _mixed_epsilon(mixture: _Mixture, delta: float) -> float:
    """Return the smallest ε that is proved for a mixture, computed once for repeated runs."""
    delta -= sum(event.failure for event in mixture.events)
    releases = [event for event in mixture.events if not event.is_failure]
    known = [each for event in releases if (each := event.dominating) is not None]
    sum_of_epsilons = sum(event.pure_epsilon for event in releases)
    if delta <= 0:
        return sum_of_epsilons if delta == 0 else float("inf")
    mu = total_mu(releases)
    if all(type(event) is Gaussian for event in releases):
        return gaussian_epsilon(delta, mu)
    proved = [
        renyi_epsilon(releases, delta),
        sum_of_epsilons,
        gaussian_epsilon(delta, mu),  # valid for random rows, as if all were drawn
    ]
    if len(known) == len(releases) and all(map(_has_losses, known)):
        proved.append(pld_epsilon(_merged(known), delta))
    return min(proved)


def by_group(events: Sequence[Event]) -> list[list[Event]]:
    """Return, for each disjoint group of people, the events about it and those about everyone.

    Groups with equal costs are returned once.
    """
    groups: dict[int | None, list[Event]] = {}
    for event in events:
        groups.setdefault(event.group, []).append(replace(event, group=None))
    about_all = groups.pop(None, [])
    different = {_costs(those): those for those in groups.values()}
    return [about_all + those for those in different.values()]


def renyi_epsilon(events: Sequence[Event], delta: float) -> float:
    """Return the ε at δ that Rényi DP alone proves; it is fast and valid for every release."""
    return _renyi_epsilon(lambda orders: sum((e.renyi(orders) for e in events), np.zeros_like(orders)), delta)


def _renyi_epsilon(curve: Callable[[FloatArray], FloatArray], delta: float) -> float:
    def bound(orders: FloatArray) -> FloatArray:
        return _renyi_bound(curve(orders), delta, orders)

    values = bound(ORDERS)
    best = int(np.argmin(values))
    near = ORDERS[[max(best - 1, 0), min(best + 1, len(ORDERS) - 1)]]
    finer = 1 + np.geomspace(near[0] - 1, near[1] - 1, 2001)
    return max(0.0, float(min(values[best], np.min(bound(finer)))))


def common_relation(events: Sequence[Event]) -> Relation | None:
    """Return the neighboring relation of the events, or None without events; refuse a mixture."""
    relations = {event.relation for event in events}
    if len(relations) > 1:
        names = " and ".join(sorted(f"{r.neighboring_relation} {r.unit_of_privacy}" for r in relations))
        raise InputError(
            f"events must share one neighboring relation, got {names}; account for each relation separately"
        )
    return next(iter(relations), None)


def total_mu(events: Sequence[Event]) -> float:
    """Return the μ of one Gaussian release that is at least as revealing as all events together."""
    return float(np.sqrt(sum(event.mu_squared for event in events)))


def exact_mu(events: Sequence[Event]) -> float | None:
    """Return the exact μ of the events if all are Gaussian and about everyone, otherwise None."""
    exact = all(type(event) is Gaussian and event.group is None for event in events)
    return total_mu(events) if exact else None


def budget_shares(events: Sequence[Event], delta: float) -> dict[str, float]:
    """Return the share of the budget that the events of each label spend; the shares sum to 1.

    In a purely Gaussian run, shares are of μ². Otherwise they are of the Rényi divergence at the order that
    gives the certified ε. Events that spend only δ are omitted. With disjoint groups of people, the shares
    are those of the first group.
    """
    if any(event.group is not None for event in events):
        events = by_group(events)[0]
    delta -= sum(event.failure for event in events)
    curves: dict[str, FloatArray] = {}
    for event in events:
        if not event.is_failure:
            curves[event.label] = curves.get(event.label, np.zeros_like(ORDERS)) + event.renyi(ORDERS)
    total = np.sum(list(curves.values()), axis=0) if curves else np.zeros_like(ORDERS)
    best = int(np.argmin(_renyi_bound(total, max(delta, np.finfo(float).tiny), ORDERS)))
    if not 0 < total[best] < np.inf:
        return {}
    return {label: float(curve[best] / total[best]) for label, curve in curves.items()}


def _costs(events: Sequence[Event]) -> tuple[tuple[object, ...], ...]:
    silent = ("label", "relation", "group", "sensitivity", "support", "forms")
    return tuple(
        (type(event), *(getattr(event, item.name) for item in fields(event) if item.name not in silent))
        for event in events
    )


def _has_losses(event: Dominating) -> bool:
    """Return whether losses are finite: noise multipliers and ε may be 0, or so large that they are not."""
    size = event.noise_multiplier if isinstance(event, GaussianNoise) else event.epsilon
    return 0 < size < np.inf


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


def _renyi_bound(curve: FloatArray, delta: float, orders: FloatArray) -> FloatArray:
    # Canonne, Kamath & Steinke (2020), Proposition 12.
    return np.asarray(curve + np.log1p(-1 / orders) - (np.log(delta) + np.log(orders)) / (orders - 1))


@dataclass(frozen=True, kw_only=True)
class Spending:
    """The cost of releases: ρ of zCDP, the sum of ε (infinite unless all are pure), and δ of failures."""

    rho: float = 0.0
    pure_epsilon: float = 0.0
    failure: float = 0.0

    def __add__(self, other: "Spending") -> "Spending":
        return Spending(
            rho=self.rho + other.rho,
            pure_epsilon=self.pure_epsilon + other.pure_epsilon,
            failure=self.failure + other.failure,
        )

    def epsilon(self, delta: float, failure_delta: float | None = None) -> float:
        """Return the ε at δ that the spending proves.

        ``failure_delta`` is the part of δ set aside for failures; by default, what the releases need. If
        releases depend on earlier results, it must be fixed before the first one.
        """
        set_aside = self.failure if failure_delta is None else failure_delta
        if self.failure > set_aside * (1 + 1e-9):
            return float("inf")
        remaining = delta - set_aside
        if remaining < 0:
            return float("inf")
        if self.rho == 0:
            return 0.0
        if remaining == 0:
            return self.pure_epsilon
        return min(self.pure_epsilon, _renyi_epsilon(lambda orders: orders * self.rho, remaining))

    def is_within(self, planned: "Spending") -> bool:
        """Return whether it is at most another cost, up to rounding: sums may be in another order."""
        pairs = [
            (self.rho, planned.rho),
            (self.pure_epsilon, planned.pure_epsilon),
            (self.failure, planned.failure),
        ]
        return all(own <= other * (1 + _ROUNDING) for own, other in pairs)


def spending(events: Sequence[Event]) -> Spending:
    """Return the cost of a run's events; refuse an event that zero-concentrated DP cannot account for."""
    if any(event.group is not None for event in events):
        groups = [spending(those) for those in by_group(events)]
        return Spending(
            rho=max(group.rho for group in groups),
            pure_epsilon=max(group.pure_epsilon for group in groups),
            failure=max(group.failure for group in groups),
        )
    return Spending(
        rho=sum(event.rho for event in events),
        pure_epsilon=sum(event.pure_epsilon for event in events),
        failure=sum(event.failure for event in events),
    )


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
