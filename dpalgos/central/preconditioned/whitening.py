"""The matrix that whitens rows, from their released second moments. Nothing here reads a row.

    M = (1/n) Σ z_i z_i' min(1, C/‖z_i‖)² + noise,   W = M_xx^(−1/2),  eigenvalues raised to a floor

The floor is the spectral norm of the noise, below which nothing is known of a direction.

A second whitening, inside the coordinates u = W'x of an earlier one, resolves directions below its floor. It
does so in any units of the columns, since whitened rows are clipped at about √d. This is recursive private
preconditioning (Kamath, Li, Singhal & Ullman 2019, Privately learning high-dimensional distributions). M_uu
should be I. Before it, entry (i, j) of M_uu − I, in the directions of W, is unknown up to a variance v_ij.
The noise of the new moments has variance s². The estimate of the moments is

    Q_ij = I_ij + a_ij (M_uu − I)_ij,   a_ij = v_ij / (v_ij + s²).

New moments decide where old ones saw noise, and add little noise elsewhere. W then becomes W Q^(−1/2), with
a floor under the eigenvalues of Q. v_ij becomes a_ij s² in the directions of Q, in units of its eigenvalues.
At first v_ij is s²/(λ_i λ_j), λ the eigenvalues of M; 0.01 is added for the effect of clipping.
"""

from dataclasses import dataclass, replace

import numpy as np

from dpalgos.mechanisms.sensitivity import outer_product
from dpalgos.release.spend import Noisy
from dpalgos.typing import FloatArray

_CLIPPED, _HIDDEN = 0.01, 0.1  # variance of entries of M_uu − I that clipping leaves, and below the floor
_LARGEST_GAIN = 100.0  # of white coordinates over units: in a direction of less spread far rows are too far
_SMALL, _LARGE = 0.25, 6.0  # variances of columns far from 1
_USUAL_LEVEL, _WORTH, _UNKNOWN = 1.25, 4.0, 0.05  # of white rows; times the variance of new moments; a doubt
_VISIBLE = 3.5  # standard deviations of a sum of squares of noise
_START_RIDGE = 3.0  # floors
_SURE, _LEAST_WEIGHT = 2.0, 0.05  # standard deviations of noise; of a row among clipped ones
_SECOND_FLOOR = 1.3  # floors of the noise in Q: in weaker directions steps follow noise
_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True, eq=False, kw_only=True)
class Whitening:
    """Released second moments M (p, p) of rows z'B, and the whitening matrix W (d, d) that follows.

    Attributes
    ----------
    moments, noise_std
        M over the ``weight``, and the noise in svec(M).
    matrix : (d, d) array
        W: white rows are W'x.
    floor : float
        Under the eigenvalues of the moments of x, or of u.
    directions : (d, d) array
        Orthonormal in white coordinates, one a column.
    curvature : (d,) array
        1 for directions above the floor, else released moment over floor, 0 to 1.
    doubt : (d, d) array
        The variance v of entries between directions.
    coordinates : (p, p) array
        B.
    ones : int or None
        Which entry of z is 1, if one is.
    weight : float
        The weight of a row among clipped ones.
    """

    moments: FloatArray
    noise_std: float
    matrix: FloatArray
    floor: float
    directions: FloatArray
    curvature: FloatArray
    doubt: FloatArray
    coordinates: FloatArray
    ones: int | None = None
    weight: float = 1.0

    @property
    def n_unresolved(self) -> float:
        """How many directions lie below the floor."""
        return float((self.curvature < 1).sum())

    def hides_directions(self, noise_multiplier: float, n_rows: float, *, for_interval: bool) -> bool:
        """Return whether moments of white rows would show a direction that is unknown now.

        Two conditions must hold. First, the variance of a column is far from 1, or an interval has to know
        each direction. Second, a doubt is four times the one that noise would leave. ``noise_multiplier`` is
        that of moments, and their threshold is taken to be 1.25 √d. Up to a doubt of 0.05 a direction is
        known.
        """
        threshold = _USUAL_LEVEL * float(np.sqrt(len(self.matrix)))
        noise = float(noise_multiplier * outer_product(threshold, n_rows)) ** 2
        far = bool((self._variances < _SMALL).any()) or self.has_large
        return (far or for_interval) and float(self.doubt.diagonal().max()) > max(_WORTH * noise, _UNKNOWN)

    @property
    def has_large(self) -> bool:
        """Whether the variance of a column is far above 1."""
        return bool((self._variances > _LARGE).any())

    @property
    def _variances(self) -> FloatArray:
        return self.moments.diagonal()[:-1]

    def matters(self, score: FloatArray, noise_std: float) -> bool:
        """Return whether a score (d,) or (d, K) shows more than noise in unknown directions."""
        unknown = self.doubt.diagonal() > _UNKNOWN
        along = (self.directions.T @ score)[unknown]
        number = along.size
        return bool((along**2).sum() > (number + _VISIBLE * np.sqrt(2 * number)) * noise_std**2)

    def refined(self, released: Noisy) -> "Whitening":
        """Return a whitening inside this one, by released moments (d, d) of its white rows."""
        moments, axes, variance = released.value, self.directions, float(released.std) ** 2
        same = np.eye(len(moments))
        weight = self.doubt / (self.doubt + variance)
        known = axes @ (same + weight * (axes.T @ moments @ axes - same)) @ axes.T
        floor = _SECOND_FLOOR * float(np.sqrt((weight**2).mean())) * _floor(len(same), float(released.std))
        eigenvalues, vectors = np.linalg.eigh(known)
        inner = np.linalg.solve(self.coordinates[:-1, :-1], self.matrix @ vectors)
        least = (inner**2).sum(axis=0) / _LARGEST_GAIN**2
        raised = np.maximum(np.maximum(eigenvalues, max(floor, _TINY)), least)
        turned = (axes.T @ vectors) ** 2
        doubt = turned.T @ (weight * variance) @ turned
        return replace(
            self,
            matrix=self.matrix @ _of_spectrum(vectors, raised**-0.5),
            directions=vectors,
            floor=max(floor, _TINY),
            curvature=np.clip(eigenvalues / raised, 0, 1),
            doubt=_doubt(doubt, eigenvalues, raised, least),
        )

    @property
    def one(self) -> FloatArray:
        """The white coefficients (d,) of the last column of x."""
        return np.asarray(np.linalg.inv(self.matrix)[:, -1])

    @property
    def mean_row(self) -> FloatArray:
        """The mean of the white rows, at most 1 long as their second moments say, (d,)."""
        one = -1 if self.ones is None else self.ones
        mean = np.linalg.solve(self.coordinates[:-1, :-1].T, self.moments[:-1, one])
        center = self.matrix.T @ mean / max(self.moments[one, one], 0.1)  # the weight of clipped rows
        return np.asarray(center / max(float(np.linalg.norm(center)), 1.0))

    @property
    def last_unit(self) -> float:
        """The unit in which the last entry of z was taken."""
        return float(1 / self.coordinates[-1, -1])

    def ridge_start(self) -> tuple[FloatArray, float]:
        """Return a ridge regression of the last entry of z on x, (d,), and the variance of its noise.

        The ridge is a few floors, and the variance is in white units.
        """
        d = len(self.matrix)
        eigenvalues, vectors = np.linalg.eigh(self.moments[:d, :d])
        ridge = np.maximum(eigenvalues, 0) + max(_START_RIDGE * self.floor, _TINY)
        coef = self.last_unit * (vectors @ (vectors.T @ self.moments[:d, d] / ridge))
        variance = (self.noise_std / (_START_RIDGE * np.sqrt(2))) ** 2 / self.floor
        return self.coordinates[:d, :d] @ coef, float(self.last_unit**2 * variance)


