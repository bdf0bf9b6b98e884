"""Events other than plain Gaussian noise: sums over random rows, sketches, pure and failing releases."""

from dataclasses import dataclass, field, replace
from math import inf
from typing import ClassVar, Self

import numpy as np

from dpalgos.accounting.events import Event, Gaussian, GaussianNoise
from dpalgos.release.noise_source import Noise
from dpalgos.typing import FloatArray, Number


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
