"""Sums of z z' over rows, and means of clipped rows, in memory or streamed.

Rows are clipped before they are summed, in double precision (:mod:`dpalgos.rows.blocks` on rounding).
Therefore X'X and X'y move by what rows and responses within the bounds can move them. Every row is multiplied
by its factor, also if that is 1. Therefore the time does not depend on the number of long rows.
"""

from collections.abc import Callable

import numpy as np
import scipy

from dpalgos.release.symmetric import from_upper_triangles
from dpalgos.rows.clipping import clip_rows_l2
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray

_ROWS_AT_ONCE = 1 << 15  # whose products need little memory
_PRODUCTS_AT_ONCE = 1 << 10  # rows whose products of columns are written into one array, again and again
# Products of columns from which a product for each replicate is faster.
_PER_REPLICATE, _FEW_PRODUCTS = 8, 200


def row_moments(sample: Sample, row_bound: float | None = None) -> FloatArray:
    """Return the sums of z z' over each replicate's rows, (R, d + 1, d + 1), z = (x, y).

    Rows are clipped to the ℓ2 norm ``row_bound`` if it is given. Summed once, however many estimators ask.
    """
    sample.check_response()

    def of(part: Sample) -> FloatArray:
        total: FloatArray = np.zeros(())
        for group in part.row_blocks():
            for start in range(0, len(group.X), _ROWS_AT_ONCE):
                chosen = slice(start, start + _ROWS_AT_ONCE)
                rows = group.X[chosen] if row_bound is None else clip_rows_l2(group.X[chosen], row_bound)
                weights = None if part.row_mask is None else group.weights[chosen]
                total = total + products_of_columns(np.vstack([rows.T, group.y[chosen]]), weights)
        return total

    moments = sample.computed(("row moments", row_bound), lambda: sample.total(of))
    return np.broadcast_to(moments, (sample.n_replicates, *moments.shape[-2:]))


def products_of_columns(columns: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Return sums of z z' for the columns (p, m) of rows z and weights (m, R), (R, p, p), or None, (p, p).

    With few columns, all replicates are one matrix product: (p(p + 1)/2 products of columns) × weights. With
    many, there is one for each replicate, of the rows that it uses.
    """
    p = len(columns)
    if weights is None:  # a general product: a fifth of the time of a symmetric one with 5 columns
        product = np.asarray(scipy.linalg.blas.dgemm(1.0, columns.T, columns.T, trans_a=True))
        return (product + product.T) / 2  # on some processors its halves differ by rounding
    if p * (p + 1) // 2 > _PER_REPLICATE * weights.shape[1] + _FEW_PRODUCTS:
        sums = np.empty((weights.shape[1], p, p))
        for own, used in zip(sums, weights.T != 0, strict=True):
            chosen = columns[:, used]
            own[:] = chosen @ chosen.T
        return (sums + sums.transpose(0, 2, 1)) / 2
    upper: FloatArray = np.zeros((weights.shape[1], p * (p + 1) // 2))
    products = np.empty((upper.shape[1], min(_PRODUCTS_AT_ONCE, columns.shape[1])))
    for start in range(0, columns.shape[1], _PRODUCTS_AT_ONCE):
        few = columns[:, start : start + _PRODUCTS_AT_ONCE]
        of_few, done = products[:, : few.shape[1]], 0
        for j in range(p):  # in the order of the upper triangle, without a copy of columns
            np.multiply(few[j], few[j:], out=of_few[done : done + p - j])
            done += p - j
        upper += weights[start : start + _PRODUCTS_AT_ONCE].T @ of_few.T
    return from_upper_triangles(upper, p)


def weighted_moments(rows: FloatArray, weights: FloatArray) -> FloatArray:
    """Return Σ_i w_ir x_i x_i' for rows (n, d) and weights (n, R), (R, d, d)."""
    return (rows.T * weights.T[:, None, :]) @ rows


def clipped_means(
    sample: Sample, clip: Callable[[FloatArray, float], FloatArray], bound: float
) -> FloatArray:
    """Return the means of ``clip(X, bound)`` over each replicate's rows, (d, R), computed once."""

    def total(part: Sample) -> FloatArray:
        n_columns = 1 if part.row_mask is None else part.n_replicates
        total = np.zeros((part.n_features, n_columns))
        for rows, block in part.rows.blocks():
            clipped = clip(block.astype(np.float64, copy=False), bound)
            if part.float_mask is None:
                total[:, 0] += clipped.sum(axis=0)
            else:
                total += clipped.T @ part.float_mask[rows]
        return total

    def means() -> FloatArray:
        shape = sample.n_features, sample.n_replicates
        values = np.broadcast_to(sample.total(total), shape) / sample.n_rows
        values.flags.writeable = False
        return np.asarray(values)

    return sample.computed(("clipped means", clip, bound), means)
