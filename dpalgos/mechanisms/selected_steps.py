"""Noisy gradient steps of a generalized linear model on the columns that each replicate has selected.

    β ← β + η (mean of h(x_i) r_i(β) + noise),   t = 1 … T,   from β = 0;   the mean of the last iterates

h shortens a selected row to ℓ2 norm c₂ and r is a residual of at most L(a) in magnitude
(:class:`SelectedScores`). β is public when a step begins: one Gaussian release each, of sensitivity 2 c₂ L/n.
Opposite rows of norm c₂ with the same residual attain it. At β = 0 they have the same y. Later the residual
is clipped on both, or rows nearly at a right angle to β approach it.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from dpalgos.mechanisms.sensitivity import ball_mean
from dpalgos.models.families import Family
from dpalgos.release.declared import Release
from dpalgos.release.spend import Spend
from dpalgos.release.transcript import Transcript
from dpalgos.rows.clipping import clip_factor
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design
from dpalgos.typing import BoolArray, FloatArray, IntArray

T = TypeVar("T")


class SelectedScores:
    """The selected columns ``support`` (k, R) of each replicate's rows, and bounded residuals on them.

    Entries of X are truncated to ± ``covariate_bound``, predictors to ``predictor_bound``: β (k, R) → (R,).
    """

    def __init__(
        self,
        sample: Sample,
        support: IntArray,
        family: Family,
        covariate_bound: float,
        predictor_bound: Callable[[FloatArray], FloatArray],
    ) -> None:
        self.sample, self.support, self._family, self._bound = sample, support, family, predictor_bound
        self._y = family.encode(sample.response())
        design = Design(sample, covariate_bound, single=True)
        mask = sample.row_mask
        self._rows: list[slice | BoolArray] = [
            slice(None) if mask is None else mask[:, r] for r in range(sample.n_replicates)
        ]
        self._X = [design.columns(support[:, r])[rows] for r, rows in enumerate(self._rows)]

    def largest_residual(self, coef: FloatArray) -> FloatArray:
        """Return L(a), (R,)."""
        return self._family.largest_residual(self._bound(coef))

    def residual(self, coef: FloatArray, r: int) -> FloatArray:
        """Return y − ψ'(u) of a replicate's rows at the truncated predictors, (n_r,)."""
        a, largest = self._bound(coef)[r], self.largest_residual(coef)[r]
        u = np.clip(self._X[r].astype(float, copy=False) @ coef[:, r], -a, a)[:, None]
        return np.clip(-self._family.residual(u, self._y[self._rows[r]])[:, 0], -largest, largest)

    def mean_score(self, coef: FloatArray, radius: float) -> FloatArray:
        """Return the mean of h(x_i) r_i(β), where h clips rows to the norm ``radius``, (k, R)."""
        score = np.empty_like(coef)
        for r, X in enumerate(self._X):
            Z = X.astype(float, copy=False)
            weights = clip_factor(np.linalg.norm(Z, axis=1), radius)
            score[:, r] = Z.T @ (weights * self.residual(coef, r))
        return score / self.sample.n_rows


STEP = Release("step", "the rest", ball_mean)


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
        spend = Spend.of_multipliers(transcript, {STEP.label: noise_multiplier})
        largest = radius * selected.largest_residual(coef)
        score, std = spend(STEP, selected.mean_score(coef, radius), largest, n_rows)
        coef = coef + step_size * score
        if t in averaged:
            average += coef / n_averaged
        # What is left of this step's noise in the average, if every later step takes away its usual part.
        left = np.sum(contraction ** (averaged[averaged >= t] - t)) / n_averaged
        variance += (left * step_size * std) ** 2
    return average, np.sqrt(variance)
