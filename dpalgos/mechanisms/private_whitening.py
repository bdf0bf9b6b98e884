"""Released second moments of clipped rows, and the matrix that whitens rows by them.

    M = (1/n) Σ z_i z_i' min(1, C/‖z_i‖)² + noise,   W = M_xx^(−1/2),  eigenvalues raised to a floor

z = [x, one more entry]. Replacing a row moves M by at most √2 C²/n in the Frobenius norm: orthogonal rows of
norm C. The floor is the spectral norm of the noise, below which nothing is known of a direction.

A second whitening inside the coordinates of a first, u_i = W₁ x_i, resolves directions that hid below the
first's floor: whitened rows are clipped at about √d, whatever the first moments were (recursive private
preconditioning: Kamath, Li, Singhal & Ullman 2019, Privately learning high-dimensional distributions). Then
M = W₁⁻¹ M_uu W₁⁻¹, with the floor raised in M_uu. W₁ is released, so that the sensitivity is the same.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Group, Sample
from dpalgos.steps.clipping import clip_factor
from dpalgos.steps.moments import quadratic_forms, svec, unsvec, weighted_moments
from dpalgos.typing import FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Whitening:
    """Released second moments M (R, p, p) of the rows, and the whitening matrix W (R, d, d) that follows.

    ``unresolved`` (R,) counts directions below the ``floor`` (R,) of the eigenvalues of the moments of x, or
    of u; ``noise_std`` (R,) is that of the noise in svec(M).
    """

    moments: FloatArray
    matrix: FloatArray
    unresolved: FloatArray
    floor: FloatArray
    noise_std: FloatArray


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
    inside: FloatArray | None = None,
) -> Whitening:
    """Release second moments of rows clipped to ``level`` (R,); ``rows`` returns the rows z of a group.

    ``inside`` is the matrix W₁ (R, d, d) of an earlier whitening: then rows are x alone, and u = W₁ x is
    clipped and its moments are released.
    """
    n_rows, d = sample.n_rows, sample.n_features
    sensitivity = moments_sensitivity(level, n_rows)
    value = svec(_clipped_second_moments(sample, rows, level, inside) / n_rows[:, None, None])
    released = transcript.gaussian(
        value,
        l2_sensitivity=sensitivity,
        noise_multiplier=noise_multiplier,
        label="second moments" if inside is None else "second moments of whitened rows",
    )
    moments = unsvec(released, d + (inside is None))
    eigenvalues, vectors = np.linalg.eigh(moments[:, :d, :d])
    # The noise matrix has spectral norm about √(2d) of its diagonal standard deviation.
    floor = 1.2 * np.sqrt(d) * noise_multiplier * sensitivity
    raised = np.maximum(eigenvalues, np.maximum(floor, np.finfo(float).tiny)[:, None])
    if inside is None:
        matrix = _of_spectrum(vectors, raised**-0.5)
    else:
        back = np.linalg.inv(inside)
        whole, directions = np.linalg.eigh(back @ _of_spectrum(vectors, raised) @ back)
        matrix = _of_spectrum(directions, whole**-0.5)
    return Whitening(
        moments=moments,
        matrix=matrix,
        unresolved=(eigenvalues < floor[:, None]).sum(axis=1).astype(float),
        floor=floor,
        noise_std=transcript.noise_std(sensitivity, noise_multiplier, len(value)),
    )


def _of_spectrum(vectors: FloatArray, eigenvalues: FloatArray) -> FloatArray:
    return np.asarray((vectors * eigenvalues[:, None, :]) @ np.swapaxes(vectors, 1, 2))


def _clipped_second_moments(
    sample: Sample, rows: Callable[[Group], FloatArray], level: FloatArray, inside: FloatArray | None
) -> FloatArray:
    p = sample.n_features + (inside is None)
    moments = np.zeros((sample.n_replicates, p, p))
    for group, Z in sample.grouped(rows):
        chosen = group.replicates
        if inside is None:
            norms = np.linalg.norm(Z, axis=1, keepdims=True)
        else:
            norms = np.sqrt(np.maximum(quadratic_forms(Z, inside[chosen] @ inside[chosen]), 0))
        weights = group.weights * clip_factor(norms, level[chosen]) ** 2
        moments[chosen] += weighted_moments(Z, weights)
    return moments if inside is None else np.asarray(inside @ moments @ inside)
