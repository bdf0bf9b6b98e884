"""Residuals and scores of a generalized linear model on the columns that each replicate has selected."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from dpalgos.models.families import Family
from dpalgos.rows.sample import Group, Grouped, Sample
from dpalgos.rows.wide import Design
from dpalgos.steps.clipping import clip_factor
from dpalgos.typing import BoolArray, FloatArray, IntArray

T = TypeVar("T")


class SelectedColumns(Sample):
    """A sample with k columns per replicate, for estimators that take their rows in groups.

    ``columns`` holds an array (n_r, k) of each replicate's own rows, ``used`` a slice or mask (n,) of those
    rows.
    """

    def __init__(
        self, sample: Sample, columns: Sequence[FloatArray], used: Sequence[slice | BoolArray]
    ) -> None:
        self._whole, self._columns, self._used = sample, columns, used
        self.n_replicates = sample.n_replicates

    @property
    def responds(self) -> bool:
        return self._whole.responds

    @property
    def n_features(self) -> int:
        return int(self._columns[0].shape[1])

    @property
    def n_rows(self) -> FloatArray:
        return self._whole.n_rows

    def groups(self) -> Iterator[Group]:
        y = self._whole.response()
        for r, (X, rows) in enumerate(zip(self._columns, self._used, strict=True)):
            index: slice | IntArray = rows if isinstance(rows, slice) else np.flatnonzero(rows)
            yield Group(slice(r, r + 1), index, X, y[rows], np.ones((len(X), 1)))

    def grouped(self, made: Callable[[Group], T], *, together: bool = False) -> Grouped[T]:
        return Grouped(self, made, [(group, made(group)) for group in self.groups()])


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

    def residuals(self, coef: FloatArray) -> FloatArray:
        """Return the residuals of all replicates, 0 in rows outside the replicate's mask, (n, R)."""
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
