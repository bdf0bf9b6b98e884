"""Steps of generalized linear models on white rows, by released means of scores clipped to norm C: 2C/n."""

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.mechanisms.clip_levels import GLMLevels
from dpalgos.models.normal_curvature import newton_step
from dpalgos.models.secant_curvature import SecantCurvature
from dpalgos.models.whitened_scores import WhitenedScores
from dpalgos.release.transcript import Transcript
from dpalgos.steps.clipping import ball_mean_sensitivity
from dpalgos.steps.denoising import ReleasedSteps
from dpalgos.typing import FloatArray


def scored_steps(
    transcript: Transcript,
    budget: SplitBudget,
    scores: WhitenedScores,
    levels: GLMLevels,
    center: FloatArray,
    theta: FloatArray,
    n_steps: int,
    step_size: float = 1.0,
    ridge_factor: float = 0.5,
) -> tuple[ReleasedSteps, ReleasedSteps]:
    """Release ``n_steps`` scores, the first at θ (d, R) or (d, K, R); also return full Newton-like steps.

    ``center`` (d, R) is the mean white row, ``budget`` has a part "step t" for each step t. An iterate moves
    by ``step_size`` of a full step, and by at most 1 where ψ'' has no bound; curvature is corrected by the
    scores that are released, but for classes, and raised by ``ridge_factor`` times √d of the noise. Where the
    constant's part of a score is kept, that of a step is the mean of those at its two ends; not of the first,
    after which levels are searched again. Full steps are those of flat θ, as "gradients", with the standard
    deviation of their noise.
    """
    family, sample = scores.family, scores.sample
    origin = np.broadcast_to(scores.origin, scores.shape)[-1] + scores.typical_offset
    secant = None if family.classes else SecantCurvature(family, center, origin)
    points, gradients, stds, full, full_stds = [], [], [], [], []
    for t in range(n_steps):
        at = scores.at(theta)
        level = np.maximum(levels.scores(at, t), scores.least_level)
        sensitivity = ball_mean_sensitivity(level, sample.n_rows)
        multiplier = budget.gaussian_multiplier(f"step {t}")
        released = transcript.gaussian(
            at.clipped_mean(level).reshape(-1, sample.n_replicates),
            l2_sensitivity=sensitivity,
            noise_multiplier=multiplier,
            label="preconditioned score",
        )
        noise_std = multiplier * sensitivity
        # Gaussian responses have no unit, and a constant curvature.
        ridge = (not family.is_linear) * ridge_factor * np.sqrt(sample.n_features) * noise_std
        score = released.reshape(theta.shape)
        curvature = None if secant is None else secant.at(theta, score, noise_std)
        step, amplification = newton_step(family, theta, center, score, ridge, origin, curvature)
        if secant is not None and curvature is not None and t > 0 and scores.constant is not None:
            between = (curvature + secant.model(theta + step)) / 2
            step, amplification = newton_step(family, theta, center, score, ridge, origin, between)
        if secant is not None:
            secant.moved(len(theta) * step_size * amplification * noise_std**2)
        full.append(step.reshape(released.shape))
        full_stds.append(amplification * noise_std)
        step = step_size * step
        if not np.isfinite(family.curvature_bound):
            step = step / np.maximum(np.linalg.norm(step, axis=0), 1)
        points.append(theta)
        gradients.append(released.reshape(theta.shape))
        stds.append(transcript.noise_std(sensitivity, multiplier, len(released)))
        theta = theta + step
    steps = ReleasedSteps(np.array(points), np.array(gradients), np.array(stds), level, theta)
    flat, end = np.array(points).reshape(n_steps, *released.shape), theta.reshape(released.shape)
    return steps, ReleasedSteps(flat, np.array(full), np.array(full_stds), level, end)
