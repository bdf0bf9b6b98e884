"""Released second moments of clipped rows, and the matrix that whitens rows by them.

    M = (1/n) Σ z_i z_i' min(1, C/‖z_i‖)² + noise,   W = M_xx^(−1/2),  eigenvalues raised to a floor

z = [x, one more entry]. Replacing a row moves M by at most √2 C²/n in the Frobenius norm: orthogonal rows of
norm C. The floor is the spectral norm of the noise, below which nothing is known of a direction.

A second whitening inside the coordinates of a first, u_i = W₁ x_i, resolves directions that hid below the
first's floor: whitened rows are clipped at about √d, whatever the first moments were (recursive private
preconditioning: Kamath, Li, Singhal & Ullman 2019, Privately learning high-dimensional distributions). W₁ is
released, so that the sensitivity is the same. In the eigenvectors of the first moments, of eigenvalues λ, the
two are averaged by what they know: M_uu is I up to noise of variance s₁²/(λ_i λ_j) + .01 (the second term for
what was clipped) according to the first, and known up to s₂² from the second,

    Q_ij = I_ij + a_ij (M_uu − I)_ij,   a_ij = (s₁²/(λ_i λ_j) + .01) / (s₁²/(λ_i λ_j) + .01 + s₂²),

so that the second decides where the first saw noise, and adds little noise elsewhere. M = W₁⁻¹ Q W₁⁻¹, with a
floor under the eigenvalues of Q.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpalgos.release.transcript import Transcript
from dpalgos.rows.group import Group
from dpalgos.rows.sample import Sample
from dpalgos.steps.moments import clipped_row_moments, svec, unsvec
from dpalgos.typing import FloatArray

_CLIPPED = 0.01  # variance of entries of M_uu − I that clipping leaves
_START_RIDGE = 3.0  # floors
_SECOND_FLOOR = 1.67  # floors of the noise in Q: in weaker directions steps would follow noise


@dataclass(frozen=True, eq=False, kw_only=True)
class Whitening:
    """Released second moments M (R, p, p) of the rows, and the whitening matrix W (R, d, d) that follows.

    ``floor`` (R,) is that of the eigenvalues of the moments of x, or of u; ``noise_std`` (R,) is that of the
    noise in svec(M). ``directions`` (R, d, d) are orthonormal in white coordinates, one a column;
    ``curvature`` (R, d) is 1 for those above the floor, else released moment over floor, 0 to 1.
    """

    moments: FloatArray
    matrix: FloatArray
    floor: FloatArray
    noise_std: FloatArray
    directions: FloatArray
    curvature: FloatArray
    coordinates: FloatArray | None = None

    @property
    def unresolved(self) -> FloatArray:
        """How many directions lie below the floor, (R,)."""
        return np.asarray((self.curvature < 1).sum(axis=1, dtype=float))

    @property
    def mean_row(self) -> FloatArray:
        """The mean of the white rows of z = [x, 1], at most 1 long as their second moments say, (d, R)."""
        mean = self.moments[:, :-1, -1:]
        if self.coordinates is not None:
            mean = np.linalg.solve(np.swapaxes(self.coordinates[:, :-1, :-1], 1, 2), mean)
        weight = np.maximum(self.moments[:, -1, -1], 0.1)  # of clipped rows, less than 1
        center = np.einsum("rji,rj->ir", self.matrix, mean[..., 0]) / weight
        return np.asarray(center / np.maximum(np.linalg.norm(center, axis=0), 1))

    def longest(self, unit: FloatArray) -> FloatArray:
        """Return how long white coefficients can be by the moment of y, (R,).

        Where noise hides it, y is taken to be of order ``unit`` (R,), as its unit should make it.
        """
        size = self.moments[:, -1, -1]
        squared = np.maximum(size, 0) + self.noise_std
        hidden = size < 2 * self.noise_std
        return self.last_unit * np.sqrt(np.where(hidden, np.minimum(squared, unit**2), squared))

    @property
    def row_coordinates(self) -> FloatArray:
        """B (R, p, p), of rows z'B."""
        same = np.broadcast_to(np.eye(self.moments.shape[1]), self.moments.shape)
        return np.asarray(same if self.coordinates is None else self.coordinates)

    @property
    def last_unit(self) -> FloatArray:
        """The unit in which the last entry of z was taken, (R,)."""
        return np.asarray(1 / self.row_coordinates[:, -1, -1])

    def ridge_start(self) -> tuple[FloatArray, FloatArray]:
        """Return a ridge regression of rows [x, y], (R, d, 1), and its noise's variance in white units, (R,).

        The ridge is a few floors.
        """
        d = self.matrix.shape[1]
        eigenvalues, vectors = np.linalg.eigh(self.moments[:, :d, :d])
        floors = np.maximum(_START_RIDGE * self.floor, np.finfo(float).tiny)
        ridge = np.maximum(eigenvalues, 0) + floors[:, None]
        along = np.swapaxes(vectors, 1, 2) @ self.moments[:, :d, d:]
        variance = (self.noise_std / (_START_RIDGE * np.sqrt(2))) ** 2 / self.floor
        start = self.last_unit[:, None, None] * (vectors @ (along / ridge[..., None]))
        return np.asarray(
            start if self.coordinates is None else self.coordinates[:, :d, :d] @ start
        ), self.last_unit**2 * variance


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
    inside: Whitening | None = None,
    coordinates: FloatArray | None = None,
) -> Whitening:
    """Release second moments of rows clipped to ``level`` (R,); ``rows`` returns the rows z of a group.

    ``inside`` is an earlier whitening: then rows are x alone, and u = W₁ x is clipped and its moments are
    released. ``coordinates`` B (R, p, p), symmetric, released or public, are those in which rows B z are
    clipped and their moments are released.
    """
    n_rows, d = sample.n_rows, sample.n_features
    sensitivity = moments_sensitivity(level, n_rows)
    made = coordinates if inside is None else inside.matrix
    value = svec(clipped_second_moments(sample, rows, level, made) / n_rows[:, None, None])
    released = transcript.gaussian(
        value,
        l2_sensitivity=sensitivity,
        noise_multiplier=noise_multiplier,
        label="second moments" if inside is None else "second moments of whitened rows",
    )
    moments = unsvec(released, d + (inside is None))
    # The noise matrix has spectral norm about √(2d) of its diagonal standard deviation.
    std = noise_multiplier * sensitivity
    noise_std = transcript.noise_std(sensitivity, noise_multiplier, len(value))
    floor = np.maximum(1.2 * np.sqrt(d) * std, np.finfo(float).tiny)
    if inside is None:
        eigenvalues, vectors = np.linalg.eigh(moments[:, :d, :d])
    else:
        moments, spread = _averaged(inside, moments, std)
        floor = np.maximum(np.minimum(_SECOND_FLOOR * spread * floor, 0.9), np.finfo(float).tiny)
        eigenvalues, vectors = np.linalg.eigh(moments)
    raised = np.maximum(eigenvalues, floor[:, None])
    matrix = _of_spectrum(vectors, raised**-0.5)
    if made is not None:
        matrix = made[:, :d, :d] @ matrix
    return Whitening(
        moments=moments,
        matrix=matrix,
        floor=floor,
        noise_std=noise_std,
        directions=vectors,
        curvature=np.clip(eigenvalues / raised, 0, 1),
        coordinates=coordinates,
    )


