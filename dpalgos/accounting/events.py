"""Events: the releases of a private run, planned or made, with their noise and their privacy cost.

A class is a kind of release: how its noise is drawn, what it costs, and how a witness checks it. A plan
maps labels to events whose sensitivity is not known yet (:mod:`dpalgos.core.plans`). The record of a run has
one event for each release, with its sensitivity. The privacy cost depends on the ratio of noise to
sensitivity only. Events without Gaussian noise are in :mod:`dpalgos.accounting.other_events`.

Every event names its neighboring relation; only events under the same relation compose.
"""

from dataclasses import dataclass, field, replace
from enum import Enum
from math import inf
from typing import ClassVar, Self

import numpy as np

from dpalgos.errors import InputError
from dpalgos.release.noise_source import Noise
from dpalgos.typing import FloatArray, Number


class Relation(Enum):
    """A neighboring relation; guarantees under different ones do not compose.

    Attributes
    ----------
    CENTRAL
        Datasets of the same size that differ in one row.
    LOCAL
        The report of one person: any two inputs are neighbors.
    USER
        Datasets with the same users that differ in the samples of one user.
    """

    CENTRAL = ("central", "row", "replace-one")
    LOCAL = ("local", "report", "replace-one")
    USER = ("user", "user", "replace-one")

    def __init__(self, model: str, unit_of_privacy: str, neighboring_relation: str) -> None:
        self.model, self.unit_of_privacy = model, unit_of_privacy
        self.neighboring_relation = neighboring_relation


@dataclass(frozen=True, kw_only=True)
class Event:
    """Releases of one kind and one noise, or a possible failure of the guarantee.

    A subclass states its cost in every notion of privacy that is proved for it. The defaults prove nothing.
    Events are equal if they cost the same under one label.

    Attributes
    ----------
    label : str
        The name of the released quantity; empty in a plan, whose keys are the labels.
    sensitivity : float, (R,) array or None
        The sensitivity in the norm ``norm``; None before it is known. It is an array over replicates if they
        differ in their number of rows or in their iterates.
    times : int
        How many releases are made, each of which may depend on earlier ones; 1 in the record of a run.
    forms : tuple of str
        Labels of other quantities that may be released in the place of a planned one, at the same cost.
        Earlier releases decide which.
    relation : Relation
        The neighboring relation of its sensitivity and cost.
    group : int or None
        The number of the group of people that it is about, where groups are disjoint; None if it is about
        everyone. Each person is in one group. Therefore events of different groups do not add up.
    is_additive : bool
        Whether noise is added to vectors of any query; ``draw`` draws it at scale 1.
    """

    label: str = ""
    sensitivity: Number | None = field(default=None, compare=False)
    times: int = 1
    forms: tuple[str, ...] = ()
    relation: Relation = Relation.CENTRAL
    group: int | None = None

    is_additive: ClassVar[bool] = False
    instead: ClassVar[str] = "choose another estimator"

    @property
    def norm(self) -> float:
        """The order of the norm in which the sensitivity is measured."""
        return inf

    def once(self, label: str, sensitivity: Number | None = None) -> Self:
        """Return the event of one of the planned releases; without a sensitivity the stated one holds."""
        stated = self.sensitivity if sensitivity is None else sensitivity
        return replace(self, label=label, sensitivity=stated, times=1, forms=())

    @property
    def n_charges(self) -> int:
        """How many times its cost is charged."""
        return self.times

    @property
    def has_exact_sampler(self) -> bool:
        """Whether its releases have floating-point-safe noise; ``instead`` is the advice if they do not."""
        return True

    @property
    def is_failure(self) -> bool:
        """Whether it releases nothing: with some probability the other events do not hold."""
        return False

    @property
    def is_unprotected(self) -> bool:
        """Whether private data were released without noise: then the run proves nothing."""
        return False

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Return bounds on the Rényi divergences between neighbors."""
        return np.full_like(orders, inf)

    @property
    def dominating(self) -> "Event | None":
        """An event of the same dominating pair, without a label, whose losses compose; or None."""
        return None

    @property
    def mu_squared(self) -> float:
        """μ² of Gaussian DP."""
        return inf

    @property
    def rho(self) -> float:
        """ρ of zero-concentrated DP, which composes over adaptively chosen releases."""
        raise InputError(f"{self.label} has no cost that composes over releases; choose another estimator")

    @property
    def pure_epsilon(self) -> float:
        """The ε of pure DP."""
        return inf

    @property
    def failure(self) -> float:
        """The probability with which the stated cost does not hold."""
        return 0.0

    def scaled(self, factor: float) -> Self:
        """Return the event with its noise multiplied by a factor, or unchanged if the noise has no scale."""
        return self

    def with_rho(self, rho: float) -> Self:
        """Return the event with the noise at which all its releases together cost ρ."""
        raise TypeError(f"{type(self).__name__} has no share of ρ here")

    @property
    def noise_scale(self) -> FloatArray | None:
        """The scale of additive noise, () or (R,); None for other releases."""
        return None

    def draw(self, noise: Noise, size: int) -> FloatArray:
        """Draw additive noise of scale 1, (size, R)."""
        raise TypeError(f"{type(self).__name__} adds no noise")

    def unit_std(self, size: int) -> float:
        """Return the standard deviation of an entry of additive noise of scale 1 on ``size`` numbers."""
        return 1.0

    def negative_log_density(self, noise: FloatArray) -> FloatArray:
        """Return the terms of −log density of noise of scale 1, (k, R), without constants."""
        raise TypeError(f"{type(self).__name__} adds no noise")


@dataclass(frozen=True)
class GaussianNoise(Event):
    """Vectors with Gaussian noise.

    ``noise_multiplier`` is noise standard deviation over ℓ2 sensitivity (the minimum over replicates).
    """

    noise_multiplier: float

    @property
    def norm(self) -> float:
        return 2.0

    @property
    def mu_squared(self) -> float:
        z = self.noise_multiplier
        return self.n_charges / (z * z) if z > 0 else inf

    def scaled(self, factor: float) -> Self:
        return replace(self, noise_multiplier=self.noise_multiplier * factor)

    @property
    def noise_scale(self) -> FloatArray | None:
        return None if self.sensitivity is None else np.asarray(self.noise_multiplier * self.sensitivity)

    def negative_log_density(self, noise: FloatArray) -> FloatArray:
        return np.asarray(noise**2 / 2)


@dataclass(frozen=True)
class Gaussian(GaussianNoise):
    """A vector with isotropic Gaussian noise, whose composition is exact."""

    is_additive: ClassVar[bool] = True

    def renyi(self, orders: FloatArray) -> FloatArray:
        return orders * self.rho

    @property
    def dominating(self) -> "Event | None":
        return Gaussian(self.noise_multiplier, times=self.times)

    @property
    def rho(self) -> float:
        z = self.noise_multiplier
        return self.n_charges / (2 * z * z) if z > 0 else inf

    def with_rho(self, rho: float) -> Self:
        return replace(self, noise_multiplier=float(np.sqrt(self.n_charges / (2 * rho))))

    def draw(self, noise: Noise, size: int) -> FloatArray:
        return noise.normal(size)


@dataclass(frozen=True)
class DiscreteGaussian(Gaussian):
    """A vector on a grid with discrete Gaussian noise; accounted as zero-concentrated DP."""

    @property
    def dominating(self) -> "Event | None":
        return None

    @property
    def mu_squared(self) -> float:
        return inf
