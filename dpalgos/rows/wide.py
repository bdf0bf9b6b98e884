"""Wide data as matrix products with truncated rows, for all replicates at once."""

from collections.abc import Callable

import numpy as np

from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray, IntArray

# (linear predictors of a block, which rows) → what multiplies each row, both (rows, R).
Residual = Callable[[FloatArray, slice], FloatArray]
_DENSE = 4  # one column in so many, above which a product with all takes less time than a search


class Design:
    """The rows of a sample, truncated to ± ``bound``, as matrix products for all replicates at once.

    Products go block by block (`dpalgos.rows.blocks`), summed in double precision. Truncated rows are made
    where a product needs them, and not at all if no entry leaves the box. With ``single``, rows of single
    precision are multiplied in it, and a private estimator multiplies its sensitivities by :attr:`rounding`.
    """

    def __init__(self, sample: Sample, bound: float | None = None, *, single: bool = False) -> None:
        self._sample, self._rows = sample, sample.rows
        self._mask, self._n_used = sample.row_mask, sample.n_rows
        self.dtype: np.dtype[np.floating] = self._rows.dtype if single else np.dtype(np.float64)
        self.rounding = self._rows.rounding if single else 1.0
        self._bound = None
        if bound is not None and self._rows.largest > bound:
            self._bound = _rounded_down(bound, self.dtype)

    def columns(self, chosen: IntArray) -> FloatArray:
        """Return some columns, (n, k)."""
        return self._truncated(self._rows.columns(chosen))

    def predict(self, coef: FloatArray) -> FloatArray:
        """Return X B for coefficients (d, R), (n, R)."""
        predictors = self._predictors(coef)
        return np.concatenate([predictors(rows, block) for rows, block in self._rows.blocks()])

    def mean_product(self, values: FloatArray) -> FloatArray:
        """Return the mean of x_i v_i over each replicate's rows for values (n, R), (d, R)."""
        return self._mean(values.shape[1], lambda rows, _: values[rows])

    def mean_score(self, coef: FloatArray, residual: Residual) -> FloatArray:
        """Return the mean of x_i r_i(x_i'β) over each replicate's rows, (d, R): a gradient in one pass.

        ``residual`` maps linear predictors (m, R) and the slice of the m rows to (m, R); row i depends on row
        i only.
        """
        predictors = self._predictors(coef)
        return self._mean(coef.shape[1], lambda rows, block: residual(predictors(rows, block), rows))

    def negative_gradient(self, y: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return B ↦ the mean of x_i (y_i − x_i'β), (d, R), for responses (n, 1) or (n, R).

        Residuals are in double precision. Therefore their products add only :attr:`rounding`.
        """
        bound = None if self._bound is None else float(self._bound)
        exact = Design(self._sample, bound)
        return lambda coef: self.mean_product(y - exact.predict(coef))

    def mean_square(self, values: FloatArray) -> FloatArray:
        """Return the mean of v_i² over each replicate's rows for values (n, R), (R,)."""
        squares = values.astype(float, copy=False) ** 2
        if self._mask is not None:
            squares *= self._mask
        return np.asarray(squares.sum(axis=0) / self._n_used)

    def _predictors(self, coef: FloatArray) -> Callable[[slice, FloatArray], FloatArray]:
        """Return (which rows, a block of them) ↦ their linear predictors, (m, R)."""
        coef = coef.astype(self.dtype, copy=False)
        used: IntArray = np.flatnonzero(coef.any(axis=1))
        if _DENSE * len(used) >= len(coef):
            return lambda _, block: self._truncated(block) @ coef
        weights = coef[used].T
        return lambda rows, block: (weights @ self._truncated(self._rows.some_columns(rows, block, used))).T

    def _mean(self, n_columns: int, factors: Callable[[slice, FloatArray], FloatArray]) -> FloatArray:
        """Return the mean of x_i f_i, (d, R); ``factors`` maps a block to the f_i of its rows, (m, R)."""
        total: FloatArray = np.zeros((n_columns, self._rows.shape[1]))
        for rows, block in self._rows.blocks():
            weighted = factors(rows, block).T.astype(self.dtype, copy=False)
            if self._mask is None:
                total += weighted @ self._truncated(block)
                continue
            marks = self._mask[rows].T
            using = np.flatnonzero(marks.any(axis=1))  # the replicates that use any of these rows
            if len(using):
                total[using] += (weighted[using] * marks[using]) @ self._truncated(block)
        return np.asarray(total.T / self._n_used)

    def _truncated(self, block: FloatArray) -> FloatArray:
        block = block.astype(self.dtype, copy=False)
        return block if self._bound is None else np.clip(block, -self._bound, self._bound)


def _rounded_down(bound: float, dtype: np.dtype[np.floating]) -> np.floating:
    """Return the largest number of a precision that does not exceed the bound."""
    rounded = dtype.type(bound)
    return rounded if float(rounded) <= bound else np.nextafter(rounded, dtype.type(0))
