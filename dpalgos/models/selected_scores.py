"""Residuals and scores of a generalized linear model on the columns that each replicate has selected."""

from collections.abc import Callable

import numpy as np

from dpalgos.models.families import Family
from dpalgos.rows.sample import Sample
from dpalgos.rows.selected_columns import SelectedColumns
from dpalgos.rows.wide import Design
from dpalgos.steps.clipping import clip_factor
from dpalgos.typing import BoolArray, FloatArray, IntArray


class SelectedScores:
    """The selected columns of each replicate's rows, and bounded residuals on them.

    Parameters
    ----------
    sample : Sample
    support : (k, R) int array
        The selected columns, released.
    family : Family
    covariate_bound : float
        Entries of X are truncated to ± this.
    predictor_bound : callable
        β (k, R) → what predictors are truncated to, (R,).
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

    def residuals(self, coef: FloatArray) -> FloatArray:
        """Return the residuals of all replicates, 0 in rows that are not theirs, (n, R)."""
        found = np.zeros((len(self.sample.rows), len(self._rows)))
        for r, rows in enumerate(self._rows):
            found[rows, r] = self.residual(coef, r)
        return found

    def scaled(self, factor: float) -> SelectedColumns:
        """Return the columns times a factor as a sample."""
        columns = [factor * X.astype(float, copy=False) for X in self._X]
        return SelectedColumns(self.sample, columns, self._rows)

    def mean_score(self, coef: FloatArray, radius: float) -> FloatArray:
        """Return the mean of h(x_i) r_i(β), where h clips rows to the norm ``radius``, (k, R)."""
        score = np.empty_like(coef)
        for r, X in enumerate(self._X):
            Z = X.astype(float, copy=False)
            weights = clip_factor(np.linalg.norm(Z, axis=1), radius)
            score[:, r] = Z.T @ (weights * self.residual(coef, r))
        return score / self.sample.n_rows
