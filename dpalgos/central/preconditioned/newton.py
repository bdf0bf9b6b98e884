"""Newton steps on white rows, from released scores and moments. Nothing here reads a row.

A step goes by the curvature of the loss if rows were normal (:mod:`dpalgos.models.normal_curvature`), plus √d
times the noise, so that noise does not throw θ far. In linear models, clipped or rare rows make it wrong along some
directions: steps then swing about the answer or creep towards it. With m = θ_t − θ_{t−1}, two released scores say

    m'(g_{t−1} − g_t) = m' H m + s² tr(H⁻¹) ± s ‖m‖ √2,   s the noise of a score,

the second term since m follows g_{t−1}. Where that differs from the model by three standard deviations and a factor
of 1.5, H is scaled along m. For events, whose curvature falls or rises along a step,
it is the mean of the curvatures at both ends; the far end counts as far as noise does not explain it. A step of
counts is at most 1 long, since ψ'' has no bound.

Each of the first steps may whiten the rows again in its place. It does so where columns vary far less or more
than their units, or for an interval, and released moments leave a direction unknown that new ones would show:
once, and again where scores of earlier steps show that such a direction matters. Otherwise a direction in
which only a rare group differs would be stretched for nothing. The decision follows from released numbers.
"""

from dataclasses import dataclass, replace

import numpy as np

from dpalgos.central.preconditioned.plan import FitPlan, tuning_of
from dpalgos.central.preconditioned.whitening import Whitening
from dpalgos.models.families import Family
from dpalgos.models.newton_steps import NewtonSteps
from dpalgos.models.normal_curvature import normal_curvature
from dpalgos.release.spend import Noisy
from dpalgos.steps.denoising import james_stein
from dpalgos.typing import FloatArray

_SPREAD = 3.0  # times √d and the spread of residuals: about the threshold of scores
_RAREST = 0.1  # a class counts as at least this share of an even one
_FLATTEST = 0.05  # of the largest curvature
_SURE, _OFF, _SCALES = 3.0, 1.5, (0.5, 10.0)  # standard deviations; factors by which a curvature is wrong


@dataclass(frozen=True, eq=False, kw_only=True)
class State:
    """What is known between releases: released numbers only.

    Attributes
    ----------
    family : Family
    n_rows : float
    white : Whitening
    theta : (d,) or (d, K) array
        White coefficients.
    origin : () or (K,) array
        The predictor at θ = 0 of a row of ones, with a typical offset.
    secant : (d, d) array or None
        The curvature of a linear model as scores showed it; None: I.
    points, steps : tuples of arrays
        Points so far and the full Newton steps from them, in the present coordinates.
    step_stds : tuple of float
        The noise in the steps.
    scores, stds
        The scores released at the points since the last whitening, and the noise in them.
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
    secant: FloatArray | None = None
    points: tuple[FloatArray, ...] = ()
    scores: tuple[FloatArray, ...] = ()
    steps: tuple[FloatArray, ...] = ()
    stds: tuple[float, ...] = ()
    step_stds: tuple[float, ...] = ()
    threshold: float | None = None
    is_whitened: bool = False
    matters: bool = False

    def wants_whitening(self, plan: FitPlan, t: int, noise_multiplier: float) -> bool:
        """Return whether step t whitens the rows again."""
        if t >= plan.n_whitenings or not (self.matters or self.white.has_large or not self.is_whitened):
            return False
        return self.white.hides_directions(noise_multiplier, self.n_rows, for_interval=plan.for_interval)

    def whitened(self, released: Noisy) -> "State":
        """Return the state after a release of the moments (d, d) of white rows."""
        white = self.white.refined(released)
        moved = np.linalg.solve(white.matrix, self.white.matrix)
        return replace(
            self,
            white=white,
            theta=moved @ self.theta,
            is_whitened=True,
            points=tuple(moved @ point for point in self.points),
            steps=tuple(moved @ step for step in self.steps),
            secant=None,
            scores=(),
            stds=(),
        )

    def stepped(self, released: Noisy, threshold: float) -> "State":
        """Return the state after a release of the mean score, clipped to ``threshold``, at θ."""
        score, std = released.value, float(released.std)
        d, tuning = len(score), tuning_of(self.family)
        sampling = threshold / (_SPREAD * np.sqrt(d * self.n_rows))
        state = replace(self, secant=_secant(self, released)) if self.family.is_linear else self
        full, gain = newton_step(state, released, tuning.step_ridge * float(np.sqrt(d)) * std)
        step = tuning.step_size * full
        if self.family.has_counts:
            step = step / max(float(np.linalg.norm(step)), 1.0)
        return replace(
            state,
            theta=self.theta + step,
            points=(*self.points, self.theta),
            scores=(*self.scores, score),
            steps=(*self.steps, full),
            stds=(*self.stds, std),
            step_stds=(*self.step_stds, gain * std),
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


def newton_step(state: State, released: Noisy, ridge: float) -> tuple[FloatArray, float]:
    """Return (H(θ) + ridge)⁻¹ score, and the root mean square factor on isotropic noise."""
    family, theta, center, score = state.family, state.theta, state.white.mean_row, released.value
    if family.classes:
        p = family.mean((center @ theta + state.origin)[None, :, None])[0, :, 0]
        of_classes = np.maximum(p, _RAREST / len(p)) + ridge
        scaled = score / of_classes
        return scaled - scaled.mean(axis=1, keepdims=True), _root_mean_square(1 / of_classes)
    if family.is_linear and state.secant is None:
        return score / (1 + ridge), 1 / (1 + ridge)

    def step(curvature: FloatArray) -> tuple[FloatArray, float]:
        curvatures, axes = np.linalg.eigh(curvature)
        curvatures = np.maximum(curvatures, _FLATTEST * curvatures[-1]) + ridge
        return axes @ (axes.T @ score / curvatures), _root_mean_square(1 / curvatures)

    if state.secant is not None:
        return step(state.secant)
    origin = float(state.origin)
    curvature = normal_curvature(family, theta, center, origin)
    found, gain = step(curvature)
    if family.has_events and state.points:
        noise = np.asarray((gain * float(released.std)) ** 2)
        end = theta + james_stein(found[:, None], noise)[:, 0]
        found, gain = step((curvature + normal_curvature(family, end, center, origin)) / 2)
    return found, gain


def _secant(state: State, released: Noisy) -> FloatArray | None:
    """Return the curvature of a linear model, scaled along the last step if two scores contradict it."""
    if not state.scores:
        return state.secant
    move, curvature = state.theta - state.points[-1], state.secant
    if curvature is None:
        curvature = np.eye(len(move))
    before = float(state.stds[-1])
    followed = float(np.trace(np.linalg.inv(curvature))) * before**2
    found = float(move @ (state.scores[-1] - released.value)) - followed
    expected, length = float(move @ curvature @ move), float(np.linalg.norm(move))
    sure = abs(found - expected) > _SURE * np.hypot(before, float(released.std)) * length
    if not sure or length == 0 or expected / _OFF <= found <= expected * _OFF:
        return state.secant
    unit = move / length
    change = float(np.clip(found / expected, *_SCALES) - 1) * float(unit @ curvature @ unit)
    return np.asarray(curvature + change * np.outer(unit, unit))


def _root_mean_square(values: FloatArray) -> float:
    return float(np.sqrt((values**2).mean()))
