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

``exact`` draws from the operating system, and leaks nothing through the last bits of floats. A point of the
sphere (or a Gaussian vector) is drawn without z. One comparison with z then decides whether it is kept. For
half-spaces, a point and its opposite are equally likely and exchange their odds with that comparison.
Therefore e^ε is exact for any rounding. For caps, rounding moves the probability of the region by less than
one part in 1e12. If rejection needs more than 1,000 draws (ε of about 10 or more), the component along v is
drawn by inversion. The report is then rounded to a grid of 2⁻¹⁶, the same for all z. Rounding errors move
about one report in 10⁹ to a neighboring point. Gaussian reports are for research only.

Reference: Duchi, Jordan & Wainwright (2018), Minimax optimal procedures for locally private estimation,
section 4.2.3. Bhowmick, Duchi, Freudiger, Kapoor & Rogers (2018), Protection against reconstruction, and Asi,
Feldman & Talwar (2022), Optimal algorithms for mean estimation under local differential privacy: PrivUnit,
PrivUnitG.
"""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil

import numpy as np
import scipy

from dpalgos.accounting.events import Event, GaussianEvent, RandomizerEvent
from dpalgos.mechanisms.sensitivity import ball_mean, lemma
from dpalgos.release.noise_source import Noise
from dpalgos.typing import BoolArray, FloatArray, IntArray

_LARGEST_THRESHOLD = 12.0
_RAREST_CAP = 1e-3  # Q, of caps that are drawn by rejection
_GRID = 2.0**16  # points per unit, for caps that are drawn by inversion
_NUMBERS_AT_ONCE = 2**20
_ROUNDING = 1 + 1e-12  # a clipped vector may be longer than its bound by rounding
_MOST_WORDS = 16  # of zeros that lead; a number below 2⁻⁸⁰⁰ has probability 10⁻²⁴⁰
_SHORTEST = 1e-60  # of a vector that has a direction, in radii


@lemma("2r")
def report_sensitivity(radius: float = 1.0) -> FloatArray:
    """Return 2r, for a vector clipped to norm r on the device: any input against any other, not one row."""
    return ball_mean(radius, 1)


@dataclass(frozen=True, kw_only=True)
class Randomizer(ABC):
    """Turns vectors of p = ``size`` entries and norm at most ``radius`` into as many reports."""

    radius: float
    size: int

    @property
    @abstractmethod
    def noise_std(self) -> float:
        """Standard deviation of an entry of a report, averaged over the entries; what is known in advance."""

    @property
    @abstractmethod
    def largest_norm(self) -> float:
        """An honest report is longer with probability 1e-12 at most; a server holds lies to it."""

    @abstractmethod
    def event(self, label: str) -> Event:
        """Return the privacy event of one report."""

    @abstractmethod
    def perturb(self, values: FloatArray, noise: Noise) -> FloatArray:
        """Draw a report for each vector, (m, p, R), for research."""


@dataclass(frozen=True, kw_only=True)
class PureRandomizer(Randomizer):
    """An ε-DP randomizer, which a device can also draw exactly."""

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
    def exact(self, values: FloatArray) -> FloatArray:
        """Draw a report for each vector, (m, p), from the operating system's randomness."""

    @abstractmethod
    def _drawn(self, reports: FloatArray, along: FloatArray, noise: Noise) -> FloatArray:
        """Make reports of Gaussian vectors (m, p, R) and the directions v."""

    def variance(self, norm: float) -> float:
        """Return E‖z̃ − z‖² for ‖z‖ = ``norm``."""
        return self.second_moment - norm**2

    def event(self, label: str) -> Event:
        return RandomizerEvent(
            label=label,
            epsilon=self.epsilon,
            sensitivity=report_sensitivity(self.radius),
            norm=2.0,
            radius=self.radius,
            size=self.size,
            threshold=self.reported_threshold,
        )

    def perturb(self, values: FloatArray, noise: Noise) -> FloatArray:
        m, p, _ = values.shape
        if noise.silent:
            return np.array(np.broadcast_to(values, (m, p, noise.n_replicates)))
        along = random_directions(values, self.radius, self.size, lambda chances: noise.uniform(m) < chances)
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
    def largest_norm(self) -> float:
        """B, up to rounding."""
        return self.scale * (1 + 1e-9)

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

    def exact(self, values: FloatArray) -> FloatArray:
        along = random_directions(values, self.radius, self.size, secret_coins)
        drawn = secret_normals(*values.shape)
        drawn *= (self.scale / np.linalg.norm(drawn, axis=1))[:, None]
        # A point is as likely as its opposite, whatever the sampler of normals does.
        drawn = np.where(secret_coins(np.full(len(drawn), 0.5))[:, None], -drawn, drawn)
        wrong_side = secret_coins(np.full(len(drawn), scipy.special.expit(-self.epsilon)))
        on_side = np.einsum("mp,mp->m", drawn, along) > 0
        return np.where((on_side == wrong_side)[:, None], -drawn, drawn)


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
    def largest_norm(self) -> float:
        """By the tail of a Gaussian norm, whose density the cap raises by e^ε at most."""
        tail = np.sqrt(2 * (self.epsilon + np.log(1e12)))
        return float(self.radius / self.mean * (np.sqrt(self.size) + tail))

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

    def exact(self, values: FloatArray) -> FloatArray:
        along = random_directions(values, self.radius, self.size, secret_coins)
        inside = ~secret_coins(np.full(len(values), scipy.special.expit(-self._cap_log_odds)))
        reports = np.empty_like(along)
        draw = self._rejected if scipy.special.ndtr(-self.threshold) >= _RAREST_CAP else self._inverted
        for is_inside in (True, False):
            reports[inside == is_inside] = draw(along[inside == is_inside], is_inside)
        return reports * (self.radius / self.mean)

    def _rejected(self, along: FloatArray, inside: bool) -> FloatArray:
        """Draw Gaussian vectors independent of ``along`` until one lies inside its cap, or outside."""
        m, p = along.shape
        tries = ceil(1 / scipy.special.ndtr(-self.threshold)) if inside else 4
        at_once = max(1, _NUMBERS_AT_ONCE // (tries * p))
        draws, pending = np.empty_like(along), np.arange(m)
        while len(pending):
            some = pending[:at_once]
            drawn = secret_normals(len(some) * tries, p).reshape(len(some), tries, p)
            fits = (np.einsum("mkp,mp->mk", drawn, along[some]) >= self.threshold) == inside
            hit = fits.any(axis=1)
            draws[some[hit]] = drawn[hit, fits[hit].argmax(axis=1)]
            pending = np.concatenate([some[~hit], pending[at_once:]])
        return draws

    def _inverted(self, along: FloatArray, inside: bool) -> FloatArray:
        """Draw the component along ``along`` by inversion, and round to a grid that is the same for all."""
        drawn = secret_normals(*along.shape)
        component = self._beyond(len(along)) if inside else self._below(len(along))
        component -= np.einsum("mp,mp->m", drawn, along)
        return np.asarray(np.rint((drawn + component[:, None] * along) * _GRID) / _GRID)

    def _beyond(self, m: int) -> FloatArray:
        """Return ⟨g, v⟩ given that it is at least t, (m,)."""
        return np.asarray(-scipy.special.ndtri(secret_uniforms(m) * scipy.special.ndtr(-self.threshold)))

    def _below(self, m: int) -> FloatArray:
        """Return ⟨g, v⟩ given that it is below t, (m,); a number that is rejected is rare."""
        component = secret_normals(m, 1)[:, 0]
        while (rejected := component >= self.threshold).any():
            component[rejected] = secret_normals(int(rejected.sum()), 1)[:, 0]
        return component

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
    """z + N(0, σ² I), σ = ``noise_multiplier`` · ``l2_sensitivity``: (ε, δ) by the accountant.

    The sensitivity is how far apart two vectors can be, at most 2r.
    """

    noise_multiplier: float
    l2_sensitivity: float | FloatArray

    @property
    def noise_std(self) -> float:
        return float(self.noise_multiplier * self.l2_sensitivity)

    @property
    def largest_norm(self) -> float:
        return float(self.radius + self.noise_std * (np.sqrt(self.size) + np.sqrt(2 * np.log(1e12))))

    def event(self, label: str) -> Event:
        z, moves = self.noise_multiplier, self.l2_sensitivity
        return GaussianEvent(label=label, noise_multiplier=z, l2_sensitivity=moves)

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


def random_directions(
    values: FloatArray, radius: float, size: int, coins: Callable[[FloatArray], BoolArray]
) -> FloatArray:
    """Return random unit vectors of mean z/r: ± z/‖z‖, and ± the first axis where z counts as 0.

    Vectors are (m, p) or (m, p, R); one that was not clipped is refused, for its report would prove nothing.
    ``coins`` maps probabilities to coins that are True with them.
    """
    if values.shape[1] != size:
        raise ValueError(f"vectors must have {size} entries, got shape {values.shape}")
    norms = np.sqrt(np.einsum("mp...,mp...->m...", values, values))
    if not (norms <= radius * _ROUNDING).all():
        raise ValueError(f"vectors must have an ℓ2 norm of at most radius = {radius:g}; clip them first")
    norms = np.where(norms > _SHORTEST * radius, norms, 0.0)
    sign = np.where(coins(np.minimum(0.5 + norms / (2 * radius), 1.0)), 1.0, -1.0)
    along = values * (sign / np.where(norms > 0, norms, np.inf))[:, None]
    along[:, 0] += np.where(norms > 0, 0.0, sign)
    return np.asarray(along)


def secret_coins(probabilities: FloatArray) -> BoolArray:
    """Return coins that are True with these probabilities, rounded up to 2⁻⁶⁴, from the operating system."""
    drawn = np.frombuffer(secrets.token_bytes(8 * len(probabilities)), dtype=np.uint64).tolist()
    coins = [bits < ceil(chance * 2**64) for bits, chance in zip(drawn, probabilities, strict=True)]
    return np.array(coins, dtype=bool)


def secret_uniforms(n: int) -> FloatArray:
    """Return n uniform numbers in (0, 1) from the operating system, with every exponent of a float.

    A number lies in [2⁻ᵏ⁻¹, 2⁻ᵏ) with probability 2⁻ᵏ⁻¹, where it has 52 random bits. With 52 bits in all, no
    number would be below 2⁻⁵³. A normal number made of it would then end at 8.2 standard deviations. Reports
    that need a larger one would be possible for some inputs only.
    """
    significands = (_secret_words(n) >> np.uint64(12)).astype(float) * 2.0**-52 + 1
    exponents, pending = np.zeros(n, dtype=int), np.arange(n)
    for _ in range(_MOST_WORDS):
        words = (_secret_words(len(pending)) >> np.uint64(11)).astype(float)
        # frexp: a word of 53 bits of length e has 53 − e leading zeros; a word of zeros needs another one.
        exponents[pending] += 53 - np.frexp(words)[1]
        pending = pending[words == 0]
    return np.asarray(np.ldexp(significands, -1 - exponents))


def _secret_words(n: int) -> IntArray:
    return np.frombuffer(secrets.token_bytes(8 * n), dtype=np.uint64)


def secret_normals(m: int, p: int) -> FloatArray:
    """Return (m, p) standard normal numbers from the operating system; both tails reach 37."""
    tails = scipy.special.ndtri(secret_uniforms(m * p) / 2)
    is_upper = _secret_words(m * p) & np.uint64(1) > 0
    return np.asarray(np.where(is_upper, -tails, tails).reshape(m, p))
