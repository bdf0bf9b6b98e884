"""Composition: the ε that the events of a run prove.

Purely Gaussian runs compose exactly (Gaussian DP). Everything else gets the best of three valid
bounds: Rényi DP over a fixed grid of orders, of which zero-concentrated DP is the linear case;
privacy-loss distributions, where every event has a dominating pair; and, for pure events, the sum
of their ε. Events under different neighboring relations do not compose.

Several runs on one dataset, each chosen after the answers of those before it, are summed as a
:class:`Spending`; :mod:`dpalgos.accounting.budget` decides which of them fit into a budget.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from dpalgos.accounting.events import (
    ApproximateEvent,
    BoundedRangeEvent,
    DiscreteGaussianEvent,
    Event,
    FailureEvent,
    GaussianEvent,
    GaussianSketchEvent,
    PureEvent,
    Relation,
    SampledGaussianEvent,
    UnprotectedEvent,
)
from dpalgos.accounting.gaussian_dp import gaussian_epsilon
from dpalgos.accounting.losses import EventCost, pld_epsilon, sampled_gaussian_renyi
from dpalgos.errors import InputError
from dpalgos.typing import FloatArray

ORDERS: FloatArray = 1 + np.logspace(-3, 6, 2000)


def certified_epsilon(events: Sequence[Event], delta: float) -> float:
    """Return the smallest ε at δ that is proved for the adaptive composition of the events.

    Infinite where they prove nothing at this δ, as an unprotected event does; 0 without events. Events that
    do not share one neighboring relation are refused.
    """
    common_relation(events)
    if any(event.group is not None for event in events):
        groups = by_group(events)
        return max(certified_epsilon(those, delta) for those in groups)
    delta, releases = _without_failures(events, delta)
    if delta <= 0:
        pure = all(isinstance(event, PureEvent | BoundedRangeEvent) for event in releases)
        return _sum_of_epsilons(releases) if delta == 0 and pure else float("inf")
    if any(isinstance(event, UnprotectedEvent) for event in releases):
        return float("inf")
    gaussians = [event for event in releases if isinstance(event, GaussianEvent)]
    if len(gaussians) == len(releases):
        return gaussian_epsilon(delta, total_mu(gaussians))
    proved = renyi_epsilon(releases, delta)
    dominated = GaussianEvent | SampledGaussianEvent | PureEvent | BoundedRangeEvent
    if all(isinstance(event, dominated) for event in releases):
        costs = _merged(_dominated(event) for event in releases)
        finite = all(np.isfinite(cost.parameter) and cost.parameter > 0 for cost in costs)
        if finite:
            proved = min(proved, pld_epsilon(costs, delta))
    sums = [event for event in releases if isinstance(event, GaussianEvent | SampledGaussianEvent)]
    if len(sums) == len(releases):
        proved = min(proved, gaussian_epsilon(delta, total_mu(sums)))  # as if all rows were drawn
    if all(isinstance(event, PureEvent | BoundedRangeEvent) for event in releases):
        proved = min(proved, _sum_of_epsilons(releases))
    return proved


def by_group(events: Sequence[Event]) -> list[list[Event]]:
    """Return, for each disjoint group of people, its own events and those about everyone.

    Groups whose events cost the same are returned once.
    """
    groups: dict[int | None, list[Event]] = {}
    for event in events:
        groups.setdefault(event.group, []).append(replace(event, group=None))
    about_all = groups.pop(None, [])
    different = {_costs(those): those for those in groups.values()}
    return [about_all + those for those in different.values()]


def renyi_epsilon(events: Sequence[Event], delta: float) -> float:
    """Return the ε at δ that Rényi DP alone proves; fast, and valid for every event that is a release."""

    def bound(orders: FloatArray) -> FloatArray:
        total = sum((_renyi(event, orders) for event in events), np.zeros_like(orders))
        return _renyi_bound(total, delta, orders)

    values = bound(ORDERS)
    best = int(np.argmin(values))
    near = ORDERS[[max(best - 1, 0), min(best + 1, len(ORDERS) - 1)]]
    finer = 1 + np.geomspace(near[0] - 1, near[1] - 1, 2001)
    return max(0.0, float(min(values[best], np.min(bound(finer)))))


def common_relation(events: Sequence[Event]) -> Relation | None:
    """Return the neighboring relation of the events, None if there are none, or refuse a mixture."""
    relations = {event.relation for event in events}
    if len(relations) > 1:
        names = " and ".join(sorted(f"{r.neighboring_relation} {r.unit_of_privacy}" for r in relations))
        raise InputError(
            f"events must share one neighboring relation, got {names}; account for each group by itself"
        )
    return next(iter(relations), None)


def total_mu(events: Sequence[GaussianEvent | SampledGaussianEvent]) -> float:
    """Return the μ of the one Gaussian release that the composition amounts to."""
    if any(event.noise_multiplier <= 0 for event in events):
        return float("inf")
    return float(np.sqrt(sum(event.count / event.noise_multiplier**2 for event in events)))


def budget_shares(events: Sequence[Event], delta: float) -> dict[str, float]:
    """Return the share of the budget that the events of each label spend; the shares sum to 1.

    Shares are of μ² in a purely Gaussian run, else of the Rényi divergence at the order that gives the
    certified ε. Events that spend δ only are left out. Of disjoint groups of people the first one counts.
    """
    if any(event.group is not None for event in events):
        events = by_group(events)[0]
    delta, releases = _without_failures(events, delta)
    curves: dict[str, FloatArray] = {}
    for event in releases:
        curves[event.label] = curves.get(event.label, np.zeros_like(ORDERS)) + _renyi(event, ORDERS)
    total = np.sum(list(curves.values()), axis=0) if curves else np.zeros_like(ORDERS)
    best = int(np.argmin(_renyi_bound(total, max(delta, np.finfo(float).tiny), ORDERS)))
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
    """Return δ less the failure probabilities, and the releases without them.

    An (ε, δ)-DP mechanism is ε-DP but for an event of probability δ (Kairouz, Oh & Viswanath 2015).
    """
    failure = sum(event.delta for event in events if isinstance(event, FailureEvent | ApproximateEvent))
    releases: list[Event] = []
    for event in events:
        if isinstance(event, ApproximateEvent):
            releases.append(
                PureEvent(label=event.label, relation=event.relation, epsilon=event.epsilon, sensitivity=1.0)
            )
        elif not isinstance(event, FailureEvent):
            releases.append(event)
    return delta - failure, releases


def _costs(events: Sequence[Event]) -> tuple[tuple[object, ...], ...]:
    silent = ("label", "relation", "group", "sensitivity", "l2_sensitivity", "support")
    return tuple(
        (type(event), *(getattr(event, item.name) for item in fields(event) if item.name not in silent))
        for event in events
    )


def _sum_of_epsilons(events: Sequence[Event]) -> float:
    return float(sum(e.count * e.epsilon for e in events if isinstance(e, PureEvent | BoundedRangeEvent)))


def _merged(costs: Iterable[EventCost]) -> tuple[EventCost, ...]:
    """Return the costs with equal ones counted together: composition does not depend on their order.

    All Gaussian ones are one, exactly: their dominating pairs compose to a shift by √Σ 1/z².
    """
    counts: dict[tuple[str, float, float], int] = {}
    precision = 0.0
    for kind, parameter, count, rate in costs:
        if kind == "gaussian" and parameter > 0:
            precision += count / parameter**2
        else:
            counts[kind, parameter, rate] = counts.get((kind, parameter, rate), 0) + count
    others = [EventCost(kind, parameter, count, rate) for (kind, parameter, rate), count in counts.items()]
    return (*([EventCost("gaussian", precision**-0.5, 1)] if precision else []), *others)


def _dominated(event: Event) -> EventCost:
    match event:
        case GaussianEvent(noise_multiplier=z, count=count):
            return EventCost("gaussian", z, count)
        case SampledGaussianEvent(noise_multiplier=z, count=count, sampling_rate=rate):
            return EventCost("sampled", z, count, rate)
        case PureEvent(epsilon=epsilon, count=count) | BoundedRangeEvent(epsilon=epsilon, count=count):
            return EventCost("pure", epsilon, count)
        case _:
            raise TypeError(f"no dominating pair is known for {type(event).__name__}")


def _renyi(event: Event, orders: FloatArray) -> FloatArray:
    match event:
        case (
            GaussianEvent(noise_multiplier=z, count=count)
            | DiscreteGaussianEvent(noise_multiplier=z, count=count)
        ):
            return orders * (count / (2 * z * z) if z > 0 else np.inf)
        case SampledGaussianEvent(noise_multiplier=z, count=count, sampling_rate=rate):
            return count * sampled_gaussian_renyi(z, rate, orders)
        case PureEvent(epsilon=epsilon, count=count):
            return count * np.minimum(orders * epsilon**2 / 2, epsilon)
        case BoundedRangeEvent(epsilon=epsilon, count=count):
            return count * np.minimum(orders * epsilon**2 / 8, epsilon)
        case UnprotectedEvent():
            return np.full_like(orders, np.inf)
        case GaussianSketchEvent(n_rows=n_rows, row_bound_squared=bound, ridge=ridge):
            return sketch_renyi(n_rows, bound / ridge if ridge > 0 else np.inf, orders)
        case _:
            raise TypeError(f"an accountant cannot compose {type(event).__name__}")


def _renyi_bound(curve: FloatArray, delta: float, orders: FloatArray) -> FloatArray:
    # Canonne, Kamath & Steinke (2020), Proposition 12.
    return np.asarray(curve + np.log1p(-1 / orders) - (np.log(delta) + np.log(orders)) / (orders - 1))


@dataclass(frozen=True, kw_only=True)
class Spending:
    """The cost of releases: zCDP ρ; the sum of ε if all are pure, else infinity; δ of steps that may fail."""

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
        """Return the ε at δ that the spending proves, ``failure_delta`` of δ being set aside for failures.

        Of releases that follow each other's answers it must be fixed beforehand. None: what they take.
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
        as_gaussian = DiscreteGaussianEvent(
            label="spent", noise_multiplier=(2 * self.rho) ** -0.5, l2_sensitivity=1.0
        )
        return min(self.pure_epsilon, renyi_epsilon([as_gaussian], remaining))


