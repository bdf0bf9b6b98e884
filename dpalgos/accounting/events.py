"""Events: the releases of a private run, planned or made, with their noise and their privacy cost.

A class is a kind of release: how its noise is drawn, what it costs, and how a witness checks it. A plan
maps labels to events whose sensitivity is not known yet (:mod:`dpalgos.core.plans`). The record of a run has
one event for each release, with its sensitivity. The privacy cost depends on the ratio of noise to
sensitivity only.

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
    def dominating(self) -> "Dominating | None":
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
    def dominating(self) -> "Dominating | None":
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
    def dominating(self) -> "Dominating | None":
        return None

    @property
    def mu_squared(self) -> float:
        return inf


@dataclass(frozen=True)
class SampledGaussian(GaussianNoise):
    """Gaussian noise on sums over rows that are drawn in secret, each with probability ``sampling_rate``.

    A row adds a vector of norm at most half of the sensitivity. Therefore replacing a drawn row moves the sum
    by at most the sensitivity. The charge holds for such sums alone: noise cannot be added to another query
    in its place. μ² is as if all rows were drawn.
    """

    sampling_rate: float

    instead: ClassVar[str] = "choose another estimator, or one whose rows take turns"

    @property
    def has_exact_sampler(self) -> bool:
        return False

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Return a bound; joint convexity in the drawn rows, not tight."""
        plain = orders * (orders - 1) / (2 * self.noise_multiplier**2)
        with np.errstate(divide="ignore"):
            drawn = np.logaddexp(np.log1p(-self.sampling_rate), np.log(self.sampling_rate) + plain)
        return np.asarray(self.n_charges * (drawn / (orders - 1)))

    @property
    def dominating(self) -> "Dominating | None":
        return SampledGaussian(self.noise_multiplier, self.sampling_rate, times=self.times)


@dataclass(frozen=True)
class Pure(Event):
    """A release that is ``epsilon``-differentially private, ``count`` times, adaptively.

    Each of the ``count`` charges of a release costs ρ = ε²/``rho_divisor`` of zero-concentrated DP.
    """

    epsilon: float
    count: int = field(default=1, kw_only=True)

    @property
    def rho_divisor(self) -> float:
        return 2.0

    @property
    def n_charges(self) -> int:
        return self.times * self.count

    def renyi(self, orders: FloatArray) -> FloatArray:
        once = np.minimum(orders * self.epsilon**2 / self.rho_divisor, self.epsilon)
        return np.asarray(self.n_charges * once)

    @property
    def dominating(self) -> "Dominating | None":
        return Pure(self.epsilon, times=self.n_charges)

    @property
    def rho(self) -> float:
        return self.n_charges * self.epsilon**2 / self.rho_divisor

    @property
    def pure_epsilon(self) -> float:
        return self.n_charges * self.epsilon

    def scaled(self, factor: float) -> Self:
        return replace(self, epsilon=self.epsilon / factor)


@dataclass(frozen=True)
class Laplace(Pure):
    """Laplace noise of scale sensitivity/``epsilon`` on each entry, for an ℓ1 sensitivity.

    With ``count`` = k > 1, each of k entries is charged ``epsilon``, and the sensitivity is in ℓ∞.
    """

    is_additive: ClassVar[bool] = True

    @property
    def norm(self) -> float:
        return 1.0 if self.count == 1 else inf

    @property
    def has_exact_sampler(self) -> bool:
        return self.count == 1

    @property
    def noise_scale(self) -> FloatArray | None:
        return None if self.sensitivity is None else np.asarray(self.sensitivity / self.epsilon)

    def draw(self, noise: Noise, size: int) -> FloatArray:
        return noise.laplace(size)

    def unit_std(self, size: int) -> float:
        return float(np.sqrt(2.0))

    def negative_log_density(self, noise: FloatArray) -> FloatArray:
        return np.abs(noise)


@dataclass(frozen=True)
class Cube(Pure):
    """Noise of density ∝ e^(−ε ‖z‖∞ / sensitivity), for a sensitivity in ℓ∞.

    It is the K-norm mechanism of the cube (Hardt & Talwar 2010). Its variance per entry of k numbers is
    (k + 1)(k + 2) / 3 · (sensitivity / ε)², that of Laplace noise on every entry 2k² · (sensitivity / ε)².
    """

    is_additive: ClassVar[bool] = True

    @property
    def noise_scale(self) -> FloatArray | None:
        return None if self.sensitivity is None else np.asarray(self.sensitivity / self.epsilon)

    def draw(self, noise: Noise, size: int) -> FloatArray:
        return noise.box(size)

    def unit_std(self, size: int) -> float:
        return float(np.sqrt((size + 1) * (size + 2) / 3))

    def negative_log_density(self, noise: FloatArray) -> FloatArray:
        return np.asarray(np.abs(noise).max(axis=0, keepdims=True))


