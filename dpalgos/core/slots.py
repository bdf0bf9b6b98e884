"""Slots of a plan: a kind of release with its noise, relative to a sensitivity that is not known yet.

A plan maps labels to slots, in the order of the releases. The class of a slot says once how a release is
charged, and how additive noise is drawn.

A label names the released quantity. If releases of one quantity have different noise, their labels end in a
number: ``"step: values 3"``. Their events have the label without that number.

Plans that divide a budget over releases.

T Gaussian releases of noise multiplier z are exactly one of multiplier z/√T. So a plan of Gaussian releases
gives each label a share of μ², the squared parameter of Gaussian differential privacy, for all its releases
together. Shares that sum to 1 prove exactly (ε, δ).

A plan with selections is first made by shares of the ρ of zero-concentrated DP. Then all its noise is scaled
by one factor, to the smallest that the accountant proves.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dpalgos.accounting import events as kinds
from dpalgos.accounting.budget import concentrated_rho
from dpalgos.accounting.calibration import least_noise
from dpalgos.accounting.events import BoundedRangeEvent, EpsilonEvent, Event, GaussianEvent
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.errors import InputError
from dpalgos.release.noise_source import Noise
from dpalgos.typing import FloatArray, Number

_NUMBER = re.compile(r" \d+$")


@dataclass(frozen=True, kw_only=True)
class Slot:
    """Releases of one kind and one noise.

    Attributes
    ----------
    times : int
        How many releases are made, each of which may depend on earlier ones.
    forms : tuple of str
        Labels of other quantities that may be released in the slot's place, at the same cost. Earlier
        releases decide which.
    group : int or None
        The number of the group of people that the releases are about, if groups are disjoint.
    """

    times: int = 1
    forms: tuple[str, ...] = ()
    group: int | None = None

    instead: ClassVar[str] = "choose another estimator"

    @property
    def has_exact_sampler(self) -> bool:
        """Whether its releases have floating-point-safe noise; ``instead`` is the advice if they do not."""
        return True

    def event(self, label: str, sensitivity: Number = 1.0) -> Event:
        """Return the event of one release."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Additive(Slot):
    """Vectors released with noise of one law, whose scale is that of the event."""

    def draw(self, noise: Noise, size: int) -> FloatArray:
        """Draw noise of scale 1, (size, R)."""
        raise NotImplementedError

    def unit_std(self, size: int) -> float:
        """Return the standard deviation of an entry of noise of scale 1 on ``size`` numbers."""
        return 1.0


@dataclass(frozen=True)
class Gaussian(Additive):
    """Gaussian noise of standard deviation ``noise_multiplier`` times the ℓ2 sensitivity."""

    noise_multiplier: float

    def event(self, label: str, sensitivity: Number = 1.0) -> Event:
        return kinds.GaussianEvent(
            label=label, group=self.group, noise_multiplier=self.noise_multiplier, l2_sensitivity=sensitivity
        )

    def draw(self, noise: Noise, size: int) -> FloatArray:
        return noise.normal(size)


@dataclass(frozen=True)
class SampledGaussian(Slot):
    """Gaussian noise on sums over rows that are drawn in secret, each with probability ``sampling_rate``.

    Its charge holds for such sums alone: noise cannot be added to another query in its place.
    """

    noise_multiplier: float
    sampling_rate: float

    has_exact_sampler = False
    instead = "choose another estimator, or one whose rows take turns"

    def event(self, label: str, sensitivity: Number = 1.0) -> Event:
        return kinds.SampledGaussianEvent(
            label=label,
            group=self.group,
            noise_multiplier=self.noise_multiplier,
            l2_sensitivity=sensitivity,
            sampling_rate=self.sampling_rate,
        )


@dataclass(frozen=True)
class Laplace(Additive):
    """Laplace noise of scale sensitivity/``epsilon`` on each entry, for an ℓ1 sensitivity.

    With ``n_entries`` = k > 1, each of k entries is charged ``epsilon``, and the sensitivity is in ℓ∞.
    """

    epsilon: float
    n_entries: int = 1

    @property
    def has_exact_sampler(self) -> bool:
        return self.n_entries == 1

    def event(self, label: str, sensitivity: Number = 1.0) -> Event:
        k = self.n_entries
        norm = 1.0 if k == 1 else np.inf
        return kinds.PureEvent(
            label=label, group=self.group, epsilon=self.epsilon, sensitivity=sensitivity, count=k, norm=norm
        )

    def draw(self, noise: Noise, size: int) -> FloatArray:
        return noise.laplace(size)

    def unit_std(self, size: int) -> float:
        return float(np.sqrt(2.0))


