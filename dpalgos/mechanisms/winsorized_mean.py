"""Means of values that lie close together at an unknown place: noise in proportion to how close.

τ is a public radius: all values lie within τ of their mean. If they do not, the estimate is biased, and as
private as before.

    μ̂ = the middle of a bin of width w near the middle of a column (:func:`private_range`)
    m̂ = the mean of values truncated to μ̂ ± h, moved by at most 2h/n by one of them, plus Laplace noise

A range and a mean have pure ε each. As printed w = h = 2τ. This cuts off values next to the edge of a bin: a
value may lie up to 2τ + w/2 from μ̂. ``tight``: w = τ/4, h = 2.125τ.

References
----------
Levy et al., Learning with User-Level Privacy, Algorithms 1 and 2.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from dpalgos.mechanisms.private_range import repeated_ranges
from dpalgos.release.noise_source import Noise
from dpalgos.typing import FloatArray, IntArray

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, kw_only=True)
class Window:
    """The width of bins, and the half-width of the interval around the chosen bin's middle, in units of τ.

    No value is cut off if ``half_width`` is at least 2 + bin_width / 2.
    """

    bin_width: float
    half_width: float

    def scaled_by(self, radius: float) -> "Window":
        """Return the window of a column that lies within τ = ``radius`` of its mean."""
        return Window(bin_width=self.bin_width * radius, half_width=self.half_width * radius)


PRINTED_WINDOW = Window(bin_width=2.0, half_width=2.0)
FINE_WINDOW = Window(bin_width=0.25, half_width=2.125)


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


def truncated_means(values: FloatArray, center: FloatArray, half_width: float) -> FloatArray:
    """Return the mean of every column of values (n, k), truncated to ± ``half_width`` of centers (k, R)."""
    ends = zip(center.T - half_width, center.T + half_width, strict=True)
    return np.stack([np.clip(values, low, high).mean(axis=0) for low, high in ends], axis=1)


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


def rotated_radius(radius: float, size: int, n_rows: float, failure: float) -> float:
    """Return τ' = τ √(2 log(2Dn/γ)/D), the largest distance of rotated coordinates from the mean's."""
    return float(radius * np.sqrt(2 * np.log(2 * size * n_rows / failure) / size))