def spending(events: Sequence[Event]) -> Spending:
    """Return what a run's events cost; refuse one without a zero-concentrated cost."""
    if any(event.group is not None for event in events):
        groups = [spending(those) for those in by_group(events)]
        return Spending(
            rho=max(group.rho for group in groups),
            pure_epsilon=max(group.pure_epsilon for group in groups),
            failure=max(group.failure for group in groups),
        )
    return sum((_cost(event) for event in events), Spending())


def _cost(event: Event) -> Spending:
    infinite = float("inf")
    match event:
        case (
            GaussianEvent(noise_multiplier=z, count=count)
            | DiscreteGaussianEvent(noise_multiplier=z, count=count)
        ):
            return Spending(rho=count / (2 * z * z), pure_epsilon=infinite)
        case PureEvent(epsilon=epsilon, count=count):
            return Spending(rho=count * epsilon**2 / 2, pure_epsilon=count * epsilon)
        case BoundedRangeEvent(epsilon=epsilon, count=count):
            return Spending(rho=count * epsilon**2 / 8, pure_epsilon=count * epsilon)
        case ApproximateEvent(epsilon=epsilon, delta=delta):
            return Spending(rho=epsilon**2 / 2, pure_epsilon=epsilon, failure=delta)
        case FailureEvent(delta=delta):
            return Spending(failure=delta)
        case _:
            raise InputError(
                f"{event.label} has no cost that composes over releases; choose another estimator"
            )
