"""Composition: the ε that the events of a run prove.

Purely Gaussian runs compose exactly (Gaussian DP). Everything else gets the best of three valid
bounds: Rényi DP over a fixed grid of orders, of which zero-concentrated DP is the linear case;
privacy-loss distributions, where every event has a dominating pair; and, for pure events, the sum
of their ε. Events under different neighboring relations do not compose.

Several runs on one dataset, each chosen after the answers of those before it, are summed as a
:class:`Spending`; :mod:`dpalgos.accounting.budget` decides which of them fit into a budget.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from dpalgos.accounting.events import Event, FailureEvent, GaussianEvent, Relation
from dpalgos.accounting.gaussian_dp import gaussian_epsilon
from dpalgos.accounting.losses import EventCost, pld_epsilon
from dpalgos.errors import InputError
from dpalgos.typing import FloatArray

ORDERS: FloatArray = 1 + np.logspace(-3, 6, 2000)


def certified_epsilon(events: Sequence[Event], delta: float) -> float:
    """Return the smallest ε at δ that is proved for the adaptive composition of the events.

    Parameters
    ----------
    events : sequence of Event
        What was released, as in ``Result.events``.
    delta : float
        δ in [0, 1).

    Returns
    -------
    float
        0 without events; infinite where they prove nothing at this δ.

    Raises
    ------
    InputError
        If the events do not share one neighboring relation.

    References
    ----------
    Dong, Roth and Su (2022), Gaussian differential privacy; Mironov (2017), Rényi differential privacy; and
    privacy-loss distributions of the library dp-accounting.
    """
    common_relation(events)
    if any(event.group is not None for event in events):
        groups = by_group(events)
        return max(certified_epsilon(those, delta) for those in groups)
    delta -= sum(event.failure for event in events)
    releases = [event for event in events if not isinstance(event, FailureEvent)]
    sum_of_epsilons = sum(event.pure_epsilon for event in releases)
    if delta <= 0:
        return sum_of_epsilons if delta == 0 else float("inf")
    if all(isinstance(event, GaussianEvent) for event in releases):
        return gaussian_epsilon(delta, total_mu(releases))
    costs = _merged(cost for event in releases if (cost := event.dominated))
    proved = [
        renyi_epsilon(releases, delta),
        sum_of_epsilons,
        gaussian_epsilon(delta, total_mu(releases)),  # of sums over random rows as if all were drawn
    ]
    if all(event.dominated for event in releases) and all(0 < cost.parameter < np.inf for cost in costs):
        proved.append(pld_epsilon(costs, delta))
    return min(proved)


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
    """Return the neighboring relation of the events, None if there are none, or refuse a mixture."""
    relations = {event.relation for event in events}
    if len(relations) > 1:
        names = " and ".join(sorted(f"{r.neighboring_relation} {r.unit_of_privacy}" for r in relations))
        raise InputError(
            f"events must share one neighboring relation, got {names}; account for each group by itself"
        )
    return next(iter(relations), None)


def total_mu(events: Sequence[Event]) -> float:
    """Return the μ of the one Gaussian release that the composition amounts to at most."""
    return float(np.sqrt(sum(event.mu_squared for event in events)))


def exact_mu(events: Sequence[Event]) -> float | None:
    """Return that μ where all events are Gaussian and about everyone, so that it is exact; else None."""
    exact = all(isinstance(event, GaussianEvent) and event.group is None for event in events)
    return total_mu(events) if exact else None


def budget_shares(events: Sequence[Event], delta: float) -> dict[str, float]:
    """Return the share of the budget that the events of each label spend; the shares sum to 1.

    Shares are of μ² in a purely Gaussian run, else of the Rényi divergence at the order that gives the
    certified ε. Events that spend δ only are left out. Of disjoint groups of people the first one counts.
    """
    if any(event.group is not None for event in events):
        events = by_group(events)[0]
    delta -= sum(event.failure for event in events)
    curves: dict[str, FloatArray] = {}
    for event in events:
        if not isinstance(event, FailureEvent):
            curves[event.label] = curves.get(event.label, np.zeros_like(ORDERS)) + event.renyi(ORDERS)
    total = np.sum(list(curves.values()), axis=0) if curves else np.zeros_like(ORDERS)
    best = int(np.argmin(_renyi_bound(total, max(delta, np.finfo(float).tiny), ORDERS)))
    if not 0 < total[best] < np.inf:
        return {}
    return {label: float(curve[best] / total[best]) for label, curve in curves.items()}


def _costs(events: Sequence[Event]) -> tuple[tuple[object, ...], ...]:
    silent = ("label", "relation", "group", "sensitivity", "l2_sensitivity", "support")
    return tuple(
        (type(event), *(getattr(event, item.name) for item in fields(event) if item.name not in silent))
        for event in events
    )


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
        return min(self.pure_epsilon, _renyi_epsilon(lambda orders: orders * self.rho, remaining))


def spending(events: Sequence[Event]) -> Spending:
    """Return what a run's events cost; refuse one without a zero-concentrated cost."""
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