@dataclass(frozen=True)
class Cube(Additive):
    """Noise of density ∝ e^(−ε ‖z‖∞ / sensitivity), for a sensitivity in ℓ∞.

    It is the K-norm mechanism of the cube (Hardt & Talwar 2010). Its variance per entry of k numbers is
    (k + 1)(k + 2) / 3 · (sensitivity / ε)², that of Laplace noise on every entry 2k² · (sensitivity / ε)².
    """

    epsilon: float

    def event(self, label: str, sensitivity: Number = 1.0) -> Event:
        return kinds.BoxNoiseEvent(
            label=label, group=self.group, epsilon=self.epsilon, sensitivity=sensitivity
        )

    def draw(self, noise: Noise, size: int) -> FloatArray:
        return noise.box(size)

    def unit_std(self, size: int) -> float:
        return float(np.sqrt((size + 1) * (size + 2) / 3))


@dataclass(frozen=True)
class Selection(Slot):
    """The ``k`` largest scores, or magnitudes of scores, by Gumbel noise of scale 2 sensitivity/``epsilon``.

    The sensitivity bounds how far a neighbor moves any one score. If candidates are numbers, ``support``
    holds the public minimum and maximum of their range.
    """

    epsilon: float
    k: int = 1
    by_magnitude: bool = False
    support: tuple[float, ...] = ()

    def event(self, label: str, sensitivity: Number = 1.0) -> Event:
        return kinds.BoundedRangeEvent(
            label=label,
            group=self.group,
            epsilon=self.epsilon,
            sensitivity=sensitivity,
            count=self.k,
            by_magnitude=self.by_magnitude,
            support=self.support,
        )


@dataclass(frozen=True)
class Peeling(Selection):
    """``k`` selections by fresh Laplace noise each (:mod:`dpalgos.mechanisms.peeling`)."""

    has_exact_sampler = False

    def event(self, label: str, sensitivity: Number = 1.0) -> Event:
        return kinds.PureEvent(
            label=label,
            group=self.group,
            epsilon=self.epsilon,
            sensitivity=sensitivity,
            count=self.k,
            norm=np.inf,
        )


@dataclass(frozen=True)
class Density(Selection):
    """``k`` numbers of density ∝ e^(ε score / 2) on a public interval, by a mechanism's own sampler.

    Its candidates are all numbers of the interval. No floating-point-safe sampler of it is known here.
    """

    has_exact_sampler = False


@dataclass(frozen=True)
class Sketch(Slot):
    """``n_rows`` draws of N(0, A'A + ridge · B² I), where B² bounds the squared norm of a row of A."""

    n_rows: int
    ridge: float

    has_exact_sampler = False

    def event(self, label: str, sensitivity: Number = 1.0) -> Event:
        bound = float(sensitivity)
        return kinds.GaussianSketchEvent(
            label=label,
            group=self.group,
            n_rows=self.n_rows,
            row_bound_squared=bound,
            ridge=self.ridge * bound,
        )


@dataclass(frozen=True)
class Proved(Slot):
    """A mechanism whose guarantee is proved as a whole, such as a randomizer, or a probability of failure."""

    proved: Event

    @property
    def has_exact_sampler(self) -> bool:
        return isinstance(self.proved, kinds.FailureEvent)  # it releases nothing

    def event(self, label: str, sensitivity: Number = 1.0) -> Event:
        return replace(self.proved, label=label, group=self.group)


Plan = Mapping[str, Slot]


def quantity(label: str) -> str:
    """Return the label of a release without the number that tells slots of one quantity apart."""
    return _NUMBER.sub("", label) if label[-1:].isdigit() else label


def planned_events(plan: Plan) -> list[Event]:
    """Return the events of a run in the order of its plan, one for each release, at a sensitivity of 1.

    The privacy cost depends on the ratio of noise to sensitivity only. Therefore this is the cost of the run,
    known before any row is read.
    """
    return [event for label, slot in plan.items() for event in [slot.event(quantity(label))] * slot.times]


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
