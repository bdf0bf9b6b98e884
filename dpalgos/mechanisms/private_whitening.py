"""Released second moments of clipped rows, and the matrix that whitens rows by them.

    M = (1/n) Σ z_i z_i' min(1, C/‖z_i‖)² + noise,   W = M_xx^(−1/2),  eigenvalues raised to a floor

z = [x, further entries]. Replacing a row moves M by at most √2 C²/n in the Frobenius norm: orthogonal rows of
norm C. The floor is the spectral norm of the noise, below which nothing is known of a direction.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpalgos.mechanisms.clipping import clip_factor
from dpalgos.mechanisms.symmetric import svec, unsvec, weighted_moments
from dpalgos.mechanisms.transcript import Transcript
from dpalgos.sample import Group, Sample
from dpalgos.typing import FloatArray


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
    transcript: Transcript,
    sample: Sample,
    rows: Callable[[Group], FloatArray],
    level: FloatArray,
    *,
    noise_multiplier: float,
) -> Whitening:
    """Release second moments of the rows z, of which ``rows`` makes a group's, clipped to ``level`` (R,)."""
    n_rows, d = sample.n_rows, sample.n_features
    sensitivity = moments_sensitivity(level, n_rows)
    released = transcript.gaussian(
        svec(_clipped_second_moments(sample, rows, level) / n_rows[:, None, None]),
        l2_sensitivity=sensitivity,
        noise_multiplier=noise_multiplier,
        label="second moments",
    )
    p = int(np.sqrt(2 * len(released)))
    moments = unsvec(released, p)
    eigenvalues, vectors = np.linalg.eigh(moments[:, :d, :d])
    # The noise matrix has spectral norm about √(2d) of its diagonal standard deviation.
    floor = (1.2 * np.sqrt(d) * noise_multiplier * sensitivity)[:, None]
    roots = 1 / np.sqrt(np.maximum(eigenvalues, np.maximum(floor, np.finfo(float).tiny)))
    return Whitening(
        moments=moments,
        matrix=(vectors * roots[:, None, :]) @ np.swapaxes(vectors, 1, 2),
        unresolved=(eigenvalues < floor).sum(axis=1).astype(float),
    )


def _clipped_second_moments(
    sample: Sample, rows: Callable[[Group], FloatArray], level: FloatArray
) -> FloatArray:
    moments: FloatArray | None = None
    for group, Z in sample.grouped(rows):
        norms = np.linalg.norm(Z, axis=1, keepdims=True)
        weights = group.weights * clip_factor(norms, level[group.replicates]) ** 2
        if moments is None:
            moments = np.zeros((sample.n_replicates, Z.shape[1], Z.shape[1]))
        moments[group.replicates] += weighted_moments(Z, weights)
    assert moments is not None
    return moments
