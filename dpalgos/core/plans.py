"""Plans: what a run will release, its noise and its cost, before any row is read.

A plan maps labels to events (:mod:`dpalgos.accounting.events`), in the order of the releases. A label names
the released quantity. If releases of one quantity have different noise, their labels end in a number:
``"step: values 3"``. Their recorded events have the label without that number.

T Gaussian releases of noise multiplier z are exactly one of multiplier z/√T. So a plan of Gaussian releases
gives each label a share of μ², the squared parameter of Gaussian differential privacy, for all its releases
together. Shares that sum to 1 prove exactly (ε, δ). Other plans are in :mod:`dpalgos.core.other_plans`.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dpalgos.accounting.events import Event, Gaussian
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.errors import InputError

Plan = Mapping[str, Event]
_NUMBER = re.compile(r" \d+$")


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
    check_shares({label: one.share for label, one in shares.items()})
    mu = gaussian_mu(epsilon, delta)
    return {
        label: Gaussian(float(np.sqrt(one.times / one.share) / mu), times=one.times, forms=one.forms)
        for label, one in shares.items()
    }


def check_shares(shares: Mapping[str, float]) -> None:
    """Refuse shares that are not positive or do not sum to 1."""
    for label, share in shares.items():
        if not 0 < share <= 1:
            raise InputError(f"the share of {label!r} must be above 0 and at most 1, got {share!r}")
    total = sum(shares.values())
    if abs(total - 1) > 1e-9:
        raise InputError(f"shares must sum to 1, got {total:g} for {', '.join(shares)}; change one")
