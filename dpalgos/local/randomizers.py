"""Randomizers of local differential privacy, by which a device protects a vector before it sends it.

Each takes any z in R^p with ‖z‖₂ ≤ r and returns an unbiased report z̃ in R^p, E z̃ = z. r is public, and the
caller has clipped z to it. The laws of the reports of any two z are indistinguishable:

- :class:`HalfSpaceRandomizer`, ε: a point of the sphere of radius B, likelier on z's side of it.
- :class:`CapRandomizer`, ε: a Gaussian vector, likelier if it points along z farther than t.
- :class:`GaussianReport`, (ε, δ): z + N(0, σ² I).

Relative to a law that does not depend on z, the first two have a density of e^ε units in a region that z
decides. Outside of it they have one unit. Therefore any two z differ by e^ε and no more. A vector shorter
than r is first replaced by r v or −r v, v = z/‖z‖, with probabilities ½ ± ‖z‖/(2r)
(:func:`random_directions`). This is unbiased, and mixtures of laws that differ by at most e^ε do so too. A
vector shorter than 10⁻⁶⁰ r counts as zero, with the first axis as its v: squares of shorter ones underflow.

They are for research: floats leak through their last bits.

Reference: Duchi, Jordan & Wainwright (2018), Minimax optimal procedures for locally private estimation,
section 4.2.3. Bhowmick, Duchi, Freudiger, Kapoor & Rogers (2018), Protection against reconstruction, and Asi,
Feldman & Talwar (2022), Optimal algorithms for mean estimation under local differential privacy: PrivUnit,
PrivUnitG.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import scipy

from dpalgos.accounting.events import Event, Gaussian
from dpalgos.accounting.other_events import RandomReport
from dpalgos.mechanisms.sensitivity import ball_mean, lemma, outer_product
from dpalgos.release.noise_source import Noise
from dpalgos.typing import BoolArray, FloatArray

_LARGEST_THRESHOLD = 12.0
_ROUNDING = 1 + 1e-12  # a clipped vector may be longer than its bound by rounding
_SHORTEST = 1e-60  # of a vector that has a direction, in radii


@lemma("2r")
def report_sensitivity(radius: float = 1.0) -> FloatArray:
    """Return 2r, for a vector clipped to norm r on the device: any input against any other, not one row."""
    return ball_mean(radius, 1)


@lemma("√2 r²")
def product_sensitivity(radius: float = 1.0) -> FloatArray:
    """Return √2 r², for the products z z' of one report, z of norm at most r."""
    return outer_product(radius, 1)


@dataclass(frozen=True, kw_only=True)
class Randomizer(ABC):
    """Turns vectors of p = ``size`` entries and norm at most ``radius`` into as many reports."""

    radius: float
    size: int

    @property
    @abstractmethod
    def noise_std(self) -> float:
        """Standard deviation of an entry of a report, averaged over the entries; what is known in advance."""

    @abstractmethod
    def event(self, label: str) -> Event:
        """Return the privacy event of one report."""

    @abstractmethod
    def perturb(self, values: FloatArray, noise: Noise) -> FloatArray:
        """Draw a report for each vector, (m, p, R), for research."""


@dataclass(frozen=True, kw_only=True)
class PureRandomizer(Randomizer):
    """An ε-DP randomizer."""

    epsilon: float

    @property
    @abstractmethod
    def second_moment(self) -> float:
        """E‖z̃‖², the same for every z."""

    @property
    @abstractmethod
    def reported_threshold(self) -> float:
        """The component of a report along v that separates the region of v."""

    @abstractmethod
    def _drawn(self, reports: FloatArray, along: FloatArray, noise: Noise) -> FloatArray:
        """Make reports of Gaussian vectors (m, p, R) and the directions v."""

    def variance(self, norm: float) -> float:
        """Return E‖z̃ − z‖² for ‖z‖ = ``norm``."""
        return self.second_moment - norm**2

    def event(self, label: str) -> Event:
        return RandomReport(
            label=label,
            epsilon=self.epsilon,
            sensitivity=report_sensitivity(self.radius),
            radius=self.radius,
            size=self.size,
            threshold=self.reported_threshold,
        )

    def perturb(self, values: FloatArray, noise: Noise) -> FloatArray:
        m, p, _ = values.shape
        if noise.silent:
            return np.array(np.broadcast_to(values, (m, p, noise.n_replicates)))
        along = random_directions(values, self.radius, self.size, noise.uniform(m))
        return self._drawn(noise.normal(m, p), along, noise)


