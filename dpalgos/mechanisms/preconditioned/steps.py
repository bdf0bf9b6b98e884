"""Newton-like steps on white rows, by released means of scores clipped to norm C: 2C/n.

Each of the first steps may whiten the rows again in its place: √2 C²/n, of white rows clipped to norm C. It
does so where columns vary far less or more than their units, or for an interval, and released moments leave a
direction unknown that new ones would show
(:meth:`dpalgos.mechanisms.preconditioned.whitening.Whitening.hides`): once, and again where scores of steps
before show that such a direction matters, lest one in which only a rare group differs is stretched for
nothing. The decision follows from what was released before, and both releases have the same noise for a
sensitivity of 1, so that either costs the same. A replicate whose rows are whitened takes no step: it counts
as one of infinite noise.

A step goes by the curvature of the loss if rows were normal (:mod:`dpalgos.models.normal_curvature`),
corrected where released scores say otherwise (:mod:`dpalgos.models.secant_curvature`), and raised by √d times
the noise, lest that throw θ far; by at most 1 where ψ'' has no bound. For events, whose curvature falls or
rises along a step, it is the mean of those at both ends, the far end as far as noise does not explain it.
"""

from typing import NamedTuple

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.mechanisms.preconditioned.levels import Levels
from dpalgos.mechanisms.preconditioned.plan import FitPlan
from dpalgos.mechanisms.preconditioned.whitening import Whitening, clipped_second_moments
from dpalgos.mechanisms.sensitivity import ball_mean, outer_product
from dpalgos.models.normal_curvature import newton_step
from dpalgos.models.secant_curvature import SecantCurvature
from dpalgos.models.white_rows import ScoresAt, WhiteRows
from dpalgos.release.transcript import Transcript
from dpalgos.steps.denoising import ReleasedSteps
from dpalgos.steps.moments import svec
from dpalgos.typing import BoolArray, FloatArray

SCORE = "preconditioned score"  # or moments of white rows in its place
_LEVEL = 3.0  # times √d and the spread of residuals, about, of scores


class Steps(NamedTuple):
    """Steps as released, and full steps in the place of scores, flat; rows and their last whitening.

    ``is_whitened`` (R,) says whether rows were whitened again.
    """

    released: ReleasedSteps
    full: ReleasedSteps
    rows: WhiteRows
    white: Whitening
    is_whitened: BoolArray


def step_sensitivity(level: FloatArray, n_rows: FloatArray, whitens: BoolArray) -> FloatArray:
    """Return 2C/n of a mean of scores, √2 C²/n of one of moments where it ``whitens``, C = ``level`` (R,).

    A mean of scores has zeros where that of moments has more entries, which no row moves.
    """
    return np.where(whitens, outer_product(level, n_rows), ball_mean(level, n_rows))


def released_steps(
    transcript: Transcript,
    budget: SplitBudget,
    plan: FitPlan,
    rows: WhiteRows,
    white: Whitening,
    levels: Levels,
    theta: FloatArray,
) -> Steps:
    """Release a plan's steps, the first at θ (d, R) or (d, K, R); ``budget`` has a part "step t" for each."""
    family, n_rows = rows.family, rows.sample.n_rows
    d, size = rows.sample.n_features, theta[..., 0].size
    origin = np.broadcast_to(rows.origin, rows.shape)[-1] + rows.typical_offset
    center = white.mean_row
    secant = None if family.classes else SecantCurvature(family, center, origin)
    points, scores, stds, full, full_stds = [], [], [], [], []
    is_whitened: BoolArray = np.zeros(len(n_rows), dtype=bool)
    matters = white.has_large
    for t in range(plan.n_steps):
        multiplier, may_whiten = budget.gaussian_multiplier(f"step {t}"), t < plan.n_whitenings
        whitens: BoolArray = np.zeros(len(n_rows), dtype=bool)
        if may_whiten:
            hides = white.hides(multiplier, n_rows, for_interval=plan.for_interval)
            whitens = hides & (matters | ~is_whitened)
        at = rows.at(theta)
        level = levels.step(at, t, whitens)
        sensitivity = step_sensitivity(level, n_rows, whitens)
        released = transcript.gaussian(
            mean_of_step(rows, at, level, whitens, may_whiten),
            l2_sensitivity=sensitivity,
            noise_multiplier=multiplier,
            label=SCORE,
        )
        std = transcript.noise_std(sensitivity, multiplier, len(released))
        score = np.where(whitens, 0.0, released[:size]).reshape(theta.shape)
        if may_whiten:
            sampling = level / (_LEVEL * np.sqrt(d * n_rows))
            matters = matters | white.matters(score, np.hypot(std, sampling))
        if whitens.any():
            white, theta = white.again(whitens, released, std, theta)
            rows, center, is_whitened = rows.on(white.matrix), white.mean_row, is_whitened | whitens
            if secant is not None:
                secant.moved_to(theta, center)
        ridge = family.step_ridge * np.sqrt(d) * std
        curvature = None if secant is None else secant.at(theta, score, std)
        step, gain = newton_step(family, theta, center, score, ridge, origin, curvature)
        if curvature is not None and secant is not None and family.has_events and t > 0:
            curvature = secant.over(step, gain * std, curvature)
            step, gain = newton_step(family, theta, center, score, ridge, origin, curvature)
        if secant is not None:
            secant.moved(np.where(whitens, 0.0, d * family.step_size * gain * std**2))
        points.append(theta)
        scores.append(score)
        stds.append(np.where(whitens, np.inf, std))
        full.append(step.reshape(size, -1))
        full_stds.append(np.where(whitens, np.inf, gain * std))
        step = family.step_size * step
        if family.has_counts:
            step = step / np.maximum(np.linalg.norm(step, axis=0), 1)
        theta = theta + step
    made = ReleasedSteps(np.array(points), np.array(scores), np.array(stds), level, theta)
    flat = made.points.reshape(plan.n_steps, size, -1), np.array(full), np.array(full_stds)
    return Steps(made, ReleasedSteps(*flat, level, theta.reshape(size, -1)), rows, white, is_whitened)


def mean_of_step(
    rows: WhiteRows, at: ScoresAt, level: FloatArray, whitens: BoolArray, may_whiten: bool
) -> FloatArray:
    """Return a mean of clipped scores, flat, or of moments of clipped rows where it ``whitens``.

    Zeros make up the length of the moments where the step ``may_whiten``.
    """
    d, n_replicates = rows.sample.n_features, rows.sample.n_replicates
    size = d * int(np.prod(rows.family.classes))
    if not may_whiten:
        return at.clipped_mean(level).reshape(size, n_replicates)
    mean = np.zeros((max(d * (d + 1) // 2, size), n_replicates))
    if not whitens.all():
        mean[:size] = at.clipped_mean(level).reshape(size, n_replicates)
    if whitens.any():
        total = clipped_second_moments(rows.sample.grouped(lambda group: group.X), level, rows.whitening)
        moments = svec(total / rows.sample.n_rows[:, None, None])
        mean = np.where(whitens, 0.0, mean)
        mean[: len(moments)] += np.where(whitens, moments, 0.0)
    return mean
