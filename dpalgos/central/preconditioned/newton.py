"""Newton steps on white rows, from released scores and moments. Nothing here reads a row.

A step uses the curvature that the loss has for normal rows (:mod:`dpalgos.models.normal_curvature`). It adds
√d times the noise, which keeps noise from moving θ far. If rows are far from normal (clipped, rare or
skewed), this curvature is wrong along some directions. Steps then swing about the estimate or creep towards
it. With m = θ_t − θ_{t−1}, two released scores say

    m'(g_{t−1} − g_t) = m' H m + s² tr(H⁻¹) ± s ‖m‖ √2,   s the noise of a score,

the second term since m follows g_{t−1}. If that differs from the model by three standard deviations and a
factor of 1.5, H is scaled along m. In nonlinear models H is scaled down only after a short step. For events,
the curvature falls or rises along a step. The step then uses the mean of the curvatures at its two points.
The far point counts as far as noise does not explain it. A step of counts is at most 1 long, since ψ'' has
no bound.

Each of the first steps may whiten the rows again in its place. Two conditions must hold. First, columns vary
far less or more than their units, or an interval is computed. Second, released moments leave a direction
unknown that new ones would show. It is done once, and again if scores of earlier steps show that such a
direction matters. Otherwise a direction in which only a rare group differs would be stretched for nothing.
The decision follows from released numbers.
"""

from typing import NamedTuple

import numpy as np

from dpalgos.central.preconditioned.mean_response import MeanResponse
from dpalgos.central.preconditioned.plan import FitPlan, tuning_of
from dpalgos.central.preconditioned.whitening import Whitening
from dpalgos.models.families import Family
from dpalgos.models.newton_steps import NewtonSteps
from dpalgos.models.normal_curvature import normal_curvature
from dpalgos.models.shrinkage import james_stein
from dpalgos.release.spend import Noisy
from dpalgos.typing import FloatArray

_SPREAD = 3.0  # times √d and the spread of residuals: about the threshold of scores
_RAREST = 0.1  # a class counts as at least this share of an even one
_FLATTEST = 0.05  # of the largest curvature
_SURE, _OFF, _SCALES = 3.0, 1.5, (0.5, 10.0)  # standard deviations; factors by which a curvature is wrong
_SHORT = 0.6  # in white units
_TINY = float(np.finfo(float).tiny)


class State(NamedTuple):
    """The state between releases: released numbers only.

    Attributes
    ----------
    family : Family
    n_rows : float
    white : Whitening
    theta : (d,) or (d, K) array
        White coefficients.
    origin : () or (K,) array
        The predictor at θ = 0 of a row of ones, with a typical offset.
    points, steps : tuples of arrays
        Points so far and the full Newton steps from them, in the present coordinates.
    step_stds : tuple of float
        The noise in the steps.
    damping : tuple of float
        The part of a Newton step that was taken, on average over directions.
    scores, stds
        The scores released at the points since the last whitening, and the noise in them.
    curvature : (d, d) array
        The curvature at the last point; no classes.
    scales
        Directions along which scores showed another curvature, with the factors.
    mean : MeanResponse or None
        Where one is released.
    unit, least : float
        The unit of residuals, and the minimum of thresholds of scores over √d.
    threshold : float or None
        The last one of scores.
    is_whitened : bool
        Whether rows were whitened again.
    matters : bool
        Whether an unknown direction matters.
    """

    family: Family
    n_rows: float
    white: Whitening
    theta: FloatArray
    origin: FloatArray
    mean: MeanResponse | None = None
    unit: float = 1.0
    clip: float = np.inf
    least: float = 0.0
    points: tuple[FloatArray, ...] = ()
    scores: tuple[FloatArray, ...] = ()
    steps: tuple[FloatArray, ...] = ()
    stds: tuple[float, ...] = ()
    step_stds: tuple[float, ...] = ()
    damping: tuple[float, ...] = ()
    curvature: FloatArray = np.eye(0)
    scales: tuple[tuple[FloatArray, float], ...] = ()
    threshold: float | None = None
    is_whitened: bool = False
    matters: bool = False

    def hides_slopes(self, plan: FitPlan) -> bool:
        """Return whether the released mean response says that slopes are not worth their noise."""
        return self.mean is not None and self.mean.hides_slopes(plan.size, len(self.theta))

    def wants_mean(self, plan: FitPlan) -> bool:
        """Return whether a step releases the mean response again in place of its score."""
        return self.hides_slopes(plan) and not plan.for_interval

    def about(self, mean: MeanResponse) -> "State":
        """Return the state after a release of the mean response."""
        change = mean.predictor - (mean if self.mean is None else self.mean).predictor
        return self._replace(
            theta=self.theta + change * self.white.one if change else self.theta,
            mean=mean,
            unit=mean.residual_unit,
            least=mean.least_threshold,
        )

    def wants_whitening(self, plan: FitPlan, t: int, noise_multiplier: float) -> bool:
        """Return whether step t whitens the rows again."""
        if t >= plan.n_whitenings or not (self.matters or self.white.has_large or not self.is_whitened):
            return False
        return self.white.hides_directions(noise_multiplier, self.n_rows, for_interval=plan.for_interval)

    def whitened(self, released: Noisy) -> "State":
        """Return the state after a release of the moments (d, d) of white rows."""
        white = self.white.refined(released)
        transform = np.linalg.solve(white.matrix, self.white.matrix)
        return self._replace(
            white=white,
            theta=transform @ self.theta,
            is_whitened=True,
            points=tuple(transform @ point for point in self.points),
            steps=tuple(transform @ step for step in self.steps),
            scales=(),
            scores=(),
            stds=(),
        )

    def stepped(self, released: Noisy, threshold: float) -> "State":
        """Return the state after a release of the mean score, clipped to ``threshold``, at θ."""
        score, std = released.value, float(released.std)
        d, tuning = len(score), tuning_of(self.family)
        sampling = threshold / (_SPREAD * np.sqrt(d * self.n_rows))
        state = _with_curvature(self, released)
        full, gain, taken = newton_step(state, released, tuning.step_ridge * float(np.sqrt(d)) * std)
        step = tuning.step_size * full
        if self.family.has_counts:
            step = step / max(float(np.linalg.norm(step)), 1.0)
        return state._replace(
            theta=self.theta + step,
            points=(*self.points, self.theta),
            scores=(*self.scores, score),
            steps=(*self.steps, full),
            stds=(*self.stds, std),
            step_stds=(*self.step_stds, gain * std),
            damping=(*self.damping, taken * tuning.step_size),
            threshold=threshold,
            matters=self.matters or self.white.matters(score, float(np.hypot(std, sampling))),
        )

    @property
    def released_steps(self) -> NewtonSteps:
        """The points with the scores released there; no classes."""
        assert self.threshold is not None
        points, scores = np.array(self.points[-len(self.scores) :]), np.array(self.scores)
        return NewtonSteps(points, scores, np.array(self.stds), self.threshold, self.theta)

    @property
    def full_steps(self) -> NewtonSteps:
        """The points, flat, with full Newton steps in place of scores."""
        assert self.threshold is not None
        points, steps = (np.array(each).reshape(len(each), -1) for each in (self.points, self.steps))
        return NewtonSteps(points, steps, np.array(self.step_stds), self.threshold, self.theta.ravel())


