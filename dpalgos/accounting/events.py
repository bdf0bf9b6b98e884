"""Events: frozen records of the releases of a private run and of their privacy costs.

Every event names its neighboring relation; only events under the same relation compose. The privacy cost
depends on the ratio of noise to sensitivity only. The sensitivity is kept for the record. It is an array over
replicates if they differ in their number of rows or in their iterates.
"""

from dataclasses import dataclass, replace
from enum import Enum
from math import inf
from typing import ClassVar, Self

import numpy as np

from dpalgos.accounting.losses import EventCost, sampled_gaussian_renyi
from dpalgos.errors import InputError
from dpalgos.typing import FloatArray


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


@dataclass(frozen=True, eq=False, kw_only=True)
class Event:
    """A release, or a possible failure of the guarantee.

    A subclass states its cost in every notion of privacy that is proved for it. The defaults prove nothing.

    Attributes
    ----------
    label : str
        The name of the released quantity.
    relation : Relation
        The neighboring relation of its sensitivity and cost.
    group : int or None
        The number of the group of people that it is about, where groups are disjoint; None if it is about
        everyone. Each person is in one group. Therefore events of different groups do not add up.
    """

    label: str
    relation: Relation = Relation.CENTRAL
    group: int | None = None

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Return bounds on the Rényi divergences between neighbors."""
        return np.full_like(orders, inf)

    @property
    def dominated(self) -> EventCost | None:
        """The dominating pair of the release, or None."""
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

    @property
    def noise_scale(self) -> FloatArray | None:
        """The scale of additive noise, () or (R,); None for other releases."""
        return None

    def negative_log_density(self, noise: FloatArray) -> FloatArray:
        """Return the terms of −log density of noise of scale 1, (k, R), without constants."""
        raise TypeError(f"{type(self).__name__} adds no noise")


@dataclass(frozen=True, eq=False, kw_only=True)
class GaussianNoiseEvent(Event):
    """A vector was released with Gaussian noise, ``count`` times, adaptively.

    ``noise_multiplier`` is noise standard deviation over ``l2_sensitivity`` (the minimum over replicates).
    """

    noise_multiplier: float
    l2_sensitivity: float | FloatArray
    count: int = 1

    def renyi(self, orders: FloatArray) -> FloatArray:
        return orders * self.rho

    @property
    def rho(self) -> float:
        z = self.noise_multiplier
        return self.count / (2 * z * z) if z > 0 else inf

    def scaled(self, factor: float) -> Self:
        return replace(self, noise_multiplier=self.noise_multiplier * factor)

    @property
    def noise_scale(self) -> FloatArray | None:
        return np.asarray(np.multiply(self.noise_multiplier, self.l2_sensitivity), dtype=float)

    def negative_log_density(self, noise: FloatArray) -> FloatArray:
        return np.asarray(noise**2 / 2)


@dataclass(frozen=True, eq=False, kw_only=True)
class GaussianEvent(GaussianNoiseEvent):
    """A vector was released with isotropic Gaussian noise, whose composition is exact."""

    @property
    def dominated(self) -> EventCost | None:
        return EventCost("gaussian", self.noise_multiplier, self.count)

    @property
    def mu_squared(self) -> float:
        z = self.noise_multiplier
        return self.count / (z * z) if z > 0 else inf


@dataclass(frozen=True, eq=False, kw_only=True)
class DiscreteGaussianEvent(GaussianNoiseEvent):
    """A vector was released on a grid with discrete Gaussian noise; accounted as zero-concentrated DP."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledGaussianEvent(GaussianNoiseEvent):
    """A sum over rows, each drawn with probability ``sampling_rate``, was released with Gaussian noise.

    The drawn rows stay secret. A row adds a vector of norm at most ``l2_sensitivity`` / 2. Therefore
    replacing a drawn row moves the sum by at most ``l2_sensitivity``.
    """

    sampling_rate: float

    rho = Event.rho

    def renyi(self, orders: FloatArray) -> FloatArray:
        return self.count * sampled_gaussian_renyi(self.noise_multiplier, self.sampling_rate, orders)

    @property
    def dominated(self) -> EventCost | None:
        return EventCost("sampled", self.noise_multiplier, self.count, self.sampling_rate)

    mu_squared = GaussianEvent.mu_squared  # as if all rows were drawn


@dataclass(frozen=True, eq=False, kw_only=True)
class EpsilonEvent(Event):
    """A release that is ``epsilon``-differentially private, ``count`` times, adaptively.

    Each of them costs ρ = ε²/``rho_divisor`` of zero-concentrated DP.
    """

    rho_divisor: ClassVar[float] = 2.0
    epsilon: float
    count: int = 1

    def renyi(self, orders: FloatArray) -> FloatArray:
        once = np.minimum(orders * self.epsilon**2 / self.rho_divisor, self.epsilon)
        return np.asarray(self.count * once)

    @property
    def dominated(self) -> EventCost | None:
        return EventCost("pure", self.epsilon, self.count)

    @property
    def rho(self) -> float:
        return self.count * self.epsilon**2 / self.rho_divisor

    @property
    def pure_epsilon(self) -> float:
        return self.count * self.epsilon

    def scaled(self, factor: float) -> Self:
        return replace(self, epsilon=self.epsilon / factor)


