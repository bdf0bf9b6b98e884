"""The matrix that whitens rows, from their released second moments. Nothing here reads a row.

W = M_xx^(−1/2), M the released second moments of clipped rows z. Eigenvalues are raised to a
floor: the spectral norm of the noise, below which nothing is known of a direction. A second whitening
is inside the coordinates u = W'x. It resolves directions below the floor in any units, since white rows are
clipped at about √d (recursive private preconditioning, Kamath, Li, Singhal & Ullman 2019). M_uu should be I.
Before it, entry (i, j) of M_uu − I, in the directions of W, is unknown up to a variance v_ij. The noise of
the new moments has variance s². The estimate of the moments is Q_ij = I_ij + a_ij (M_uu − I)_ij, a_ij =
v_ij/(v_ij + s²). W then becomes W Q^(−1/2), and v_ij becomes a_ij s², in units of the eigenvalues of Q. At
first v_ij is s²/(λ_i λ_j), λ the eigenvalues of M; 0.003 is added for the effect of clipping.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dpalgos.central.preconditioned.plan import N_WHITENINGS, WHITE, WHITENED_TWICE, Numbers, spectral_norm
from dpalgos.core.record import Noisy
from dpalgos.mechanisms.sensitivity import outer_product
from dpalgos.models.families import Family
from dpalgos.models.normal_curvature import normal_curvature
from dpalgos.typing import FloatArray

_TINY = float(np.finfo(float).tiny)
_CLIPPED, _HIDDEN = 0.003, 0.1  # variance of entries of M_uu − I that clipping leaves, and below the floor
_LARGEST_GAIN = 100.0  # of white coordinates over units: in a direction of less spread far rows are too far
_SMALL, _LARGE = 0.25, 6.0  # variances of columns far from 1
_START_RIDGE, _SECOND_FLOOR = 3.0, 1.3  # floors
_SURE, _LEAST_WEIGHT = 2.0, 0.05  # standard deviations of noise; of a row among clipped ones
_WORTH, _UNKNOWN = 4.0, 0.05  # times the variance of new moments; a doubt
_RESOLVED = 0.7  # of the directions


@dataclass(frozen=True, eq=False, kw_only=True)
class Whitening:
    """Released second moments M (p, p) of rows z'B, and the whitening matrix W (d, d) that follows.

    Attributes
    ----------
    moments, noise_std
        M over the mean weight of a clipped row, and the noise in svec(M).
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
    scale : (d, d) array or None
        The factor of white rows, if coordinates are shorter on purpose; rows of variance 1 are without it.
    has_short_rows : bool
        Whether white rows were clipped at the lowest threshold, √d, because few are longer.
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
    scale: FloatArray | None = None
    has_short_rows: bool = False

    @classmethod
    def of(cls, released: Noisy, coordinates: FloatArray, ones: int | None) -> "Whitening":
        """Return the whitening by released moments (p, p) of clipped rows z in coordinates B.

        If an entry of z is 1 in every row, its released moment is the mean weight of a row after clipping.
        All moments are then divided by that weight.
        """
        moments, noise_std, weight = released.value, float(released.std), 1.0
        d = len(moments) - 1
        if ones is not None:
            weight = float(np.clip(moments[ones, ones] + _SURE * noise_std, _LEAST_WEIGHT, 1))
        moments, noise_std = moments / weight, noise_std / weight
        floor = max(spectral_norm(d, noise_std), _TINY)
        eigenvalues, vectors = np.linalg.eigh(moments[:d, :d])
        raised = np.maximum(eigenvalues, max(floor, _LARGEST_GAIN**-2))
        return cls(
            moments=moments,
            noise_std=noise_std,
            matrix=coordinates[:d, :d] @ ((vectors * raised**-0.5) @ vectors.T),
            floor=floor,
            directions=vectors,
            curvature=np.clip(eigenvalues / raised, 0, 1),
            doubt=_doubt(np.asarray(noise_std**2), eigenvalues, raised, _LARGEST_GAIN**-2),
            coordinates=coordinates,
            ones=ones,
        )

    @property
    def has_long_columns(self) -> bool:
        """Whether a column varies far more than its unit."""
        return bool((self.moments.diagonal()[:-1] > _LARGE).any())

    @property
    def has_wrong_units(self) -> bool:
        """Whether a column varies far more or far less than its unit."""
        return self.has_long_columns or bool((self.moments.diagonal()[:-1] < _SMALL).any())

    @property
    def hides_columns(self) -> bool:
        """Whether noise exceeds a unit, and hides many directions: columns then are far from their units."""
        return self.noise_std > 1 and self.resolved < _RESOLVED

    @property
    def resolved(self) -> float:
        """The share of directions that are above the floor."""
        return float((self.curvature == 1).mean())

    def needs_another(self, numbers: Numbers, t: int, noise_multiplier: float) -> bool:
        """Return whether another whitening, the ``t``-th, takes the place of a step.

        New moments must tell much: a doubt is four times the one that their noise would leave. Then the first
        step whitens if rows are enough. Whitening lengthens rows that are far along a narrow direction.
        Clipping them biases least squares. Therefore the first step of linear models also needs a column far
        from its unit. The next steps of all models need short white rows, or a column far longer than its
        unit. Intervals of linear models have to know each direction, and need neither.
        """
        if t >= N_WHITENINGS or numbers.has_few_rows:
            return False
        noise = float(noise_multiplier * outer_product(WHITE * numbers.root, numbers.n_rows))
        if float(self.doubt.diagonal().max()) <= max(_WORTH * noise**2, _UNKNOWN):
            return False
        resolves_each = numbers.family.is_linear and numbers.interval
        if t == 0:
            is_needed = not numbers.family.is_linear or self.has_wrong_units or resolves_each
            return is_needed and numbers.size >= WHITENED_TWICE * numbers.root
        return self.has_short_rows or self.has_long_columns or resolves_each

    def refined(self, released: Noisy, *, has_short_rows: bool = False) -> "Whitening":
        """Return a whitening inside this one, by released moments (d, d) of its white rows."""
        moments, axes, variance = released.value, self.directions, float(released.std) ** 2
        same = np.eye(len(moments))
        weight = self.doubt / (self.doubt + variance)
        known = axes @ (same + weight * (axes.T @ moments @ axes - same)) @ axes.T
        floor = (
            _SECOND_FLOOR * float(np.sqrt((weight**2).mean())) * spectral_norm(len(same), float(released.std))
        )
        eigenvalues, vectors = np.linalg.eigh(known)
        inner = np.linalg.solve(self.coordinates[:-1, :-1], self.matrix @ vectors)
        least = (inner**2).sum(axis=0) / _LARGEST_GAIN**2
        raised = np.maximum(np.maximum(eigenvalues, max(floor, _TINY)), least)
        turned = (axes.T @ vectors) ** 2
        doubt = turned.T @ (weight * variance) @ turned
        return replace(
            self,
            matrix=self.matrix @ ((vectors * raised**-0.5) @ vectors.T),
            directions=vectors,
            floor=max(floor, _TINY),
            curvature=np.clip(eigenvalues / raised, 0, 1),
            doubt=_doubt(doubt, eigenvalues, raised, least),
            has_short_rows=has_short_rows,
        )

    def shortened(self, n_kept: int, factor: float) -> "Whitening":
        """Return coordinates in which directions that do not change the first coefficients are shorter.

        The first ``n_kept`` coefficients do not depend on θ along these directions. Scores clipped there to
        less leave less noise in the coefficients.
        """
        axes, _ = np.linalg.qr(self.matrix.T)  # the first of them change the first coefficients
        lengths = np.where(np.arange(len(axes)) < n_kept, 1.0, factor)
        scale = (axes * lengths) @ axes.T
        turned = (axes.T @ scale @ self.directions) ** 2
        return replace(
            self,
            matrix=self.matrix @ scale,
            directions=axes,
            curvature=np.clip(turned @ self.curvature, 0, 1),
            doubt=turned @ self.doubt @ turned.T,
            scale=scale,
        )

    @property
    def size(self) -> float:
        """The mean squared length of a white row."""
        return float(len(self.matrix) if self.scale is None else (self.scale**2).sum())

    def unscaled(self, theta: FloatArray) -> FloatArray:
        """Return the coefficients (d,) of white rows of variance 1."""
        return theta if self.scale is None else np.asarray(self.scale @ theta)

    def normal_curvature(self, family: Family, theta: FloatArray, origin: float, clip: float) -> FloatArray:
        """Return the curvature (d, d) of normal rows of variance 1 at θ."""
        center = self.mean_row if self.scale is None else np.linalg.solve(self.scale, self.mean_row)
        return normal_curvature(family, self.unscaled(theta), center, origin, clip)

    @property
    def one(self) -> FloatArray:
        """The white coefficients (d,) of the last column of x."""
        return np.asarray(np.linalg.inv(self.matrix)[:, -1])

    @cached_property
    def mean_row(self) -> FloatArray:
        """The mean of the white rows, at most 1 long as their second moments say, (d,)."""
        one = -1 if self.ones is None else self.ones
        mean = np.linalg.solve(self.coordinates[:-1, :-1].T, self.moments[:-1, one])
        center = self.matrix.T @ mean / max(self.moments[one, one], 0.1)  # the weight of clipped rows
        of_white = center if self.scale is None else np.linalg.solve(self.scale, center)
        return np.asarray(center / max(float(np.linalg.norm(of_white)), 1.0))

    def ridge_start(self) -> tuple[FloatArray, float]:
        """Return white coefficients (d,) of the last entry of z by ridge regression, and their variance.

        The ridge is a few floors. The variance is that of noise.
        """
        d, unit = len(self.matrix), float(1 / self.coordinates[-1, -1])
        floor = max(spectral_norm(d, self.noise_std), _TINY)
        eigenvalues, vectors = np.linalg.eigh(self.moments[:d, :d])
        ridge = np.maximum(eigenvalues, 0) + _START_RIDGE * floor
        coef = self.coordinates[:d, :d] @ vectors @ (vectors.T @ self.moments[:d, d] / ridge)
        variance = (self.noise_std / (_START_RIDGE * np.sqrt(2))) ** 2 / floor
        return np.linalg.solve(self.matrix, unit * coef), float(unit**2 * variance)


def _doubt(
    variance: FloatArray, eigenvalues: FloatArray, raised: FloatArray, least: FloatArray | float
) -> FloatArray:
    """Return the variance of entries of M_uu − I, for that of entries of M between its eigenvectors.

    The moment of a direction below the floor lies between 0 and 1. Directions at the maximum gain are not
    refined further.
    """
    hidden = ((eigenvalues < raised) & (raised > least)).astype(float)
    return np.asarray(variance / np.outer(raised, raised) + _CLIPPED + _HIDDEN * np.outer(hidden, hidden))
