"""Noisy gradient steps of a generalized linear model on the columns that each replicate has selected.

    β ← β + η (mean of h(x_i) r_i(β) + noise),   t = 1 … T,   from β = 0;   the mean of the last iterates

h shortens a selected row to ℓ2 norm c₂ and r is a residual of at most L(a) in magnitude
(:class:`dpalgos.models.selected_scores.SelectedScores`). β is public when a step begins: one Gaussian release
each, of sensitivity :func:`step_sensitivity`.
"""

from collections.abc import Sequence

import numpy as np

from dpalgos.models.selected_scores import SelectedScores
from dpalgos.release.transcript import Transcript
from dpalgos.typing import FloatArray


def step_sensitivity(largest_residual: FloatArray, radius: float, n_rows: FloatArray) -> FloatArray:
    """Return how far replacing a row moves a step's mean in ℓ2: 2 c₂ L / n.

    A row contributes a vector of norm at most c₂ L. Attained by opposite x_S of norm c₂ with the same
    residual: at β = 0 by the same y; later where the residual is clipped on both, else approached by rows
    nearly at a right angle to β.
    """
    return np.asarray(2 * radius * largest_residual / n_rows)


def selected_steps(
    selected: SelectedScores,
    noise_multipliers: Sequence[float],
    transcript: Transcript,
    *,
    radius: float,
    step_size: float,
    curvature: float,
    n_averaged: int,
) -> tuple[FloatArray, FloatArray]:
    """Return coefficients (k, R) after a step for each multiplier, and their noise's standard deviation (R,).

    ``curvature`` is what the loss has at 0 in a typical coordinate, by which later steps take away noise.
    """
    n_rows, n_steps = selected.sample.n_rows, len(noise_multipliers)
    coef, average = np.zeros(selected.support.shape), np.zeros(selected.support.shape)
    variance = np.zeros(len(n_rows))
    contraction, averaged = max(0.0, 1 - step_size * curvature), np.arange(n_steps - n_averaged, n_steps)
    for t, noise_multiplier in enumerate(noise_multipliers):
        sensitivity = step_sensitivity(selected.largest_residual(coef), radius, n_rows)
        score = transcript.gaussian(
            selected.mean_score(coef, radius),
            l2_sensitivity=sensitivity,
            noise_multiplier=noise_multiplier,
            label="step",
        )
        coef = coef + step_size * score
        if t in averaged:
            average += coef / n_averaged
        # What is left of this step's noise in the average, if every later step takes away its usual part.
        left = np.sum(contraction ** (averaged[averaged >= t] - t)) / n_averaged
        variance += (left * step_size * noise_multiplier * sensitivity) ** 2
    return average, np.sqrt(variance)
