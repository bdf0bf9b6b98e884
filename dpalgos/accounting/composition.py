"""Composition: the ε that the events of a run prove.

Purely Gaussian runs compose exactly (Gaussian DP). All other runs get the smallest of three valid bounds:

- Rényi DP over a fixed grid of orders; zero-concentrated DP is its linear case.
- Privacy-loss distributions, if every event has a dominating pair (:mod:`dpalgos.accounting.losses`).
- The sum of ε, if all events are pure.

Events under different neighboring relations do not compose. Several runs on one dataset, each of which may
depend on earlier results, add up in :mod:`dpalgos.accounting.budget`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

import numpy as np

from dpalgos.accounting.budget import ORDERS, by_group, costs_of, epsilon_of_curve, renyi_bound
from dpalgos.accounting.events import Event, Gaussian, Relation
from dpalgos.accounting.gaussian_dp import gaussian_epsilon
from dpalgos.accounting.losses import losses_epsilon
from dpalgos.errors import InputError
from dpalgos.typing import FloatArray


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
    return partial(_mixed_epsilon, _Mixture(costs_of(events), events))


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
    sum_of_epsilons = sum(event.pure_epsilon for event in releases)
    if delta <= 0:
        return sum_of_epsilons if delta == 0 else float("inf")
    mu = total_mu(releases)
    if all(type(event) is Gaussian for event in releases):
        return gaussian_epsilon(delta, mu)
    return min(
        renyi_epsilon(releases, delta),
        sum_of_epsilons,
        gaussian_epsilon(delta, mu),  # valid for random rows, as if all were drawn
        losses_epsilon(releases, delta),
    )


def renyi_epsilon(events: Sequence[Event], delta: float) -> float:
    """Return the ε at δ that Rényi DP alone proves; it is fast and valid for every release."""
    return epsilon_of_curve(
        lambda orders: sum((e.renyi(orders) for e in events), np.zeros_like(orders)), delta
    )


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
    best = int(np.argmin(renyi_bound(total, max(delta, np.finfo(float).tiny), ORDERS)))
    if not 0 < total[best] < np.inf:
        return {}
    return {label: float(curve[best] / total[best]) for label, curve in curves.items()}
