"""Slots of a plan: a kind of release with its noise, relative to a sensitivity that is not known yet.

A plan maps labels to slots, in the order of the releases. The class of a slot says once how a release is
charged, and how additive noise is drawn.

A label names the released quantity. If releases of one quantity have different noise, their labels end in a
number: ``"step: values 3"``. Their events have the label without that number.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dpalgos.accounting import events as kinds
from dpalgos.accounting.events import Event
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
        event = self._event(label, sensitivity)
        return event if self.group is None else replace(event, group=self.group)

    def _event(self, label: str, sensitivity: Number) -> Event:
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

    def _event(self, label: str, sensitivity: Number) -> Event:
        return kinds.GaussianEvent(
            label=label, noise_multiplier=self.noise_multiplier, l2_sensitivity=sensitivity
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

    def _event(self, label: str, sensitivity: Number) -> Event:
        return kinds.SampledGaussianEvent(
            label=label,
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

    def _event(self, label: str, sensitivity: Number) -> Event:
        k = self.n_entries
        norm = 1.0 if k == 1 else np.inf
        return kinds.PureEvent(label=label, epsilon=self.epsilon, sensitivity=sensitivity, count=k, norm=norm)

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

    def _event(self, label: str, sensitivity: Number) -> Event:
        return kinds.BoxNoiseEvent(label=label, epsilon=self.epsilon, sensitivity=sensitivity)

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

    def _event(self, label: str, sensitivity: Number) -> Event:
        return kinds.BoundedRangeEvent(
            label=label,
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

    def _event(self, label: str, sensitivity: Number) -> Event:
        return kinds.PureEvent(
            label=label, epsilon=self.epsilon, sensitivity=sensitivity, count=self.k, norm=np.inf
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

    def _event(self, label: str, sensitivity: Number) -> Event:
        bound = float(sensitivity)
        return kinds.GaussianSketchEvent(
            label=label, n_rows=self.n_rows, row_bound_squared=bound, ridge=self.ridge * bound
        )


@dataclass(frozen=True)
class Proved(Slot):
    """A mechanism whose guarantee is proved as a whole, such as a randomizer, or a probability of failure."""

    proved: Event

    @property
    def has_exact_sampler(self) -> bool:
        return isinstance(self.proved, kinds.FailureEvent)  # it releases nothing

    def _event(self, label: str, sensitivity: Number) -> Event:
        return replace(self.proved, label=label)


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