@dataclass(frozen=True, kw_only=True)
class HalfSpaceRandomizer(PureRandomizer):
    """The ℓ2 randomizer of Duchi, Jordan & Wainwright: ε-DP, best for small ε.

    v = z/‖z‖; u uniform on the unit sphere given ⟨u, v⟩ > 0 with probability e^ε/(1 + e^ε), else given
    ⟨u, v⟩ ≤ 0; the report is B u, where

        B = r (e^ε + 1)/(e^ε − 1) · √π Γ((p + 1)/2) / Γ(p/2)

    since E|u_1| = Γ(p/2)/(√π Γ((p + 1)/2)). Its covariance is (B²/p) I − zz' exactly.
    """

    @cached_property
    def scale(self) -> float:
        """B, the norm of every report."""
        log_half = (
            0.5 * np.log(np.pi)
            + scipy.special.gammaln((self.size + 1) / 2)
            - scipy.special.gammaln(self.size / 2)
        )
        return float(self.radius / np.tanh(self.epsilon / 2) * np.exp(log_half))

    @property
    def noise_std(self) -> float:
        return self.scale / float(np.sqrt(self.size))

    @property
    def second_moment(self) -> float:
        return self.scale**2

    @property
    def reported_threshold(self) -> float:
        return 0.0

    def _drawn(self, reports: FloatArray, along: FloatArray, noise: Noise) -> FloatArray:
        on_side = np.einsum("mpr,mpr->mr", reports, along) > 0
        keep = on_side == (noise.uniform(len(reports)) < scipy.special.expit(self.epsilon))
        length = np.sqrt(np.einsum("mpr,mpr->mr", reports, reports))
        return np.asarray(reports * (np.where(keep, self.scale, -self.scale) / length)[:, None, :])


@dataclass(frozen=True, kw_only=True)
class CapRandomizer(PureRandomizer):
    """PrivUnitG (Asi, Feldman & Talwar 2022): ε-DP, near the best that is possible at any ε.

    g ~ N(0, I) given ⟨g, v⟩ ≥ t with probability P, else given ⟨g, v⟩ < t; the report is (r/m) g. With
    Q = Pr[N(0, 1) ≥ t], P = e^ε Q / (e^ε Q + 1 − Q) is the largest probability that is ε-DP, and

        m = E⟨g, v⟩ = φ(t)(e^ε − 1)/(e^ε Q + 1 − Q),   E⟨g, v⟩² = 1 + t m,   E‖z̃‖² = r² (p + t m)/m².

    t, which is public, minimizes that.
    """

    @cached_property
    def threshold(self) -> float:
        return _best_threshold(self.epsilon, self.size)

    @cached_property
    def mean(self) -> float:
        return _cap_mean(self.threshold, self.epsilon)

    @property
    def noise_std(self) -> float:
        return float(np.sqrt(self.second_moment / self.size))

    @property
    def second_moment(self) -> float:
        return self.radius**2 * (self.size + self.threshold * self.mean) / self.mean**2

    @property
    def reported_threshold(self) -> float:
        return self.threshold * self.radius / self.mean

    def _drawn(self, reports: FloatArray, along: FloatArray, noise: Noise) -> FloatArray:
        m = len(reports)
        inside = noise.uniform(m) < scipy.special.expit(self._cap_log_odds)
        component = self._component(np.maximum(noise.uniform(m), np.finfo(float).tiny), inside)
        component -= np.einsum("mpr,mpr->mr", reports, along)
        return np.asarray((reports + component[:, None, :] * along) * (self.radius / self.mean))

    def _component(self, uniforms: FloatArray, inside: BoolArray) -> FloatArray:
        """Return ⟨g, v⟩ given that it is at least t, or below it, from uniform numbers in (0, 1)."""
        upper, lower = scipy.special.ndtr(-self.threshold), scipy.special.ndtr(self.threshold)
        return np.where(inside, -scipy.special.ndtri(uniforms * upper), scipy.special.ndtri(uniforms * lower))

    @property
    def _cap_log_odds(self) -> float:
        """log P/(1 − P)."""
        return float(
            self.epsilon + scipy.special.log_ndtr(-self.threshold) - scipy.special.log_ndtr(self.threshold)
        )


