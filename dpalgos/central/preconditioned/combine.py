"""The estimate from the released steps: their combination, shrunk by the noise. Nothing here reads a row.

    θ̄ = Σ_t w_t (θ_t + step_t),   weights of least variance
    (:func:`dpalgos.models.newton_steps.combination_weights`)

James–Stein shrinks slopes, orthogonal to the intercept, by the part that noise explains. For events and
counts, it shrinks the change that steps made to the intercept in the same way. Each direction that a further
whitening leaves unresolved has a factor of its own.

The noise of a step stays in all later ones as far as they are damped. The ridge of a Newton step takes only a
part of it. Slopes stand out if A = ‖slopes‖² is at least twice V, the variance that noise explains. If they
do not, they are 0. The probability that slopes predict better than the intercept alone is 1/(1 + e^−u),

    u = a + b log(A/V),   (a, b) fitted once on public tables, for each kind of family
"""

import numpy as np
import scipy

from dpalgos.central.preconditioned.newton import State
from dpalgos.central.preconditioned.plan import FitPlan
from dpalgos.models.newton_steps import NewtonSteps, combination_weights
from dpalgos.models.shrinkage import james_stein
from dpalgos.typing import FloatArray

_ENTRY_VARIANCE = 1 / 200  # the whitening is right to 7 %
_OWN_VARIANCE = 0.02  # of steps that are not linear
_NOT_NORMAL = 0.3  # of what slopes add to a mean, where rows are not normal
_CLIPPED = 0.3  # of the share of clipped scores: how far they move the logarithm of a mean of counts
_TINY = float(np.finfo(float).tiny)
_STANDS_OUT = 2.0  # A/V
_HELP = {"linear": (0.27, 0.54), "events": (-0.87, 1.88), "counts": (-0.71, 0.69)}  # (a, b)
_LEAST_OF_EVENTS = 0.7  # the same as the next line, for bounded residuals
_LEAST_CURVATURE = 0.5  # that is counted with where rows are clipped, and of directions below the floor


def combined_estimate(
    state: State, plan: FitPlan, start_variance: float, clipped_share: float, *, intercept: bool
) -> tuple[FloatArray, float, bool]:
    """Return white coefficients, the probability that slopes help, and whether they stand out of noise.

    ``start_variance`` is that of the noise in the start, and about a ``clipped_share`` of rows is clipped.
    """
    family, white = state.family, state.white
    least = _LEAST_OF_EVENTS if family.is_bounded else _LEAST_CURVATURE
    known: FloatArray = float(np.mean(state.damping)) * np.maximum(white.curvature, least)
    if family.is_linear:
        # After one whitening, what lies below the floor is as likely signal as noise.
        known = np.maximum(white.curvature, 0.0 if state.is_whitened else _LEAST_CURVATURE)
        known = known * max(1 - clipped_share, _LEAST_CURVATURE)
    middle, variance = combined(
        state.full_steps.last(plan.n_steps - plan.n_left_out),
        np.tile(known, int(np.prod(family.classes))),
        start_variance,
        own_variance=0.0 if family.is_linear else _OWN_VARIANCE,
    )
    if family.classes:
        return james_stein(middle[:, None], variance[0])[:, 0].reshape(state.theta.shape), np.nan, True
    one = white.one / np.linalg.norm(white.one)
    constant = one * (one @ middle) if intercept else np.zeros_like(middle)
    along = white.directions.T @ (middle - constant)
    squares, explained = float(along @ along), float(variance.sum())
    stand_out = not intercept or squares >= _STANDS_OUT * explained
    shrunk = _shrunk_directions(along, variance, known) if stand_out else np.zeros_like(along)
    size, kept = max(float(np.linalg.norm(along)), _TINY), float(np.linalg.norm(shrunk))
    if family.has_counts and state.mean is not None:
        own_variance = float(one**2 @ variance) + (_CLIPPED * clipped_share) ** 2
        constant = one * _intercept_of_counts(state, float(one @ middle), own_variance, size, kept)
    elif not family.is_linear:  # without slopes it is the intercept that steps began with
        constant = constant * (kept / size)
    kind = "linear" if family.is_linear else "counts" if family.has_counts else "events"
    first, slope = _HELP[kind]
    slopes_help = scipy.special.expit(first + slope * np.log(max(squares, _TINY) / max(explained, _TINY)))
    return np.asarray(constant + white.directions @ shrunk), float(slopes_help), stand_out


def combined(
    steps: NewtonSteps, curvature: FloatArray, start_variance: float, own_variance: float
) -> tuple[FloatArray, FloatArray]:
    """Return the combination of steps (d,), and the variance that noise leaves in each direction, (d,).

    ``curvature`` (d,) is h, 0 to 1, of each of some orthonormal directions. A later step leaves 1 − h of a
    step's noise, and of the start's.
    """
    n_steps = len(steps.points)
    weights = combination_weights(steps, _ENTRY_VARIANCE, own_variance)
    combined = weights @ (steps.points + steps.gradients)
    age = np.subtract.outer(np.arange(n_steps), np.arange(n_steps))
    keeps = 1 - curvature
    left = np.where(age >= 0, keeps[:, None, None] ** np.maximum(age, 0), 0.0)
    variance = np.einsum("t,dtu->du", weights, left) ** 2 @ steps.stds**2
    start = keeps[:, None] ** (np.arange(n_steps) + 1) @ weights
    return combined, variance + start**2 * start_variance


def _intercept_of_counts(
    state: State, by_steps: float, variance: float, before: float, after: float
) -> float:
    """Return the intercept along a unit vector: the mean, by precision, of two estimates.

    One is by the steps, whose slopes had the norm ``before``. Its ``variance`` allows for clipped scores. One
    is by the released mean response. Slopes of norm s add s²/2 to the logarithm of the mean of normal rows:
    ``after`` is their norm after shrinkage.
    """
    assert state.mean is not None
    by_mean = state.mean.predictor - float(state.origin) - after**2 / 2
    own = (state.mean.std / state.mean.mean) ** 2 + (_NOT_NORMAL * after**2 / 2) ** 2
    by_steps = by_steps + (before**2 - after**2) / 2
    return (own * by_steps + variance * by_mean) / (own + variance)


def _shrunk_directions(released: FloatArray, variance: FloatArray, curvature: FloatArray) -> FloatArray:
    """Return released coordinates along directions (d,), shrunk by what noise of ``variance`` explains.

    Directions of curvature 1 share one James–Stein factor. Each of the others has its own,
    τ²/(τ² + variance), τ² = the mean of released² − variance among them, or 0 if that is negative: a small
    curvature leaves much noise.
    """
    doubtful, tiny = curvature < 1, float(np.finfo(float).tiny)
    factor = np.ones_like(released)
    if doubtful.any():
        signal = max(float((released**2 - variance)[doubtful].mean()), 0.0)
        factor[doubtful] = signal / np.maximum(signal + variance[doubtful], tiny)
    if size := int((~doubtful).sum()):
        resolved = max(float((released[~doubtful] ** 2).sum()), tiny)
        part = max(size - 2, 0) / size
        factor[~doubtful] = max(0.0, 1 - part * float(variance[~doubtful].sum()) / resolved)
    return released * factor
