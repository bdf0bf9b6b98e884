"""Wide data as matrix products with truncated rows, for all replicates at once."""

from collections.abc import Callable

import numpy as np

from dpalgos.rows.passes import RowSum, is_sparse, row_sum, truncated
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray, IntArray

# (linear predictors of a block, which rows) → what multiplies each row, both (rows, R).
Residual = Callable[[FloatArray, slice], FloatArray]


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
        coef = coef.astype(self.dtype, copy=False)
        blocks = (block for _, block in self._rows.blocks())
        if is_sparse(coef):
            used: IntArray = np.flatnonzero(coef.any(axis=1))
            blocks, coef = (block.take(used, axis=1) for block in blocks), coef[used]
        return np.concatenate([self._truncated(block) @ coef for block in blocks])

    def mean_product(self, values: FloatArray) -> FloatArray:
        """Return the mean of x_i v_i over each replicate's rows for values (n, R), (d, R)."""
        return self._mean(values.shape[1], lambda _, rows: values[rows])

    def mean_score(self, coef: FloatArray, residual: Residual) -> FloatArray:
        """Return the mean of x_i r_i(x_i'β) over each replicate's rows, (d, R): a gradient in one pass.

        ``residual`` maps linear predictors (m, R) and the slice of the m rows to (m, R); row i depends on row
        i only.
        """
        return self._mean(coef.shape[1], residual, coef.astype(self.dtype, copy=False))

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

    def _mean(
        self,
        n_columns: int,
        factors: Callable[..., FloatArray],
        coef: FloatArray | None = None,
    ) -> FloatArray:
        request = RowSum(
            n_columns=n_columns,
            dtype=self.dtype,
            bound=self._bound,
            factors=factors,
            coef=coef,
            mask=self._mask,
        )
        return np.asarray(row_sum(self._rows, request, owner=self._sample).T / self._n_used)

    def _truncated(self, block: FloatArray) -> FloatArray:
        return truncated(block, self.dtype, self._bound)


def _rounded_down(bound: float, dtype: np.dtype[np.floating]) -> np.floating:
    """Return the largest number of a precision that does not exceed the bound."""
    rounded = dtype.type(bound)
    return rounded if float(rounded) <= bound else np.nextafter(rounded, dtype.type(0))