def whitening_of(released: Noisy, coordinates: FloatArray, ones: int | None) -> Whitening:
    """Return the whitening by released moments (p, p) of clipped rows z in coordinates B.

    If an entry of z is 1 in every row, its released moment is the mean weight of a row after clipping. All
    moments are then divided by that weight.
    """
    moments, noise_std, weight = released.value, float(released.std), 1.0
    d = len(moments) - 1
    if ones is not None:
        weight = float(np.clip(moments[ones, ones] + _SURE * noise_std, _LEAST_WEIGHT, 1))
    moments, noise_std = moments / weight, noise_std / weight
    floor = max(_floor(d, noise_std), _TINY)
    eigenvalues, vectors = np.linalg.eigh(moments[:d, :d])
    raised = np.maximum(eigenvalues, max(floor, _LARGEST_GAIN**-2))
    return Whitening(
        moments=moments,
        noise_std=noise_std,
        matrix=coordinates[:d, :d] @ _of_spectrum(vectors, raised**-0.5),
        floor=floor,
        directions=vectors,
        curvature=np.clip(eigenvalues / raised, 0, 1),
        doubt=_doubt(np.asarray(noise_std**2), eigenvalues, raised, _LARGEST_GAIN**-2),
        coordinates=coordinates,
        ones=ones,
        weight=weight,
    )


def _floor(d: int, noise_std: float) -> float:
    """Return about the spectral norm of the noise: √(2d) of its diagonal standard deviation."""
    return float(1.2 * np.sqrt(d) * noise_std)


def _doubt(
    variance: FloatArray, eigenvalues: FloatArray, raised: FloatArray, least: FloatArray | float
) -> FloatArray:
    """Return the variance of entries of M_uu − I, for that of entries of M between its eigenvectors.

    The moment of a direction below the floor lies between 0 and 1. Directions at the maximum gain are not
    refined further.
    """
    hidden = ((eigenvalues < raised) & (raised > least)).astype(float)
    return np.asarray(variance / np.outer(raised, raised) + _CLIPPED + _HIDDEN * np.outer(hidden, hidden))


def _of_spectrum(vectors: FloatArray, eigenvalues: FloatArray) -> FloatArray:
    return np.asarray((vectors * eigenvalues) @ vectors.T)
