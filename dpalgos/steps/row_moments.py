"""Sums of z z' over rows z = (x, y), x clipped to an ℓ2 norm and y truncated: what normal equations need.

Rows in memory are clipped and multiplied at once. Streamed ones are clipped on their way from the reader's
columns into a buffer of one block, whose product with itself is added up: they are copied once. Every row is
multiplied by its factor, also where that is 1, so that the time does not tell how many rows are long.

Either way rows are clipped before they are summed, in double precision (:mod:`dpalgos.rows.blocks` on
rounding): X'X and X'y move by what rows and responses within the bounds can move them.
"""

import numpy as np
from scipy.linalg.blas import dgemm

from dpalgos.rows.sample import Sample
from dpalgos.steps.clipping import clip_rows_l2, truncate
from dpalgos.steps.symmetric import from_upper_triangles
from dpalgos.typing import FloatArray

# Up to so many columns the general product of a tall matrix with itself takes less time than the symmetric
# one: a fifth with 5 columns, as much with 16.
_NARROW = 12


def cross_sensitivity(row_bound: float, response_bound: float) -> float:
    """Return the ℓ2 sensitivity 2 B_x B_y of X'y under replacing one row.

    A row adds xy, of norm at most B_x B_y; attained by the same x with responses ± B_y.
    """
    return 2 * row_bound * response_bound


def eigenvalue_sensitivity(row_bound: float) -> float:
    """Return the sensitivity B² of the least eigenvalue of X'X under replacing one row.

    Removing a row lowers it by at most ‖x‖², adding one raises it by at most that, and the two do not add up;
    attained by the only row along an axis against one along another.
    """
    return row_bound**2


def row_moments(
    sample: Sample,
    row_bound: float | None = None,
    response_bound: float | None = None,
    *,
    response_scale: float = 1.0,
) -> FloatArray:
    """Return the sums of z z' over each replicate's rows, (R, d + 1, d + 1), z = (x, ``response_scale`` y).

    Rows are clipped to the ℓ2 norm ``row_bound``, responses truncated to ± ``response_bound``, if these are
    given.
    """
    sample.check_response()
    if sample.rows.streamed:
        return _streamed(sample, row_bound, response_bound, response_scale)
    X, y = sample.X, sample.response()
    rows = X if row_bound is None else clip_rows_l2(X, row_bound)
    responses = y if response_bound is None else truncate(y, response_bound)
    moments = _products(np.column_stack([rows, response_scale * responses]), sample.float_mask)
    return np.broadcast_to(moments, (sample.n_replicates, *moments.shape[-2:]))


def _streamed(
    sample: Sample, row_bound: float | None, response_bound: float | None, response_scale: float
) -> FloatArray:
    total: FloatArray | float = 0.0
    size, p = sample.rows.block_size, sample.n_features + 1
    buffer: FloatArray = np.empty(size * p)
    for piece, y, weights in sample.column_pieces():
        # Contiguous, however few rows there are.
        columns = buffer[: len(y) * p].reshape(p, len(y))
        factors = 1.0 if row_bound is None else _clip_factors(piece.squares, row_bound)
        for column, clipped in zip(piece.columns, columns, strict=False):
            np.multiply(column, factors, out=clipped, dtype=float)
        if response_bound is not None:
            y = np.clip(y, -response_bound, response_bound, out=columns[-1])
        if response_bound is None or response_scale != 1:
            np.multiply(y, response_scale, out=columns[-1])
        total = total + _products(columns.T, weights)
    return np.broadcast_to(total, (sample.n_replicates, p, p))


def _clip_factors(squares: FloatArray, bound: float) -> FloatArray:
    """Return factors (m,), at most 1, that clip rows of these squared ℓ2 norms, in the same array."""
    norms = np.sqrt(squares, out=squares)
    return np.divide(bound, np.maximum(norms, bound, out=norms), out=norms)


def _products(z: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Return the sums of z z' for rows z (m, p) and weights (m, R), (R, p, p); (p, p) if they are None, ones.

    All replicates are one matrix product: (p(p + 1)/2 products of columns) × weights.
    """
    p = z.shape[1]
    if weights is None:
        narrow = p <= _NARROW and z.flags.f_contiguous
        return np.asarray(dgemm(1.0, z, z, trans_a=True) if narrow else z.T @ z)
    first, second = np.triu_indices(p)
    return from_upper_triangles(weights.T @ (z[:, first] * z[:, second]), p)
