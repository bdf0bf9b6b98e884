"""Newton steps on white rows, and the estimate from them, from released numbers. Nothing here reads a row.

**Steps.** A step uses the curvature that the loss has for normal rows
(:mod:`dpalgos.models.normal_curvature`). It adds √d times the noise, which keeps noise from moving θ far. If
rows are far from normal (clipped, rare or skewed), this curvature is wrong along some directions. Steps then
swing about the estimate or creep towards it. With m = θ_t − θ_{t−1}, two released scores say

    m'(g_{t−1} − g_t) = m' H m + s² tr(H⁻¹) ± s ‖m‖ √2,   s the noise of a score,

the second term since m follows g_{t−1}. If that differs from the model by three standard deviations and a
factor of 1.5, H is scaled along m; in nonlinear models only upwards. For events, the curvature falls or rises
along a step. The step then uses the mean of the curvatures at its two points. The far point counts as far as
noise does not explain it. A step of counts is at most 0.4 long. Their ψ'' has no bound, and in a rare group
a predictor changes by several times the length of a step.

**Estimate.** θ̄ = Σ_t w_t (θ_t + step_t), with weights of least variance
(:func:`dpalgos.models.newton_steps.combination_weights`). The slopes, orthogonal to the intercept, are shrunk
to their posterior mean (:func:`dpalgos.models.newton_steps.posterior_kept`). For events and
counts, the change that steps made to the intercept is shrunk in the same way. The noise of a step stays in
all later ones as far as they are damped. The ridge of a Newton step takes only a part of it.

A is the squared length of the slopes, V the variance that noise explains. A direction below the floor of the
whitening varies less than a white one. The weight of its square is its released moment over the floor, but
at least 1/2; for counts, at least 0.1. For counts, V is also multiplied by 1 + the mean part that is not
resolved. Steps along such directions are short, and leave an error that V does not contain.
Halfway, slopes of a model with an intercept are set to 0 if A < V.
Slopes are also set to 0 if rows are far from their centers: columns then are far from their units.

The matrix that whitens rows, from their released second moments. Nothing here reads a row.

W = M_xx^(−1/2), M the released second moments of clipped rows z. Eigenvalues are raised to a
floor: the spectral norm of the noise, below which nothing is known of a direction. A second whitening
is inside the coordinates u = W'x. It resolves directions below the floor in any units, since white rows are
clipped at about √d (recursive private preconditioning, Kamath, Li, Singhal & Ullman 2019). M_uu should be I.
Before it, entry (i, j) of M_uu − I, in the directions of W, is unknown up to a variance v_ij. The noise of
the new moments has variance s². The estimate of the moments is Q_ij = I_ij + a_ij (M_uu − I)_ij, a_ij =
v_ij/(v_ij + s²). W then becomes W Q^(−1/2), and v_ij becomes a_ij s², in units of the eigenvalues of Q. At
first v_ij is s²/(λ_i λ_j), λ the eigenvalues of M; 0.003 is added for the effect of clipping.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dpalgos.central.preconditioned.plan import N_WHITENINGS, WHITE, WHITENED_TWICE, Numbers, spectral_norm
from dpalgos.core.record import Noisy
from dpalgos.mechanisms.sensitivity import outer_product
from dpalgos.models.families import Family
from dpalgos.models.newton_steps import NewtonSteps, combined, james_stein, posterior_kept
from dpalgos.models.normal_curvature import normal_curvature
from dpalgos.typing import FloatArray

_TINY = float(np.finfo(float).tiny)
_CLIPPED, _HIDDEN = 0.003, 0.1  # variance of entries of M_uu − I that clipping leaves, and below the floor
_LARGEST_GAIN = 100.0  # of white coordinates over units: in a direction of less spread far rows are too far
_SMALL, _LARGE = 0.25, 6.0  # variances of columns far from 1
UNKNOWN = 0.05  # a doubt
_START_RIDGE, _SECOND_FLOOR = 3.0, 1.3  # floors
_SURE, _LEAST_WEIGHT = 2.0, 0.05  # standard deviations of noise; of a row among clipped ones


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

    def is_far(self, *, linear: bool) -> bool:
        """Return whether a column varies far more than its unit, or in a linear model far less."""
        variances = self.moments.diagonal()[:-1]
        return bool((variances > _LARGE).any() or (linear and (variances < _SMALL).any()))

    @property
    def hides_columns(self) -> bool:
        """Whether noise exceeds a unit, and hides many directions: columns then are far from their units."""
        return self.noise_std > 1 and float((self.curvature == 1).mean()) < _RESOLVED

    @property
    def unknown(self) -> FloatArray:
        """The directions with a doubt above 0.05, (d, k)."""
        return self.directions[:, self.doubt.diagonal() > UNKNOWN]

    def refined(self, released: Noisy) -> "Whitening":
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
        eigenvalues, vectors = np.linalg.eigh(self.moments[:d, :d])
        ridge = np.maximum(eigenvalues, 0) + max(_START_RIDGE * self.floor, _TINY)
        coef = self.coordinates[:d, :d] @ vectors @ (vectors.T @ self.moments[:d, d] / ridge)
        variance = (self.noise_std / (_START_RIDGE * np.sqrt(2))) ** 2 / self.floor
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


_WORTH = 4.0  # times the variance of new moments
_VISIBLE = 2.0  # standard deviations of the squares of noise
_RIDGE = 0.75  # times √d and the noise of a score: added to curvatures that are not 1
_RAREST, _FLATTEST = 0.1, 0.05  # of an even share of classes; of the largest curvature
_OWN_VARIANCE = 0.02  # of steps that are not linear
_LONGEST = 0.4  # step of counts
_LEAST_CURVATURE, _LEAST_OF_EVENTS = 0.5, 0.7  # counted with, where rows are clipped or below the floor
_SURELY, _OFF, _SCALES = 3.0, 1.5, (0.5, 10.0)  # standard deviations; factors by which a curvature is wrong
_RESOLVED = 0.7  # of the directions
_LEAST_OF_COUNTS = 0.1  # the same for the squares of their slopes


class Steps(NamedTuple):
    """The state between releases: released numbers only.

    Attributes
    ----------
    family : Family
    white : Whitening
    theta : (d,) or (d, K) array
        White coefficients.
    origin : () or (K,) array
        The predictor at θ = 0 of a row of ones, with a typical offset.
    variance : float
        The variance of the noise in the first point.
    clip : float
        The public threshold of scores over √d, infinite without one.
    threshold : float or None
        The threshold of scores.
    points, scores, steps : tuples of arrays
        Points so far, the scores released there, and the full Newton steps from them.
    stds, step_stds : tuples of float
        The noise in scores and in steps.
    damping : tuple of float
        The part of a Newton step that was taken, on average over directions.
    curvature : (d, d) array or None
        The one of normal rows at the last point. There is none before it, and with classes.
    scales
        Directions along which scores showed another curvature, with the factors.
    """

    family: Family
    white: Whitening
    theta: FloatArray
    origin: FloatArray
    variance: float = 0.0
    clip: float = np.inf
    threshold: float | None = None
    points: tuple[FloatArray, ...] = ()
    scores: tuple[FloatArray, ...] = ()
    steps: tuple[FloatArray, ...] = ()
    stds: tuple[float, ...] = ()
    step_stds: tuple[float, ...] = ()
    damping: tuple[float, ...] = ()
    curvature: FloatArray | None = None
    scales: tuple[tuple[FloatArray, float], ...] = ()

    def wants_whitening(self, numbers: Numbers, t: int, noise_multiplier: float) -> bool:
        """Return whether step ``t`` whitens the rows again in its place.

        Whitening lengthens rows that are far along a narrow direction. Clipping them biases least squares.
        Therefore linear models whiten only if a unit is wrong, or if an interval has to know each direction.
        In other models, new moments must tell much: a doubt is four times the one that their noise would
        leave. Then the first step whitens if rows are enough. Later steps whiten only if a unit is wrong too.
        After a whitening, it must be far too small. After a score, that must show more than noise in unknown
        directions. Otherwise a direction in which a rare group differs would be stretched for nothing.
        """
        if t >= N_WHITENINGS or numbers.has_few_rows:
            return False
        white, linear = self.white, numbers.family.is_linear
        is_far = white.is_far(linear=linear) or (linear and numbers.interval)
        noise = noise_multiplier * outer_product(WHITE * numbers.root, numbers.n_rows)
        tells_much = float(white.doubt.diagonal().max()) > max(_WORTH * float(noise) ** 2, UNKNOWN)
        if t == 0:
            return (is_far or (tells_much and not linear)) and numbers.size >= WHITENED_TWICE * numbers.root
        if not is_far or not tells_much:
            return False
        if not self.scores:
            return white.is_far(linear=False) or numbers.interval
        along = white.unknown.T @ self.scores[-1]
        return bool((along**2).sum() > (along.size + _VISIBLE * np.sqrt(2 * along.size)) * self.stds[-1] ** 2)

    def whitened(self, released: Noisy) -> "Steps":
        """Return the state after a release of the moments (d, d) of white rows. It forgets scores."""
        return self._in(self.white.refined(released))

    def shortened(self, n_kept: int, factor: float) -> "Steps":
        """Return the state in shorter coordinates of what is not of interest. It forgets scores."""
        assert self.threshold is not None
        white = self.white.shortened(n_kept, factor)
        threshold = self.threshold * float(np.sqrt(white.size / self.white.size))
        return self._in(white)._replace(threshold=threshold)

    def _in(self, white: Whitening) -> "Steps":
        moved = np.linalg.solve(white.matrix, self.white.matrix)
        return self._replace(
            white=white,
            theta=moved @ self.theta,
            points=tuple(moved @ point for point in self.points),
            steps=tuple(moved @ step for step in self.steps),
            scores=(),
            stds=(),
            curvature=None,
            scales=(),
        )

    def after(self, released: Noisy) -> "Steps":
        """Return the state after a release of the mean clipped score at θ."""
        std, here = float(released.std), self._normal_curvature(self.theta)
        scales = self._scales(released, here)
        step, gain, taken = self._replace(scales=scales).newton_step(released, here)
        length = float(np.linalg.norm(self.white.unscaled(step)))
        length = max(length / _LONGEST, 1.0) if self.family.has_counts else 1.0
        return self._replace(
            theta=self.theta + step / length,
            points=(*self.points, self.theta),
            scores=(*self.scores, released.value),
            steps=(*self.steps, step),
            stds=(*self.stds, std),
            step_stds=(*self.step_stds, gain * std),
            damping=(*self.damping, taken),
            curvature=here,
            scales=scales,
        )

    def newton_step(self, released: Noisy, normal: FloatArray | None) -> tuple[FloatArray, float, float]:
        """Return (H(θ) + ridge)⁻¹ score, its gain of noise, and the mean of H/(H + ridge).

        ``normal`` is the curvature of normal rows at θ.
        """
        family, score = self.family, released.value
        ridge = 0.0 if family.is_linear else _RIDGE * float(np.sqrt(len(score)) * released.std)
        if normal is None:
            p = family.mean((self.white.mean_row @ self.theta + self.origin)[None, :, None])[0, :, 0]
            factor = min(self.clip / float(family.widest_residual(p[None])[0]), 1.0)
            of_classes = factor * np.maximum(p, _RAREST / len(p)) + ridge
            scaled = score / of_classes
            return scaled - scaled.mean(axis=1, keepdims=True), *_gain(of_classes, ridge)

        if family.is_linear and not self.scales:  # the curvature of white rows is the identity
            return score, 1.0, 1.0

        def step(curvature: FloatArray) -> tuple[FloatArray, float, float]:
            curvatures, axes = np.linalg.eigh(self._scaled(curvature))
            curvatures = np.maximum(curvatures, _FLATTEST * curvatures[-1]) + ridge
            return axes @ (axes.T @ score / curvatures), *_gain(curvatures, ridge)

        if not family.has_events:
            return step(normal)
        there = self._normal_curvature(self.theta + step(normal)[0])
        assert there is not None
        return step((normal + there) / 2)

    def _normal_curvature(self, theta: FloatArray) -> FloatArray | None:
        """Return the curvature (d, d) of normal rows at θ; None for classes."""
        if self.family.is_linear:
            return np.eye(len(theta))
        if self.family.classes:
            return None
        found, scale = (
            self.white.normal_curvature(self.family, theta, float(self.origin), self.clip),
            self.white.scale,
        )
        return found if scale is None else np.asarray(scale @ found @ scale)

    def _scaled(self, curvature: FloatArray) -> FloatArray:
        """Return a curvature (d, d), scaled where scores so far have shown it."""
        for direction, factor in self.scales:
            along = float(direction @ curvature @ direction)
            curvature = curvature + (factor - 1) * along * direction * direction[:, None]
        return curvature

    def _scales(self, released: Noisy, here: FloatArray | None) -> tuple[tuple[FloatArray, float], ...]:
        """Return the scales of the curvature, with another one if this score contradicts the last step."""
        if here is None or self.curvature is None:
            return self.scales
        move, std = self.theta - self.points[-1], self.stds[-1]
        curvature = (self._scaled(self.curvature) + self._scaled(here)) / 2
        expected, length = float(move @ curvature @ move), math.sqrt(move @ move)
        followed = len(move) * self.step_stds[-1] * std
        decrease = float(move @ (self.scores[-1] - released.value)) - followed
        is_sure = abs(decrease - expected) > _SURELY * math.hypot(std, float(released.std)) * length
        is_flatter = self.family.is_linear and decrease < expected / _OFF
        if not is_sure or length == 0 or not (is_flatter or decrease > expected * _OFF):
            return self.scales
        factor = min(max(decrease / max(expected, _TINY), _SCALES[0]), _SCALES[1])
        return (*self.scales, (move / length, factor))

    @property
    def released(self) -> NewtonSteps:
        """The points since the last whitening, with the scores released there; no classes."""
        assert self.threshold is not None
        points, scores = np.array(self.points[-len(self.scores) :]), np.array(self.scores)
        return NewtonSteps(points, scores, np.array(self.stds), self.threshold, self.theta)

    def explains(self, clipped_share: float) -> bool:
        """Return whether slopes of a model with an intercept are longer than noise alone makes them."""
        slopes = Slopes.of(self, clipped_share, intercept=True)
        return slopes.squares > slopes.noise

    def constant(self, clipped_share: float) -> Noisy:
        """Return the intercept without slopes, from the origin, with its noise."""
        found, one = Slopes.of(self, clipped_share, intercept=True), self.white.one
        square = float(one @ one)
        return Noisy(np.asarray(found.constant @ one / square), np.sqrt(found.noise / (len(one) * square)))

    def estimate(self, clipped_share: float, *, intercept: bool) -> FloatArray:
        """Return white coefficients. About a ``clipped_share`` of rows is clipped."""
        found = Slopes.of(self, clipped_share, intercept=intercept)
        if self.family.classes:
            shrunk = james_stein(found.slopes[:, None], found.noise)[:, 0]
            return shrunk.reshape(self.theta.shape)
        kept = posterior_kept(found.squares, found.noise, max(len(found.slopes) - intercept, 1))
        constant = found.constant if self.family.is_linear else kept * found.constant
        return constant + kept * found.slopes


class Slopes(NamedTuple):
    """The combination of released steps: the part along the intercept, and slopes orthogonal to it.

    ``squares`` is the squared length of the slopes, ``noise`` the part of it that noise explains. For
    classes, all is in ``slopes``, and noise is the variance of an entry.
    """

    constant: FloatArray
    slopes: FloatArray
    squares: float
    noise: float

    @classmethod
    def of(cls, state: Steps, clipped_share: float, *, intercept: bool) -> "Slopes":
        """Return the slopes of released steps."""
        family, white = state.family, state.white
        least = _LEAST_OF_EVENTS if family.is_bounded else _LEAST_CURVATURE
        known = float(np.mean(state.damping)) * np.maximum(white.curvature, least)
        if family.is_linear:
            known = known * max(1 - clipped_share, _LEAST_CURVATURE)
        points, steps = (np.array(each).reshape(len(each), -1) for each in (state.points, state.steps))
        full = NewtonSteps(points, steps, np.array(state.step_stds), 1.0, state.theta.ravel())
        known = np.tile(known, int(np.prod(family.classes)))
        own = 0.0 if family.is_linear else _OWN_VARIANCE
        middle, variance = combined(full, known, state.variance, own)
        if family.classes:
            return cls(np.zeros_like(middle), middle, np.nan, float(variance[0]))
        one = white.one / np.linalg.norm(white.one)
        constant = one * (one @ middle) if intercept else np.zeros_like(middle)
        slopes, resolved = middle - constant, white.curvature
        noise = max(float(variance.sum()), _TINY) * (2 - resolved.mean() if family.has_counts else 1)
        least = _LEAST_OF_COUNTS if family.has_counts else _LEAST_CURVATURE
        squares = max(float(np.maximum(resolved, least) @ (white.directions.T @ slopes) ** 2), _TINY)
        return cls(constant, slopes, squares, noise)


def _gain(curvatures: FloatArray, ridge: float) -> tuple[float, float]:
    inverse = 1 / curvatures
    return math.sqrt(inverse @ inverse / inverse.size), 1 - ridge * float(inverse.sum()) / inverse.size
