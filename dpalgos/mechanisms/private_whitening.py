"""Released second moments of clipped rows, and the matrix that whitens rows by them.

    M = (1/n) Σ z_i z_i' min(1, C/‖z_i‖)² + noise,   W = M_xx^(−1/2),  eigenvalues raised to a floor

z = [x, further entries]. Replacing a row moves M by at most √2 C²/n in the Frobenius norm: orthogonal rows of
norm C. The floor is the spectral norm of the noise, below which nothing is known of a direction.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpalgos.mechanisms.clipping import clip_factor
from dpalgos.mechanisms.symmetric import svec, unsvec
from dpalgos.mechanisms.transcript import Transcript
from dpalgos.sample import Sample
from dpalgos.typing import FloatArray

_BLOCK_ELEMENTS = 1 << 22


@dataclass(frozen=True, eq=False, kw_only=True)
class Whitening:
    """What was released of the rows' second moments, and what follows.

    Attributes
    ----------
    moments : (R, p, p) array
        M.
    matrix : (R, d, d) array
        W, symmetric.
    unresolved : (R,) array
        How many directions lie below the floor.
    """

    moments: FloatArray
    matrix: FloatArray
    unresolved: FloatArray


def moments_sensitivity(level: FloatArray, n_rows: FloatArray) -> FloatArray:
    """Return √2 C²/n, (R,): z z' and z'z'' of orthogonal rows of norm C lie √2 C² apart."""
    return np.asarray(np.sqrt(2) * level**2 / n_rows)


def private_whitening(
    transcript: Transcript, sample: Sample, Z: FloatArray, level: FloatArray, *, noise_multiplier: float
) -> Whitening:
    """Release second moments of the rows of Z (n, p), [X, further columns], clipped to ``level`` (R,)."""
    n_rows, d = sample.n_rows, sample.n_features
    sensitivity = moments_sensitivity(level, n_rows)
    released = transcript.gaussian(
        svec(_clipped_second_moments(sample, Z, level) / n_rows[:, None, None]),
        l2_sensitivity=sensitivity,
        noise_multiplier=noise_multiplier,
        label="second moments",
    )
    moments = unsvec(released, Z.shape[1])
    eigenvalues, vectors = np.linalg.eigh(moments[:, :d, :d])
    # The noise matrix has spectral norm about √(2d) of its diagonal standard deviation.
    floor = (1.2 * np.sqrt(d) * noise_multiplier * sensitivity)[:, None]
    roots = 1 / np.sqrt(np.maximum(eigenvalues, np.maximum(floor, np.finfo(float).tiny)))
    return Whitening(
        moments=moments,
        matrix=(vectors * roots[:, None, :]) @ np.swapaxes(vectors, 1, 2),
        unresolved=(eigenvalues < floor).sum(axis=1).astype(float),
    )


def row_blocks(X: FloatArray) -> Iterator[slice]:
    """Yield slices of rows whose products of pairs of columns fit into memory."""
    size = max(1, _BLOCK_ELEMENTS // X.shape[1] ** 2)
    for start in range(0, len(X), size):
        yield slice(start, start + size)


def _clipped_second_moments(sample: Sample, Z: FloatArray, level: FloatArray) -> FloatArray:
    p = Z.shape[1]
    first, second = np.triu_indices(p)
    moments = np.empty((sample.n_replicates, p, p))
    for group in sample.groups():
        rows = Z[group.rows]
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        weights = group.weights * clip_factor(norms, level[group.replicates]) ** 2
        packed = np.zeros((weights.shape[1], len(first)))
        for block in row_blocks(rows):
            packed += weights[block].T @ (rows[block][:, first] * rows[block][:, second])
        moments[group.replicates, first, second] = packed
        moments[group.replicates, second, first] = packed
    return moments