@dataclass(frozen=True, kw_only=True)
class GaussianReport(Randomizer):
    """z + N(0, σ² I), σ = ``noise_multiplier`` · ``sensitivity``: (ε, δ) by the accountant.

    The sensitivity is how far apart two vectors can be, at most 2r.
    """

    noise_multiplier: float
    sensitivity: float | FloatArray

    @property
    def noise_std(self) -> float:
        return float(self.noise_multiplier * self.sensitivity)

    def event(self, label: str) -> Event:
        return Gaussian(self.noise_multiplier, label=label, sensitivity=self.sensitivity)

    def perturb(self, values: FloatArray, noise: Noise) -> FloatArray:
        m, p, _ = values.shape
        return np.asarray(values + self.noise_std * noise.normal(m, p))


def pure_randomizer(epsilon: float, radius: float, size: int, mechanism: str = "auto") -> PureRandomizer:
    """Return an ε-DP randomizer: ``"l2"``, ``"privunit"``, or with ``"auto"`` that of smaller variance."""
    half_space = HalfSpaceRandomizer(epsilon=epsilon, radius=radius, size=size)
    cap = CapRandomizer(epsilon=epsilon, radius=radius, size=size)
    prefers_cap = cap.variance(radius) < half_space.variance(radius)
    return cap if mechanism == "privunit" or (mechanism == "auto" and prefers_cap) else half_space


@lru_cache(maxsize=1024)
def _best_threshold(epsilon: float, size: int) -> float:
    """Return the t ≥ 0 at which a report is shortest in mean square, (p + t m)/m²."""

    def second_moment(threshold: float) -> float:
        mean = _cap_mean(threshold, epsilon)
        return float(np.log(size + threshold * mean) - 2 * np.log(mean)) if mean > 0 else np.inf

    grid = np.linspace(0.0, _LARGEST_THRESHOLD, 241)
    best = int(np.argmin([second_moment(threshold) for threshold in grid]))
    near = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    return float(scipy.optimize.minimize_scalar(second_moment, bounds=near, method="bounded").x)


def _cap_mean(threshold: float, epsilon: float) -> float:
    """Return m = φ(t)(1 − e^−ε)/(Q + e^−ε (1 − Q))."""
    density = np.exp(-(threshold**2) / 2) / np.sqrt(2 * np.pi)
    upper, lower = scipy.special.ndtr(-threshold), scipy.special.ndtr(threshold)
    return float(density * -np.expm1(-epsilon) / (upper + np.exp(-epsilon) * lower))


def random_directions(values: FloatArray, radius: float, size: int, uniforms: FloatArray) -> FloatArray:
    """Return random unit vectors of mean z/r: ± z/‖z‖, and ± the first axis where z counts as 0.

    Vectors are (m, p) or (m, p, R); one that was not clipped is refused, for its report would prove nothing.
    ``uniforms`` are random numbers in (0, 1).
    """
    if values.shape[1] != size:
        raise ValueError(f"vectors must have {size} entries, got shape {values.shape}")
    norms = np.sqrt(np.einsum("mp...,mp...->m...", values, values))
    if not (norms <= radius * _ROUNDING).all():
        raise ValueError(f"vectors must have an ℓ2 norm of at most radius = {radius:g}; clip them first")
    norms = np.where(norms > _SHORTEST * radius, norms, 0.0)
    sign = np.where(uniforms < np.minimum(0.5 + norms / (2 * radius), 1.0), 1.0, -1.0)
    along = values * (sign / np.where(norms > 0, norms, np.inf))[:, None]
    along[:, 0] += np.where(norms > 0, 0.0, sign)
    return np.asarray(along)