def _averaged(first: Whitening, moments: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return Q (R, d, d) for moments M_uu of rows that ``first`` made white, and the rms of a (R,)."""
    d = moments.shape[1]
    eigenvalues, vectors = np.linalg.eigh(first.moments[:, :d, :d])
    raised = np.maximum(eigenvalues, first.floor[:, None])
    doubt = first.noise_std[:, None, None] ** 2 / (raised[:, :, None] * raised[:, None, :]) + _CLIPPED
    weight = doubt / (doubt + std[:, None, None] ** 2)
    back = np.swapaxes(vectors, 1, 2)
    known = np.eye(d) + weight * (back @ moments @ vectors - np.eye(d))
    return vectors @ known @ back, np.sqrt((weight**2).mean(axis=(1, 2)))


def _of_spectrum(vectors: FloatArray, eigenvalues: FloatArray) -> FloatArray:
    return np.asarray((vectors * eigenvalues[:, None, :]) @ np.swapaxes(vectors, 1, 2))


def clipped_second_moments(
    sample: Sample, rows: Callable[[Group], FloatArray], level: FloatArray, made: FloatArray | None
) -> FloatArray:
    """Return Σ z z' over rows clipped to ``level`` (R,), (R, p, p), or of what matrices make of the rows."""
    p = sample.n_features + 1 if made is None else made.shape[-1]

    def part(group: Group, Z: FloatArray) -> FloatArray:
        own = None if made is None else made[group.replicates]
        return clipped_row_moments(Z, own, group.weights, level[group.replicates])

    return sample.grouped(rows).total((sample.n_replicates, p, p), part, axis=0)
