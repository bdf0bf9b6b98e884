"""Steps of regressions on white rows, each on a released mean of scores clipped to norm C: 2C/n."""

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.mechanisms.clip_levels import GLMLevels, RegressionLevels
from dpalgos.models.normal_curvature import newton_step
from dpalgos.models.whitened_scores import WhitenedScores
from dpalgos.release.transcript import Transcript
from dpalgos.steps.clipping import ball_mean_sensitivity
from dpalgos.steps.denoising import ReleasedSteps
from dpalgos.typing import FloatArray


def gradient_steps(
    transcript: Transcript,
    budget: SplitBudget,
    rows: WhitenedScores,
    levels: RegressionLevels,
    theta: FloatArray,
    n_steps: int,
    step_size: float,
) -> ReleasedSteps:
    """Release the gradients of ``n_steps`` steps of least squares, the first at θ (d, R)."""
    points, gradients, stds = [], [], []
    for t in range(n_steps):
        at = rows.at(theta)
        level = levels.gradients(at, t)
        sensitivity = ball_mean_sensitivity(level, rows.sample.n_rows)
        multiplier = budget.gaussian_multiplier(f"step {t}")
        released = transcript.gaussian(
            at.clipped_mean(level),
            l2_sensitivity=sensitivity,
            noise_multiplier=multiplier,
            label="preconditioned gradient",
        )
        points.append(theta)
        gradients.append(released)
        stds.append(transcript.noise_std(sensitivity, multiplier, len(released)))
        theta = theta + step_size * released
    return ReleasedSteps(np.array(points), np.array(gradients), np.array(stds), level, theta)


def scored_steps(
    transcript: Transcript,
    budget: SplitBudget,
    scores: WhitenedScores,
    levels: GLMLevels,
    center: FloatArray,
    theta: FloatArray,
    n_steps: int,
    step_size: float = 1.0,
) -> tuple[ReleasedSteps, ReleasedSteps]:
    """Release ``n_steps`` scores, the first at θ (d, R) or (d, K, R); also return full Newton-like steps.

    ``center`` (d, R) is the mean white row, ``budget`` has a part "step t" for each step t. An iterate moves
    by ``step_size`` of a full step, and by at most 1 where ψ'' has no bound. Full steps are those of flat θ,
    as "gradients", with the standard deviation of their noise.
    """
    family, sample = scores.family, scores.sample
    points, gradients, stds, full, full_stds = [], [], [], [], []
    for t in range(n_steps):
        at = scores.at(theta)
        level = levels.scores(at, t)
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
        ridge = 0 * noise_std if family.is_linear else np.sqrt(sample.n_features) / 2 * noise_std
        step, amplification = newton_step(family, theta, center, released.reshape(theta.shape), ridge)
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