@dataclass(frozen=True, eq=False, kw_only=True)
class PureEvent(EpsilonEvent):
    """A release that is ``epsilon``-differentially private (δ = 0), e.g. Laplace noise.

    ``sensitivity`` is measured in the ℓ_``norm``. The norm is 1 for a vector with Laplace noise. It is ∞ for
    a selection by scores, and for ``count`` coordinates that are charged one by one.
    """

    sensitivity: float | FloatArray
    norm: float = 1.0

    @property
    def noise_scale(self) -> FloatArray | None:
        return np.asarray(np.asarray(self.sensitivity) / self.epsilon, dtype=float)

    def negative_log_density(self, noise: FloatArray) -> FloatArray:
        return np.abs(noise)


@dataclass(frozen=True, eq=False, kw_only=True)
class BoxNoiseEvent(PureEvent):
    """A vector was released with noise z of density ∝ e^(−ε ‖z‖∞ / sensitivity)."""

    norm: float = inf

    def negative_log_density(self, noise: FloatArray) -> FloatArray:
        return np.asarray(np.abs(noise).max(axis=0, keepdims=True))


@dataclass(frozen=True, eq=False, kw_only=True)
class RandomizerEvent(PureEvent):
    """Each person of a group sent one random vector of ``size`` entries instead of a private one.

    The ℓ2 norm of a private vector is at most ``radius``. A report whose component along the private vector
    exceeds ``threshold`` is e^ε times as likely as any other report.
    """

    radius: float
    size: int
    threshold: float

    scaled = Event.scaled
    noise_scale = Event.noise_scale


@dataclass(frozen=True, eq=False, kw_only=True)
class BoundedRangeEvent(EpsilonEvent):
    """A selection whose log-probability ratios span at most ``epsilon`` (exponential mechanism).

    ``sensitivity`` is the maximum change of a score between neighbors. ``count`` candidates are selected one
    after another, in the order of their scores, or of the scores' magnitudes if ``by_magnitude``. If
    candidates are numbers, ``support`` holds the public minimum and maximum of their range.
    """

    rho_divisor: ClassVar[float] = 8.0
    sensitivity: float | FloatArray
    by_magnitude: bool = False
    support: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class ApproximateEvent(EpsilonEvent):
    """A mechanism known only as (``epsilon``, ``delta``)-DP.

    It is ε-DP except for an event of probability δ (Kairouz, Oh & Viswanath 2015).
    """

    delta: float

    scaled = Event.scaled

    @property
    def failure(self) -> float:
        return self.count * self.delta


@dataclass(frozen=True, eq=False, kw_only=True)
class GaussianSketchEvent(Event):
    """``n_rows`` draws of N(0, G) were released, G = A'A + ridge, where G ⪰ ``ridge`` · I.

    ``row_bound_squared`` bounds the squared ℓ2 norm of a row of A.
    """

    n_rows: int
    row_bound_squared: float
    ridge: float

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Return the Rényi divergences under replacing one row.

        Replacing a row a by b changes G by bb' − aa'. In the metric of G, at most two eigenvalues differ
        from 1: one is at least 1 − ratio, the other at most 1 + ratio, where ratio = B²/ridge. The
        divergence per direction is

            D_α(N(0, κ) ‖ N(0, 1)) = −½ log κ − log(α + (1 − α)κ) / (2(α − 1)).

        It grows as κ moves away from 1. The roles of the two datasets are symmetric.
        """
        if self.row_bound_squared >= self.ridge:
            return np.full_like(orders, inf)
        ratio = self.row_bound_squared / self.ridge
        total = np.zeros_like(orders)
        for kappa in (1 - ratio, 1 + ratio):
            mixture = orders + (1 - orders) * kappa
            with np.errstate(invalid="ignore", divide="ignore"):
                term = -0.5 * np.log(kappa) - np.log(mixture) / (2 * (orders - 1))
            total += np.where(mixture > 0, term, inf)
        return self.n_rows * total


@dataclass(frozen=True, eq=False, kw_only=True)
class UnprotectedEvent(Event):
    """A release of private data without noise: the run proves nothing, ε = ∞.

    The sensitivities that other events of the run state may be wrong.
    """


@dataclass(frozen=True, eq=False, kw_only=True)
class FailureEvent(Event):
    """With probability at most ``delta`` the other events of this run do not hold."""

    delta: float

    @property
    def rho(self) -> float:
        return 0.0

    @property
    def pure_epsilon(self) -> float:
        return 0.0

    @property
    def failure(self) -> float:
        return self.delta
