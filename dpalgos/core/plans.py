"""Plans that divide a budget over releases.

T Gaussian releases of noise multiplier z are exactly one of multiplier z/√T. So a plan of Gaussian releases
gives each label a share of μ², the squared parameter of Gaussian differential privacy, for all its releases
together. Shares that sum to 1 prove exactly (ε, δ).

A plan with selections is first made by shares of the ρ of zero-concentrated DP. Then all its noise is scaled
by one factor, to the smallest that the accountant proves.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.calibration import NoisePlan, least_noise
from dpalgos.accounting.events import BoundedRangeEvent, EpsilonEvent, Event, GaussianEvent
from dpalgos.core.slots import Gaussian, Laplace, Selection, Slot


class Share(NamedTuple):
    """The share of a label in a budget, for all its ``times`` releases together; see :class:`Slot`."""

    share: float
    times: int = 1
    forms: tuple[str, ...] = ()


def gaussian_plan(epsilon: float, delta: float, shares: Mapping[str, Share]) -> dict[str, Gaussian]:
    """Return a plan of Gaussian releases by their shares of μ², which sum to 1."""
    budget = SplitBudget(epsilon=epsilon, delta=delta, shares={label: s.share for label, s in shares.items()})
    return {
        label: Gaussian(budget.gaussian_multiplier(label, one.times), times=one.times, forms=one.forms)
        for label, one in shares.items()
    }


def laplace_plan(epsilon: float, shares: Mapping[str, Share]) -> dict[str, Laplace]:
    """Return a plan of Laplace releases by their shares of ε, which sum to 1: their ε add up."""
    budget = SplitBudget(epsilon=epsilon, delta=0.5, shares={label: s.share for label, s in shares.items()})
    return {
        label: Laplace(budget.split_epsilon(label, one.times), times=one.times, forms=one.forms)
        for label, one in shares.items()
    }


def concentrated_plan(
    epsilon: float, delta: float, shares: Mapping[str, tuple[float, Slot]]
) -> dict[str, Slot]:
    """Return a plan by shares of the ρ of zero-concentrated DP, which sum to 1.

    A share is of all releases of a slot, and of all that each of them selects or charges. The noise that a
    slot states is replaced.
    """
    budget = SplitBudget(
        epsilon=epsilon, delta=delta, shares={label: s for label, (s, _) in shares.items()}, gaussian=False
    )
    plan: dict[str, Slot] = {}
    for label, (_, slot) in shares.items():
        n_releases = slot.times * _count(slot.event(""))
        if isinstance(slot, Gaussian):
            plan[label] = replace(slot, noise_multiplier=budget.gaussian_multiplier(label, n_releases))
        elif isinstance(slot, Selection):
            plan[label] = replace(slot, epsilon=budget.selection_epsilon(label, n_releases))
        else:
            raise TypeError(f"{label!r} is planned as {type(slot).__name__}, which has no share of ρ here")
    return plan


def after_selections(
    epsilon: float, delta: float, label: str, selection: Selection, share: float, plan: Mapping[str, Slot]
) -> dict[str, Slot]:
    """Return a plan of selections with a share of ρ, followed by a plan with the rest, by the least noise.

    The plan by itself is (ε, δ)-DP. The noise that the selection states is replaced.
    """
    budget = SplitBudget(
        epsilon=epsilon, delta=delta, shares={label: share, "rest": 1 - share}, gaussian=False
    )
    n_selections = selection.times * selection.k
    first = replace(selection, epsilon=budget.selection_epsilon(label, n_selections))
    rest = {
        name: _with_noise_of(slot.event("").scaled(1 / float(np.sqrt(1 - share))), slot)
        for name, slot in plan.items()
    }
    return least_noise_plan(epsilon, delta, {label: first, **rest}, holds=False)


def least_noise_plan(
    epsilon: float, delta: float, plan: Mapping[str, Slot], *, holds: bool = True, many: bool = False
) -> dict[str, Slot]:
    """Return a plan with all noise scaled by one factor, the smallest that proves (ε, δ) to 0.998 of ε.

    ``holds`` and ``many`` are those of :func:`dpalgos.accounting.calibration.least_noise`.
    """
    events = {label: _all_releases(slot) for label, slot in plan.items()}
    scaled = least_noise(NoisePlan(epsilon, delta, events), holds=holds, many=many)
    return {label: _with_noise_of(scaled.events[label], slot) for label, slot in plan.items()}


def _all_releases(slot: Slot) -> Event:
    """Return one event for all releases of a slot."""
    event = slot.event("")
    changes: Any = {"count": slot.times * _count(event)}
    return event if slot.times == 1 else replace(event, **changes)


def _with_noise_of(event: Event, slot: Slot) -> Slot:
    """Return a slot with the noise of an event; ε as the noise scale 2/ε rounds it."""
    if isinstance(event, GaussianEvent):
        changes: Any = {"noise_multiplier": event.noise_multiplier}
    elif isinstance(event, BoundedRangeEvent):
        changes = {"epsilon": 2 / (2 / event.epsilon)}
    else:
        changes = {"epsilon": event.epsilon} if isinstance(event, EpsilonEvent) else {}
    return replace(slot, **changes)


def _count(event: Event) -> int:
    return int(getattr(event, "count", 1))
