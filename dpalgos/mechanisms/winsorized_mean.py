"""Means of values that lie close together at an unknown place: noise in proportion to how close.

τ: a public radius within which all values lie, of their mean (a typical one in one dimension: of each other);
if they do not, the answer is biased, and as private as before.

One dimension (:func:`winsorized_means_by_column`, ε-DP). μ̂ = the middle of a bin of width w near the middle
of the values (:func:`dpalgos.mechanisms.private_range.private_range`); the answer is the mean of values
truncated to μ̂ ± h, moved by at most 2h/n by one of them, with Laplace noise. As printed w = h = 2τ: it cuts
values off that straddle the edge of a bin: a value may lie up to 2τ + w/2 from μ̂. ``tight``: w = τ/4,
h = 2.125τ.

Several dimensions (:func:`winsorized_mean`, zero-concentrated DP). Rotated (:class:`HadamardRotation`), every
coordinate of a vector lies within τ' = τ √(2 log(2Dn/γ)/D) of the mean's, with probability 1 − γ.

 1. A range for every rotated coordinate, bins of width τ'/2: a center c with ‖c − mean‖ ≤ √D (τ' + w/2).
 2. The mean of vectors clipped to the ball of radius τ + √D (τ' + w/2) around c, with Gaussian noise.
 3. The same around that answer, with radius τ + what its noise moved it by, which is the least that can be
    had: 2r/n in place of the √D log(n) times as much that separate coordinates cost.

The two balls are clipped in the original coordinates, where norms are the same and padding costs nothing. The
privacy of each step is that of its own clipping, whatever the data and the center released before.

References
----------
Levy et al., Learning with User-Level Privacy, Algorithms 1 and 2; step 3 and the radii are ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from dpalgos.mechanisms.private_range import private_range, repeated_ranges
from dpalgos.mechanisms.sensitivity import ball_mean
from dpalgos.mechanisms.top_k import release_laplace
from dpalgos.release.declared import Release
from dpalgos.release.noise_source import Noise
from dpalgos.release.spend import Spend
from dpalgos.release.transcript import Transcript
from dpalgos.steps.clipping import distinct, mean_in_ball
from dpalgos.typing import FloatArray, IntArray

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, kw_only=True)
class Window:
    """How wide bins are and how far around the chosen one values count, in units of τ, or (R,) of a column.

    ``half_width`` is at least 2 + bin_width / 2 if no value is to be cut off.
    """

    bin_width: Any
    half_width: Any

    def times(self, radius: float | FloatArray) -> "Window":
        """Return the window of columns that lie within τ = ``radius`` of their mean."""
        return Window(bin_width=self.bin_width * radius, half_width=self.half_width * radius)


PRINTED_WINDOW = Window(bin_width=2.0, half_width=2.0)
FINE_WINDOW = Window(bin_width=0.25, half_width=2.125)


@dataclass(frozen=True, kw_only=True)
class WinsorizedNoise:
    """Noise of the three steps in several dimensions: ε of each range, multipliers of the two means.

    ``interval_multipliers`` are those of the parts of an interval; none without one.
    """

    range_epsilon: float
    first_multiplier: float
    refined_multiplier: float
    interval_multipliers: Mapping[str, float] = field(default_factory=dict)


class HadamardRotation:
    """A rotation of vectors of length d, padded with zeros to a power of two; ``seed`` decides the signs.

        U x = H diag(ω) (x, 0) / √D,   D = the next power of two ≥ d,   ω uniform signs (public randomness)

    H is the D × D Hadamard matrix of Sylvester. For any fixed z: every coordinate of U z is at most
    ‖z‖ √(2 log(2D/γ) / D) in magnitude with probability 1 − γ over ω (Hoeffding). H_(ab) = H_a ⊗ H_b, so that
    two products with matrices of size about √D do all: O(n D √D) at the speed of matrix products, faster in
    numpy than the D log D additions of the fast transform.
    """

    def __init__(self, n_features: int, seed: int) -> None:
        self.n_features = n_features
        self.size = 1 << (n_features - 1).bit_length()
        # Signs of padded coordinates multiply zeros.
        self._signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=n_features)
        bits = self.size.bit_length() - 1
        self._left, self._right = _hadamard(bits // 2), _hadamard(bits - bits // 2)

    def rotate(self, X: FloatArray) -> FloatArray:
        """Return the rows of X (n, d) rotated, (n, D)."""
        rotated = np.empty((len(X), self.size))
        for start in range(0, len(X), _ROWS_AT_ONCE):
            block = X[start : start + _ROWS_AT_ONCE]
            padded = np.zeros((len(block), self.size))
            padded[:, : self.n_features] = block * self._signs
            rotated[start : start + len(block)] = self._transformed(padded)
        return rotated

    def rotate_back(self, vectors: FloatArray) -> FloatArray:
        """Return the columns of (D, R) in the original coordinates without the padding, (d, R)."""
        transformed = self._transformed(vectors.T).T
        return np.asarray(transformed[: self.n_features] * self._signs[:, None])

    def _transformed(self, rows: FloatArray) -> FloatArray:
        a, b = len(self._left), len(self._right)
        product = self._left @ (rows.reshape(-1, b) @ self._right).reshape(-1, a, b)
        return np.asarray(product.reshape(-1, self.size) / np.sqrt(self.size))


@lru_cache(maxsize=32)
def _hadamard(bits: int) -> FloatArray:
    return np.asarray(scipy.linalg.hadamard(1 << bits), dtype=float)


def winsorized_means_by_column(
    transcript: Transcript,
    values: Sequence[FloatArray],
    *,
    bound: float,
    window: Window,
    epsilon: float,
    label: str,
) -> "RefinedMean":
    """Release the mean of every column by itself, from an array (n_r, k) per replicate.

    Ranges are searched in ±``bound``; it and the ``window`` of each replicate's columns are public. Every
    column's range costs ``epsilon``, and so does its mean.
    """
    n_rows = np.array([len(X) for X in values], dtype=float)
    center = private_range(
        transcript,
        values,
        bound=bound,
        bin_width=window.bin_width,
        epsilon=epsilon,
        label=f"range of the {label}",
    )
    half = window.half_width
    means = np.empty_like(center)
    for X, replicates in distinct(values):
        for r in replicates:
            means[:, r] = np.clip(X, center[:, r] - half[r], center[:, r] + half[r]).mean(axis=0)
    sensitivity = ball_mean(half, n_rows)
    mean = release_laplace(transcript, means, linf_sensitivity=sensitivity, epsilon=epsilon, label=label)
    noise_std = transcript.box_scale(sensitivity, epsilon, 1) * np.sqrt(2)
    return RefinedMean(mean=mean, center=center, radius=half, noise_std=noise_std)


def repeated_winsorized_means(
    values: FloatArray,
    which: IntArray,
    noise: Noise,
    *,
    bound: float,
    window: Window,
    epsilon: float,
) -> FloatArray:
    """Return independent winsorized means of columns of (n, K), one for each entry of ``which`` (N,).

    Not released: for mechanisms that account for the repetitions themselves, each a range and a mean at
    ``epsilon``.
    """
    normals, laplace = noise.normal(2, len(which))[..., 0], noise.laplace(len(which))[:, 0]
    half = window.half_width
    means = np.empty(len(which))
    for k in np.unique(which):
        drawn, column = which == k, values[:, k]
        middles = repeated_ranges(
            column, normals[:, drawn], bound=bound, bin_width=window.bin_width, epsilon=epsilon
        )
        centers, index = np.unique(middles, return_inverse=True)
        truncated = [np.clip(column, center - half, center + half).mean() for center in centers]
        means[drawn] = np.array(truncated)[index]
    return np.asarray(means + 2 * half / len(values) / epsilon * laplace)


def rotated_radius(radius: FloatArray, size: int, n_rows: FloatArray, failure: float) -> FloatArray:
    """Return τ' = τ √(2 log(2Dn/γ)/D), (R,): how far rotated coordinates lie from the mean's."""
    return np.asarray(radius * np.sqrt(2 * np.log(2 * size * n_rows / failure) / size))


@dataclass(frozen=True, eq=False, kw_only=True)
class RefinedMean:
    """A released mean (d, R) of vectors clipped to a ball around a center released before; or of columns.

    ``radius`` and ``noise_std`` (R,) are those of the ball, and of the noise in each coordinate of the mean.
    """

    mean: FloatArray
    center: FloatArray
    radius: FloatArray
    noise_std: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Vicinity:
    """What is public of vectors near their mean: its ℓ2 norm is at most ``bound``, they within τ of it.

    ``radius`` is τ (R,); ``failure`` is γ, of the concentration in coordinates of the ``rotation`` and of the
    refinement, and affects accuracy only.
    """

    bound: float
    radius: FloatArray
    rotation: HadamardRotation
    failure: float


def winsorized_mean(
    transcript: Transcript,
    vectors: Sequence[FloatArray],
    public: Vicinity,
    noise: WinsorizedNoise,
    label: str,
) -> RefinedMean:
    """Release the mean of vectors, an array (n_r, d) per replicate, by the three steps above."""
    radius, rotation, failure = public.radius, public.rotation, public.failure
    n_rows = np.array([len(X) for X in vectors], dtype=float)
    size, d = rotation.size, rotation.n_features
    each = rotated_radius(radius, size, n_rows, failure)
    width = each / 2
    rotated = {id(X): rotation.rotate(X) for X, _ in distinct(vectors)}
    center = private_range(
        transcript,
        [rotated[id(X)] for X in vectors],
        bound=public.bound,
        bin_width=width,
        epsilon=noise.range_epsilon,
        label=f"range of the {label}",
    )
    del rotated
    first, refined = (Release(name, "the rest", ball_mean) for name in (f"first {label}", label))
    multipliers = {first.label: noise.first_multiplier, refined.label: noise.refined_multiplier}
    spend = Spend.of_multipliers(transcript, multipliers)
    reach = radius + np.sqrt(size) * (each + width / 2)
    middle, _ = spend(first, mean_in_ball(vectors, rotation.rotate_back(center), reach), reach, n_rows)
    noise_std = noise.first_multiplier * ball_mean(reach, n_rows)
    moved = noise_std * (np.sqrt(d) + np.sqrt(2 * np.log(1 / failure)))
    closer = np.minimum(radius + moved, reach)
    mean, std = spend(refined, mean_in_ball(vectors, middle, closer), closer, n_rows)
    return RefinedMean(mean=mean, center=middle, radius=closer, noise_std=std)