def newton_step(state: State, released: Noisy, ridge: float) -> tuple[FloatArray, float, float]:
    """Return (H(θ) + ridge)⁻¹ score, its root mean square factor on noise, and the mean of H/(H + ridge)."""
    family, score = state.family, released.value
    if family.classes:
        p = family.mean((state.white.mean_row @ state.theta + state.origin)[None, :, None])[0, :, 0]
        factor = min(state.clip / float(family.widest_residual(p[None])[0]), 1.0)
        of_classes = factor * np.maximum(p, _RAREST / len(p)) + ridge
        scaled = score / of_classes
        gain = _root_mean_square(1 / of_classes)
        return scaled - scaled.mean(axis=1, keepdims=True), gain, _taken(of_classes, ridge)

    def step(curvature: FloatArray) -> tuple[FloatArray, float, float]:
        curvatures, axes = np.linalg.eigh(curvature)
        curvatures = np.maximum(curvatures, _FLATTEST * curvatures[-1]) + ridge
        gain = _root_mean_square(1 / curvatures)
        return axes @ (axes.T @ score / curvatures), gain, _taken(curvatures, ridge)

    change, gain, taken = step(state.curvature)
    if family.has_events and state.points:
        noise = np.asarray((gain * float(released.std)) ** 2)
        end = state.theta + james_stein(change[:, None], noise)[:, 0]
        change, gain, taken = step((state.curvature + _model_curvature(state, end)) / 2)
    return change, gain, taken


def _model_curvature(state: State, theta: FloatArray) -> FloatArray:
    """Return the curvature (d, d) of normal rows at θ, scaled where scores so far have shown it."""
    if state.family.is_linear:
        curvature: FloatArray = np.eye(len(theta))
    else:
        mean, origin = state.white.mean_row, float(state.origin)
        curvature = normal_curvature(state.family, theta, mean, origin, state.clip)
    for unit, factor in state.scales:
        curvature = _scaled(curvature, unit, factor)
    return curvature


def _with_curvature(state: State, released: Noisy) -> State:
    """Return the state with the curvature at θ, scaled along the last step if scores contradict it."""
    if state.family.classes:
        return state
    curvature = _model_curvature(state, state.theta)
    if not state.scores:
        return state._replace(curvature=curvature)
    is_linear, before = state.family.is_linear, state.curvature
    move, std = state.theta - state.points[-1], float(state.stds[-1])
    followed = len(move) * tuning_of(state.family).step_size * state.step_stds[-1] * std
    decrease = float(move @ (state.scores[-1] - released.value)) - followed
    expected, length = float(move @ (before + curvature) @ move) / 2, float(np.linalg.norm(move))
    is_sure = abs(decrease - expected) > _SURE * np.hypot(std, float(released.std)) * length
    is_flatter = decrease < expected / _OFF and (is_linear or length < _SHORT)
    if not is_sure or length == 0 or not (decrease > expected * _OFF or is_flatter):
        return state._replace(curvature=curvature)
    unit, factor = move / length, float(np.clip(decrease / max(expected, _TINY), *_SCALES))
    scales = ((unit, factor),) if is_linear or factor > 1 else ()
    return state._replace(curvature=_scaled(curvature, unit, factor), scales=(*state.scales, *scales))


def _scaled(curvature: FloatArray, unit: FloatArray, factor: float) -> FloatArray:
    """Return a curvature (d, d) scaled by a factor along a unit vector."""
    return np.asarray(curvature + (factor - 1) * float(unit @ curvature @ unit) * np.outer(unit, unit))


def _taken(curvatures: FloatArray, ridge: float) -> float:
    return float((1 - ridge / curvatures).mean())


def _root_mean_square(values: FloatArray) -> float:
    return float(np.sqrt((values**2).mean()))