@dataclass(frozen=True)
class RandomReport(Pure):
    """Each person of a group sent one random vector of ``size`` entries instead of a private one.

    The ℓ2 norm of a private vector is at most ``radius``. A report whose component along the private vector
    exceeds ``threshold`` is e^ε times as likely as any other report.
    """

    radius: float = field(kw_only=True)
    size: int = field(kw_only=True)
    threshold: float = field(kw_only=True)

    @property
    def norm(self) -> float:
        return 2.0

    @property
    def has_exact_sampler(self) -> bool:
        return False

    def scaled(self, factor: float) -> Self:
        return self


@dataclass(frozen=True)
class Selection(Pure):
    """The ``count`` largest scores, or magnitudes of scores ``by_magnitude``, one after the other, in order.

    The sensitivity is the maximum change of a score between neighbors. The log-probability ratios of each
    choice span at most ``epsilon`` (exponential mechanism).

    Attributes
    ----------
    by : str
        ``"gumbel"``: Gumbel noise of scale 2 sensitivity/``epsilon`` on each score. ``"peeling"``: fresh
        Laplace noise for each choice (:mod:`dpalgos.mechanisms.top_k`), each of them ``epsilon``-DP.
        ``"density"``: numbers of density ∝ e^(ε score / 2) on a public interval, by a mechanism's own
        sampler. Its candidates are all numbers of the interval; no floating-point-safe sampler is known here.
    support : tuple of float
        The public minimum and maximum of the candidates, if they are numbers.
    """

    by_magnitude: bool = field(default=False, kw_only=True)
    by: str = field(default="gumbel", kw_only=True)
    support: tuple[float, ...] = field(default=(), kw_only=True)

    @property
    def has_exact_sampler(self) -> bool:
        return self.by == "gumbel"

    @property
    def rho_divisor(self) -> float:
        return 2.0 if self.by == "peeling" else 8.0

    def scaled(self, factor: float) -> Self:
        """Return the event with its noise multiplied by a factor; ε as the noise scale 2/ε rounds it."""
        return replace(self, epsilon=2 / (2 / (self.epsilon / factor)))

    def with_rho(self, rho: float) -> Self:
        return replace(self, epsilon=float(np.sqrt(self.rho_divisor * rho / self.n_charges)))


@dataclass(frozen=True)
class Sketch(Event):
    """``n_rows`` draws of N(0, A'A + ridge · B² I).

    The sensitivity is B², which bounds the squared ℓ2 norm of a row of A.
    """

    n_rows: int
    ridge: float

    @property
    def has_exact_sampler(self) -> bool:
        return False

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Return the Rényi divergences under replacing one row.

        Replacing a row a by b changes G by bb' − aa'. In the metric of G, at most two eigenvalues differ
        from 1: one is at least 1 − ratio, the other at most 1 + ratio, where ratio = 1/ridge. The
        divergence per direction is

            D_α(N(0, κ) ‖ N(0, 1)) = −½ log κ − log(α + (1 − α)κ) / (2(α − 1)).

        It grows as κ moves away from 1. The roles of the two datasets are symmetric.
        """
        if self.ridge <= 1:
            return np.full_like(orders, inf)
        ratio = 1 / self.ridge
        total = np.zeros_like(orders)
        for kappa in (1 - ratio, 1 + ratio):
            mixture = orders + (1 - orders) * kappa
            with np.errstate(invalid="ignore", divide="ignore"):
                term = -0.5 * np.log(kappa) - np.log(mixture) / (2 * (orders - 1))
            total += np.where(mixture > 0, term, inf)
        return self.n_charges * self.n_rows * total


@dataclass(frozen=True)
class Proved(Pure):
    """A mechanism whose guarantee is proved as a whole: (``epsilon``, ``delta``), without a sensitivity.

    It is ε-DP except for an event of probability δ (Kairouz, Oh & Viswanath 2015).
    """

    delta: float = 0.0

    @property
    def has_exact_sampler(self) -> bool:
        return self.is_failure

    @property
    def is_failure(self) -> bool:
        return self.epsilon == 0

    @property
    def is_unprotected(self) -> bool:
        return self.epsilon == inf

    @property
    def rho(self) -> float:
        return super(Pure, self).rho if self.is_unprotected else super().rho

    @property
    def failure(self) -> float:
        return self.n_charges * self.delta

    def once(self, label: str, sensitivity: Number | None = None) -> Self:
        return super().once(label)

    def scaled(self, factor: float) -> Self:
        return self


def failure(delta: float) -> Proved:
    """Return the event that with probability at most ``delta`` the other events of a run do not hold."""
    return Proved(0.0, delta)


UNPROTECTED = Proved(inf)  # sensitivities that other events of the run state may be wrong


Dominating = Gaussian | SampledGaussian | Pure  # what has a known distribution of losses
