"""Plans: what a run will release, its noise and its cost, before any row is read.

A plan maps labels to events (:mod:`dpalgos.accounting.events`), in the order of the releases. A label names
the released quantity. If releases of one quantity have different noise, their labels end in a number:
``"step: values 3"``. Their recorded events have the label without that number.

T Gaussian releases of noise multiplier z are exactly one of multiplier z/√T. So a plan of Gaussian releases
gives each label a share of μ², the squared parameter of Gaussian differential privacy, for all its releases
together. Shares that sum to 1 prove exactly (ε, δ).

A plan with selections is first made by shares of the ρ of zero-concentrated DP. Then all its noise is scaled
by one factor, to the smallest that the accountant proves.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dpalgos.accounting.budget import concentrated_rho
from dpalgos.accounting.calibration import least_noise
from dpalgos.accounting.events import Event, Gaussian
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.accounting.other_events import Laplace, Selection
from dpalgos.errors import InputError

Plan = Mapping[str, Event]
_NUMBER = re.compile(r" \d+$")
_BELOW = 1 - 1e-12  # keeps the rounded sum of parts of ε below ε


def quantity(label: str) -> str:
    """Return the label of a release without the number that tells slots of one quantity apart."""
    return _NUMBER.sub("", label) if label[-1:].isdigit() else label


def planned_events(plan: Plan) -> list[Event]:
    """Return the events of a run in the order of its plan, one for each release, at a sensitivity of 1.

    The privacy cost depends on the ratio of noise to sensitivity only. Therefore this is the cost of the run,
    known before any row is read.
    """
    return [one for label, event in plan.items() for one in [event.once(quantity(label), 1.0)] * event.times]


class Share(NamedTuple):
    """The share of a label in a budget, for all its ``times`` releases together; see :class:`Event`."""

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
    epsilon: float, delta: float, shares: Mapping[str, tuple[float, Event]]
) -> dict[str, Event]:
    """Return a plan by shares of the ρ of zero-concentrated DP, which sum to 1.

    A share is of all releases of an event, and of all that each of them selects or charges. The noise that an
    event states is replaced.
    """
    _check_shares({label: share for label, (share, _) in shares.items()})
    rho = concentrated_rho(epsilon, delta)
    return {label: event.with_rho(share * rho) for label, (share, event) in shares.items()}


def after_selections(
    epsilon: float, delta: float, label: str, selection: Selection, share: float, plan: Plan
) -> dict[str, Event]:
    """Return a plan of selections with a share of ρ, followed by a plan with the rest, by the least noise.

    The plan by itself is (ε, δ)-DP. The noise that the selection states is replaced.
    """
    first = concentrated_plan(epsilon, delta, {label: (share, selection), "rest": (1 - share, Gaussian(1.0))})
    rest = {name: event.scaled(1 / float(np.sqrt(1 - share))) for name, event in plan.items()}
    return least_noise_plan(epsilon, delta, {label: first[label], **rest}, holds=False)


def least_noise_plan(
    epsilon: float, delta: float, plan: Plan, *, holds: bool = True, many: bool = False
) -> dict[str, Event]:
    """Return a plan with all noise scaled by one factor, the smallest that proves (ε, δ) to 0.998 of ε.

    ``holds`` and ``many`` are those of :func:`dpalgos.accounting.calibration.least_noise`.
    """
    factor = least_noise(list(plan.values()), epsilon, delta, holds=holds, many=many)
    return {label: event.scaled(factor) for label, event in plan.items()}


def _check_shares(shares: Mapping[str, float]) -> None:
    for label, share in shares.items():
        if not 0 < share <= 1:
            raise InputError(f"the share of {label!r} must be above 0 and at most 1, got {share!r}")
    total = sum(shares.values())
    if abs(total - 1) > 1e-9:
        raise InputError(f"shares must sum to 1, got {total:g} for {', '.join(shares)}; change one")
