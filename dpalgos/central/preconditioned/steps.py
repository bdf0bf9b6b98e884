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
all later ones as far as they are damped. The ridge of a Newton step takes only a part of it. A direction
below the floor damps it by at least a quarter in linear models, and by half in others.

A is the squared length of the slopes, V the variance that noise explains. A direction below the floor of the
whitening varies less than a white one. The weight of its square is its released moment over the floor, but
at least 1/2; for counts, at least 0.1. For counts, V is also multiplied by 1 + the mean part that is not
resolved. Steps along such directions are short, and leave an error that V does not contain.
Halfway, slopes of a model with an intercept are set to 0 if A < V.
Slopes are also set to 0 if rows are far from their centers: columns then are far from their units.
"""

import math
from typing import NamedTuple

import numpy as np

from dpalgos.central.preconditioned.whitening import Whitening
from dpalgos.core.record import Noisy
from dpalgos.models.families import Family
from dpalgos.models.newton_steps import NewtonSteps, combined, james_stein, posterior_kept
from dpalgos.typing import FloatArray

_TINY = float(np.finfo(float).tiny)
_RIDGE = 0.75  # times √d and the noise of a score: added to curvatures that are not 1
_RAREST, _FLATTEST = 0.1, 0.05  # of an even share of classes; of the largest curvature
_OWN_VARIANCE = 0.02  # of steps that are not linear
_LONGEST = 0.4  # step of counts
_LEAST_CURVATURE = 0.5  # counted with, where rows are clipped or below the floor
_LEAST_OF_LINES = 0.25  # counted with below the floor; 0.5 has six more cells of the gate above the constant
_SURELY, _OFF, _SCALES = 3.0, 1.5, (0.5, 10.0)  # standard deviations; factors by which a curvature is wrong
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

    def shortened(self, n_kept: int, factor: float) -> "Steps":
        """Return the state in shorter coordinates of what is not of interest. It forgets scores."""
        assert self.threshold is not None
        white = self.white.shortened(n_kept, factor)
        moved = np.linalg.solve(white.matrix, self.white.matrix)
        return self._replace(
            white=white,
            threshold=self.threshold * float(np.sqrt(white.size / self.white.size)),
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
        curvature, scale = (
            self.white.normal_curvature(self.family, theta, float(self.origin), self.clip),
            self.white.scale,
        )
        return curvature if scale is None else np.asarray(scale @ curvature @ scale)

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
        slopes, one = Slopes.of(self, clipped_share, intercept=True), self.white.one
        square = float(one @ one)
        return Noisy(np.asarray(slopes.constant @ one / square), np.sqrt(slopes.noise / (len(one) * square)))

    def estimate(self, clipped_share: float, *, intercept: bool) -> FloatArray:
        """Return white coefficients. About a ``clipped_share`` of rows is clipped."""
        slopes = Slopes.of(self, clipped_share, intercept=intercept)
        if self.family.classes:
            shrunk = james_stein(slopes.slopes[:, None], slopes.noise)[:, 0]
            return shrunk.reshape(self.theta.shape)
        factor = posterior_kept(slopes.squares, slopes.noise, max(len(slopes.slopes) - intercept, 1))
        constant = slopes.constant if self.family.is_linear else factor * slopes.constant
        return constant + factor * slopes.slopes


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
        least = _LEAST_OF_LINES if family.is_linear else _LEAST_CURVATURE
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
