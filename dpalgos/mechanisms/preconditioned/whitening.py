"""Released second moments of clipped rows, and the matrix that whitens rows by them.

    M = (1/n) Σ z_i z_i' min(1, C/‖z_i‖)² + noise,   W = M_xx^(−1/2),  eigenvalues raised to a floor

z = [x, one more entry]. Replacing a row moves M by at most √2 C²/n in the Frobenius norm: orthogonal rows of
norm C. The floor is the spectral norm of the noise, below which nothing is known of a direction.

A whitening inside the coordinates of an earlier one, u = W x, resolves directions that hid below its floor,
in whatever units columns are: whitened rows are clipped at about √d (recursive private preconditioning:
Kamath, Li, Singhal & Ullman 2019, Privately learning high-dimensional distributions). W is released, so that
the sensitivity is the same. M_uu should be I; entry (i, j) of M_uu − I, in the directions of W, is unknown
up to a variance v_ij before, and up to s² by the noise of the new moments. What is taken for it is

    Q_ij = I_ij + a_ij (M_uu − I)_ij,   a_ij = v_ij / (v_ij + s²),

so that new moments decide where old ones saw noise, and add little noise elsewhere. W then becomes W
Q^(−1/2), with a floor under the eigenvalues of Q, and v_ij becomes a_ij s² in the directions of Q, in units
of its eigenvalues. At first v_ij is s²/(λ_i λ_j), of the eigenvalues λ of M; .01 is added for what clipping
hides.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dpalgos.mechanisms.sensitivity import outer_product
from dpalgos.models.white_rows import constant_on
from dpalgos.release.transcript import Transcript
from dpalgos.rows.group import Group
from dpalgos.rows.sample import Grouped, Sample
from dpalgos.steps.moments import clipped_row_moments, svec, unsvec
from dpalgos.typing import BoolArray, FloatArray

MOMENTS = "second moments"
_CLIPPED, _HIDDEN = 0.01, 0.1  # variance of entries of M_uu − I that clipping leaves, and below the floor
_LARGEST_GAIN = 100.0  # of white coordinates over units: in a direction of less spread far rows are too far
_SMALL, _LARGE = 0.25, 6.0  # variances of columns far from 1
_USUAL_LEVEL, _WORTH, _UNKNOWN = 1.25, 4.0, 0.05  # of white rows; times the variance of new moments; a doubt
_VISIBLE = 3.5  # standard deviations of a sum of squares of noise
_START_RIDGE = 3.0  # floors
_SURE, _LEAST_WEIGHT = 2.0, 0.05  # standard deviations of noise; of a row among clipped ones
_SECOND_FLOOR = 1.3  # floors of the noise in Q: in weaker directions steps follow noise


class WholeRows(NamedTuple):
    """Rows z = [x, one more entry], in coordinates B (R, p, p): z'B.

    ``ones`` says which entry is 1 in every row, if one is.
    """

    rows: Grouped[FloatArray]
    coordinates: FloatArray | None = None
    ones: int | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Whitening:
    """Released second moments M (R, p, p) of the rows, and the whitening matrix W (R, d, d) that follows.

    ``floor`` (R,) is that of the eigenvalues of the moments of x, or of u; ``noise_std`` (R,) is that of the
    noise in svec(M). ``directions`` (R, d, d) are orthonormal in white coordinates, one a column;
    ``curvature`` (R, d) is 1 for those above the floor, else released moment over floor, 0 to 1. ``doubt``
    (R, d, d) is the variance v of entries between directions.
    """

    moments: FloatArray
    matrix: FloatArray
    floor: FloatArray
    noise_std: FloatArray
    directions: FloatArray
    curvature: FloatArray
    doubt: FloatArray
    coordinates: FloatArray | None = None
    ones: int | None = None  # which entry of z is 1, if one is
    weight: FloatArray | float = 1.0  # of a row among clipped ones, (R,): moments are over it

    @property
    def unresolved(self) -> FloatArray:
        """How many directions lie below the floor, (R,)."""
        return np.asarray((self.curvature < 1).sum(axis=1, dtype=float))

    def hides(self, noise_multiplier: float, n_rows: FloatArray, *, for_interval: bool = False) -> BoolArray:
        """Return where moments of white rows would show a direction that is unknown now, (R,).

        So it is where the variance of a column is far from 1, or an interval has to know each direction, and
        a doubt is four times what noise would leave: ``noise_multiplier`` is that of moments,
        and their level is taken to be 1.25 √d. Up to a doubt of .05 a direction is known.
        """
        level = np.full(len(n_rows), _USUAL_LEVEL * float(np.sqrt(self.matrix.shape[1])))
        noise = (noise_multiplier * outer_product(level, n_rows)) ** 2
        worst = np.diagonal(self.doubt, axis1=1, axis2=2).max(axis=1)
        far = (self._variances < _SMALL).any(axis=1) | self.has_large
        return np.asarray((far | for_interval) & (worst > np.maximum(_WORTH * noise, _UNKNOWN)))

    @property
    def has_large(self) -> BoolArray:
        """Whether the variance of a column is far above 1, (R,)."""
        return np.asarray((self._variances > _LARGE).any(axis=1))

    @property
    def _variances(self) -> FloatArray:
        return np.asarray(np.diagonal(self.moments, axis1=1, axis2=2)[:, :-1])

    def matters(self, score: FloatArray, noise_std: FloatArray) -> BoolArray:
        """Return where a score, (d, R) or (d, K, R), shows more than noise (R,) in unknown directions."""
        unknown = np.diagonal(self.doubt, axis1=1, axis2=2) > _UNKNOWN
        along = np.einsum("rij,i...r->rj...", self.directions, score).reshape(*unknown.shape, -1)
        squares = np.where(unknown[..., None], along**2, 0).sum(axis=(1, 2))
        number = unknown.sum(axis=1) * along.shape[-1]
        return np.asarray(squares > (number + _VISIBLE * np.sqrt(2 * number)) * noise_std**2)

    def where(self, chosen: BoolArray, other: "Whitening") -> "Whitening":
        """Return the whitening with another one's maps in the ``chosen`` replicates (R,); moments stay."""
        fields = {"matrix": 2, "floor": 0, "directions": 2, "curvature": 1, "doubt": 2}
        mixed = {
            name: np.where(chosen.reshape(-1, *[1] * axes), getattr(other, name), getattr(self, name))
            for name, axes in fields.items()
        }
        return replace(self, **mixed)

    def refined(self, moments: FloatArray, noise_std: FloatArray) -> "Whitening":
        """Return a whitening inside this one, by moments (R, d, d) of its white rows with noise (R,)."""
        axes, same, variance = self.directions, np.eye(moments.shape[1]), noise_std[:, None, None] ** 2
        weight, back = self.doubt / (self.doubt + variance), np.swapaxes(self.directions, 1, 2)
        known = axes @ (same + weight * (back @ moments @ axes - same)) @ back
        spread = np.sqrt((weight**2).mean(axis=(1, 2)))
        floor = np.maximum(_SECOND_FLOOR * spread * _floor(len(same), noise_std), np.finfo(float).tiny)
        eigenvalues, vectors = np.linalg.eigh(known)
        inner = self.matrix @ vectors
        if self.coordinates is not None:
            inner = np.linalg.solve(self.coordinates[:, : len(same), : len(same)], inner)
        least = (inner**2).sum(axis=1) / _LARGEST_GAIN**2
        raised = np.maximum(np.maximum(eigenvalues, floor[:, None]), least)
        turned = (back @ vectors) ** 2
        return replace(
            self,
            matrix=self.matrix @ _of_spectrum(vectors, raised**-0.5),
            directions=vectors,
            floor=floor,
            curvature=np.clip(eigenvalues / raised, 0, 1),
            doubt=_doubt(
                np.swapaxes(turned, 1, 2) @ (weight * variance) @ turned, eigenvalues, raised, least
            ),
        )

    @property
    def one(self) -> FloatArray:
        """The white coefficients (d, R) of the last column of x."""
        return constant_on(self.matrix)

    def again(
        self, chosen: BoolArray, released: FloatArray, noise_std: FloatArray, theta: FloatArray
    ) -> tuple["Whitening", FloatArray]:
        """Return the whitening refined in the ``chosen`` replicates (R,), and θ in its coordinates.

        ``released`` begins with the svec of moments of white rows, whose noise is ``noise_std`` (R,); θ is
        (d, R) or (d, K, R).
        """
        d = self.matrix.shape[1]
        white = self.where(chosen, self.refined(unsvec(released[: d * (d + 1) // 2], d), noise_std))
        coef = np.einsum("rij,j...r->i...r", self.matrix, theta)
        flat = np.moveaxis(coef.reshape(d, -1, coef.shape[-1]), 2, 0)
        inner = np.moveaxis(np.linalg.solve(white.matrix, flat), 0, 2).reshape(coef.shape)
        return white, np.where(chosen, inner, theta)

    @property
    def mean_row(self) -> FloatArray:
        """The mean of the white rows, at most 1 long as their second moments say, (d, R)."""
        one = -1 if self.ones is None else self.ones
        mean = self.moments[:, :-1, one, None]
        if self.coordinates is not None:
            mean = np.linalg.solve(np.swapaxes(self.coordinates[:, :-1, :-1], 1, 2), mean)
        weight = np.maximum(self.moments[:, one, one], 0.1)  # of clipped rows, less than 1
        center = np.einsum("rji,rj->ir", self.matrix, mean[..., 0]) / weight
        return np.asarray(center / np.maximum(np.linalg.norm(center, axis=0), 1))

    @property
    def row_coordinates(self) -> FloatArray:
        """B (R, p, p), of rows z'B."""
        same = np.broadcast_to(np.eye(self.moments.shape[1]), self.moments.shape)
        return np.asarray(same if self.coordinates is None else self.coordinates)

    @property
    def last_unit(self) -> FloatArray:
        """The unit in which the last entry of z was taken, (R,)."""
        return np.asarray(1 / self.row_coordinates[:, -1, -1])

    def ridge_start(self, mean: FloatArray | float = 0.0) -> tuple[FloatArray, FloatArray]:
        """Return a ridge regression of y − ``mean`` on x, (R, d, 1), and the noise's variance, (R,).

        The ridge is a few floors, and the variance one in white units. ``mean`` (R,) is taken off where an
        entry of z is 1.
        """
        d = self.matrix.shape[1]
        eigenvalues, vectors = np.linalg.eigh(self.moments[:, :d, :d])
        floors = np.maximum(_START_RIDGE * self.floor, np.finfo(float).tiny)
        ridge = np.maximum(eigenvalues, 0) + floors[:, None]
        beyond = self.moments[:, :d, d:]
        if self.ones is not None:
            beyond = beyond - np.reshape(mean, (-1, 1, 1)) * self.moments[:, :d, self.ones, None]
        along = np.swapaxes(vectors, 1, 2) @ beyond
        variance = (self.noise_std / (_START_RIDGE * np.sqrt(2))) ** 2 / self.floor * (1 + np.square(mean))
        start = self.last_unit[:, None, None] * (vectors @ (along / ridge[..., None]))
        return np.asarray(
            start if self.coordinates is None else self.coordinates[:, :d, :d] @ start
        ), self.last_unit**2 * variance


def private_whitening(
    transcript: Transcript,
    sample: Sample,
    whole: WholeRows,
    level: FloatArray,
    *,
    noise_multiplier: float,
) -> Whitening:
    """Release second moments of rows z, in released coordinates, clipped to ``level`` (R,).

    Where an entry of z is 1 in every row, its released moment says how much a row counts after clipping, and
    all moments are divided by that.
    """
    coordinates, ones = whole.coordinates, whole.ones
    n_rows, d = sample.n_rows, sample.n_features
    sensitivity = outer_product(level, n_rows)
    value = svec(clipped_second_moments(whole.rows, level, coordinates) / n_rows[:, None, None])
    released = transcript.gaussian(
        value, l2_sensitivity=sensitivity, noise_multiplier=noise_multiplier, label=MOMENTS
    )
    moments = unsvec(released, d + 1)
    noise_std = transcript.noise_std(sensitivity, noise_multiplier, len(value))
    weight: FloatArray = np.ones(len(n_rows))
    if ones is not None:
        weight = np.clip(moments[:, ones, ones] + _SURE * noise_std, _LEAST_WEIGHT, 1)
    moments, noise_std = moments / weight[:, None, None], noise_std / weight
    floor = np.maximum(_floor(d, noise_std), np.finfo(float).tiny)
    eigenvalues, vectors = np.linalg.eigh(moments[:, :d, :d])
    raised = np.maximum(eigenvalues, np.maximum(floor[:, None], _LARGEST_GAIN**-2))
    matrix = _of_spectrum(vectors, raised**-0.5)
    return Whitening(
        moments=moments,
        matrix=matrix if coordinates is None else coordinates[:, :d, :d] @ matrix,
        floor=floor,
        noise_std=noise_std,
        directions=vectors,
        curvature=np.clip(eigenvalues / raised, 0, 1),
        doubt=_doubt(noise_std[:, None, None] ** 2, eigenvalues, raised, _LARGEST_GAIN**-2),
        coordinates=coordinates,
        ones=ones,
        weight=weight,
    )


def _floor(d: int, noise_std: FloatArray) -> FloatArray:
    """Return about the spectral norm of the noise: √(2d) of its diagonal standard deviation."""
    return np.asarray(1.2 * np.sqrt(d) * noise_std)


def _doubt(
    variance: FloatArray, eigenvalues: FloatArray, raised: FloatArray, least: FloatArray | float
) -> FloatArray:
    """Return the variance of entries of M_uu − I, for that of entries of M between its eigenvectors.

    Of directions below the floor it is known that moments lie between 0 and 1; nothing is asked of those that
    are as long as they may get.
    """
    hidden = ((eigenvalues < raised) & (raised > least)).astype(float)
    known = variance / (raised[:, :, None] * raised[:, None, :]) + _CLIPPED
    return np.asarray(known + _HIDDEN * hidden[:, :, None] * hidden[:, None, :])


def _of_spectrum(vectors: FloatArray, eigenvalues: FloatArray) -> FloatArray:
    return np.asarray((vectors * eigenvalues[:, None, :]) @ np.swapaxes(vectors, 1, 2))


def clipped_second_moments(
    rows: Grouped[FloatArray], level: FloatArray, made: FloatArray | None
) -> FloatArray:
    """Return Σ z z' over rows clipped to ``level`` (R,), (R, p, p), or of what matrices make of the rows."""
    sample = rows.sample
    p = sample.n_features + 1 if made is None else made.shape[-1]

    def part(group: Group, Z: FloatArray) -> FloatArray:
        own = None if made is None else made[group.replicates]
        return clipped_row_moments(Z, own, group.weights, level[group.replicates])

    return rows.total((sample.n_replicates, p, p), part, axis=0)
