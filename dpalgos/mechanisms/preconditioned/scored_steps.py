"""Steps of generalized linear models on white rows, by released means of scores clipped to norm C: 2C/n.

As in linear models (:mod:`dpalgos.mechanisms.preconditioned.gradient_steps`) a first step may whiten the rows
again in its place.
"""

from typing import NamedTuple

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.mechanisms.clip_levels import GLMLevels
from dpalgos.mechanisms.preconditioned.gradient_steps import mean_of_step, step_sensitivity
from dpalgos.mechanisms.private_whitening import Whitening
from dpalgos.models.normal_curvature import newton_step
from dpalgos.models.secant_curvature import SecantCurvature
from dpalgos.models.whitened_scores import WhitenedScores
from dpalgos.release.transcript import Transcript
from dpalgos.steps.denoising import ReleasedSteps
from dpalgos.typing import FloatArray

SCORE = "preconditioned score"  # or moments of whitened rows in its place
_UNKNOWN = 0.08  # doubt of a direction from which rows are whitened again: steps come from farther away


class ScoredSteps(NamedTuple):
    """Steps as released, and full steps in the place of scores; rows and their last whitening."""

    steps: ReleasedSteps
    full: ReleasedSteps
    scores: WhitenedScores
    white: Whitening


def scored_steps(
    transcript: Transcript,
    budget: SplitBudget,
    scores: WhitenedScores,
    white: Whitening,
    levels: GLMLevels,
    theta: FloatArray,
    n_steps: int,
    step_size: float = 1.0,
    ridge_factor: float = 0.5,
    n_whitenings: int = 0,
) -> ScoredSteps:
    """Release ``n_steps`` scores, the first at θ (d, R) or (d, K, R).

    ``budget`` has a part "step t" for each step t; ``n_whitenings`` of the first may whiten again. An iterate
    moves by ``step_size`` of a full step, and by at most 1 where ψ'' has no bound; curvature is corrected by
    the scores that are released, but for classes, and raised by ``ridge_factor`` times √d of the noise. Where
    the constant's part of a score is kept, that of a step is the mean of those at its two ends; not of the
    first, after which levels are searched again. Full steps are those of flat θ, as "gradients", with the
    standard deviation of their noise.
    """
    family, sample = scores.family, scores.sample
    d, size = sample.n_features, theta[..., 0].size
    origin = np.broadcast_to(scores.origin, scores.shape)[-1] + scores.typical_offset
    center = white.mean_row
    secant = None if family.classes else SecantCurvature(family, center, origin)
    points, gradients, stds, full, full_stds = [], [], [], [], []
    for t in range(n_steps):
        multiplier = budget.gaussian_multiplier(f"step {t}")
        may_whiten = t < n_whitenings
        whitens = white.hides(multiplier, sample.n_rows, least=_UNKNOWN) & may_whiten
        at = scores.at(theta)
        level = levels.scores(at, t, whitens)
        level = np.where(whitens, level, np.maximum(level, scores.least_level))
        sensitivity = step_sensitivity(level, sample.n_rows, whitens)
        released = transcript.gaussian(
            mean_of_step(scores, at, level, whitens) if may_whiten else _flat(at.clipped_mean(level)),
            l2_sensitivity=sensitivity,
            noise_multiplier=multiplier,
            label=SCORE,
        )
        noise_std, std = (
            multiplier * sensitivity,
            transcript.noise_std(sensitivity, multiplier, len(released)),
        )
        score = np.where(whitens, 0.0, released[:size]).reshape(theta.shape)
        if whitens.any():
            white, theta = white.again(whitens, released, std, theta)
            scores, center = scores.on(white.matrix), white.mean_row
            if secant is not None:
                secant.moved_to(theta, center)
        # Gaussian responses have no unit, and a constant curvature.
        ridge = (not family.is_linear) * ridge_factor * np.sqrt(d) * noise_std
        curvature = None if secant is None else secant.at(theta, score, noise_std)
        step, amplification = newton_step(family, theta, center, score, ridge, origin, curvature)
        if secant is not None and curvature is not None and t > 0 and scores.constant is not None:
            between = (curvature + secant.model(theta + step)) / 2
            step, amplification = newton_step(family, theta, center, score, ridge, origin, between)
        if secant is not None:
            own = np.where(whitens, 0.0, len(theta) * step_size * amplification * noise_std**2)
            secant.moved(own)
        full.append(_flat(step))
        full_stds.append(np.where(whitens, np.inf, amplification * noise_std))
        step = step_size * step
        if not np.isfinite(family.curvature_bound):
            step = step / np.maximum(np.linalg.norm(step, axis=0), 1)
        points.append(theta)
        gradients.append(score)
        stds.append(np.where(whitens, np.inf, std))
        theta = theta + step
    steps = ReleasedSteps(np.array(points), np.array(gradients), np.array(stds), level, theta)
    flat = np.array(points).reshape(n_steps, size, -1)
    full_steps = ReleasedSteps(flat, np.array(full), np.array(full_stds), level, _flat(theta))
    return ScoredSteps(steps, full_steps, scores, white)


def _flat(theta: FloatArray) -> FloatArray:
    return theta.reshape(-1, theta.shape[-1])
