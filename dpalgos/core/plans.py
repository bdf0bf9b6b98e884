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

from dpalgos.accounting.budget import concentrated_rho
from dpalgos.accounting.calibration import least_noise
from dpalgos.accounting.events import BoundedRangeEvent, EpsilonEvent, Event, GaussianEvent
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.core.slots import Gaussian, Laplace, Selection, Slot
from dpalgos.errors import InputError

_BELOW = 1 - 1e-12  # keeps the rounded sum of parts of ε below ε


class Share(NamedTuple):
    """The share of a label in a budget, for all its ``times`` releases together; see :class:`Slot`."""

    share: float
    times: int = 1
    forms: tuple[str, ...] = ()


def gaussian_plan(epsilon: float, delta: float, shares: Mapping[str, Share]) -> dict[str, Gaussian]:
    """Return a plan of Gaussian releases by their shares of μ², which sum to 1."""
    _check_shares({label: one.share for label, one in shares.items()})
    mu = gaussian_mu(epsilon, delta)
    return {
        label: Gaussian(float(np.sqrt(one.times / one.share) / mu), times=one.times, forms=one.forms)
        for label, one in shares.items()
    }


def laplace_plan(epsilon: float, shares: Mapping[str, Share]) -> dict[str, Laplace]:
    """Return a plan of Laplace releases by their shares of ε, which sum to 1: their ε add up."""
    _check_shares({label: one.share for label, one in shares.items()})
    return {
        label: Laplace(part_of_epsilon(epsilon, one.share, one.times), times=one.times, forms=one.forms)
        for label, one in shares.items()
    }


def part_of_epsilon(epsilon: float, share: float, times: int = 1) -> float:
    """Return the ε of each of some releases with a share of ε, rounded down: their ε add up."""
    return _BELOW * epsilon * share / times


def concentrated_plan(
    epsilon: float, delta: float, shares: Mapping[str, tuple[float, Slot]]
) -> dict[str, Slot]:
    """Return a plan by shares of the ρ of zero-concentrated DP, which sum to 1.

    A share is of all releases of a slot, and of all that each of them selects or charges. The noise that a
    slot states is replaced.
    """
    _check_shares({label: share for label, (share, _) in shares.items()})
    rho = concentrated_rho(epsilon, delta)
    plan: dict[str, Slot] = {}
    for label, (share, slot) in shares.items():
        n_releases = slot.times * _count(slot.event(""))
        changes: Any
        if isinstance(slot, Gaussian):
            changes = {"noise_multiplier": float(np.sqrt(n_releases / (2 * share * rho)))}
        elif isinstance(slot, Selection):  # of ε0²/8 each
            changes = {"epsilon": float(np.sqrt(8 * share * rho / n_releases))}
        else:
            raise TypeError(f"{label!r} is planned as {type(slot).__name__}, which has no share of ρ here")
        plan[label] = replace(slot, **changes)
    return plan


def after_selections(
    epsilon: float, delta: float, label: str, selection: Selection, share: float, plan: Mapping[str, Slot]
) -> dict[str, Slot]:
    """Return a plan of selections with a share of ρ, followed by a plan with the rest, by the least noise.

    The plan by itself is (ε, δ)-DP. The noise that the selection states is replaced.
    """
    first = concentrated_plan(epsilon, delta, {label: (share, selection), "rest": (1 - share, Gaussian(1.0))})
    rest = {
        name: _with_noise_of(slot.event("").scaled(1 / float(np.sqrt(1 - share))), slot)
        for name, slot in plan.items()
    }
    return least_noise_plan(epsilon, delta, {label: first[label], **rest}, holds=False)


def least_noise_plan(
    epsilon: float, delta: float, plan: Mapping[str, Slot], *, holds: bool = True, many: bool = False
) -> dict[str, Slot]:
    """Return a plan with all noise scaled by one factor, the smallest that proves (ε, δ) to 0.998 of ε.

    ``holds`` and ``many`` are those of :func:`dpalgos.accounting.calibration.least_noise`.
    """
    events = {label: _all_releases(slot) for label, slot in plan.items()}
    factor = least_noise(list(events.values()), epsilon, delta, holds=holds, many=many)
    return {label: _with_noise_of(events[label].scaled(factor), slot) for label, slot in plan.items()}


def _check_shares(shares: Mapping[str, float]) -> None:
    for label, share in shares.items():
        if not 0 < share <= 1:
            raise InputError(f"the share of {label!r} must be above 0 and at most 1, got {share!r}")
    total = sum(shares.values())
    if abs(total - 1) > 1e-9:
        raise InputError(f"shares must sum to 1, got {total:g} for {', '.join(shares)}; change one")


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
