"""Clipping of rows, responses and coefficients; products of rows with a matrix and with the units of privacy.

Clipping is a part of the guarantee, not an assumption on the data: estimators always clip.

Where people are protected, only :func:`row_products` multiplies rows of data with a matrix, and only
:func:`sums_by_unit` adds the rows of a person.
"""

import numpy as np
import scipy

from dpalgos.typing import FloatArray, IntArray

_CACHED_ROWS = 2**12


def row_lengths(X: FloatArray) -> FloatArray:
    """Return the ℓ2 norms of the rows of X (..., d), (...), in double precision and without arrays like X."""
    return np.asarray(np.sqrt(np.einsum("...j,...j->...", X, X, dtype=float)))


def clip_factor(norms: FloatArray, level: float | FloatArray) -> FloatArray:
    """Return min(1, level / norm), the factor that clips a vector of that norm."""
    return np.asarray(level / np.maximum(norms, level))


def clip_rows_l2(X: FloatArray, bound: float) -> FloatArray:
    """Scale the rows of X (…, d) whose ℓ2 norm exceeds ``bound`` down to it, in double precision."""
    return np.asarray(np.multiply(X, clip_factor(row_lengths(X), bound)[..., None], dtype=float))


def truncate(values: FloatArray, bound: float | FloatArray) -> FloatArray:
    """Clip every entry to [-bound, bound] (Π_R of paper A for scalars); bounds may be one per replicate.

    NaN counts as 0. Therefore no row makes a release NaN.
    """
    clipped = np.clip(values, -np.asarray(bound), bound)
    # A sum is much faster than a search for NaN.
    return np.nan_to_num(clipped, copy=False) if np.isnan(clipped.sum()) else clipped


def project_l2_ball(coef: FloatArray, radius: float) -> FloatArray:
    """Project the columns of ``coef`` (d, R) onto the ℓ2 ball (Π_C of paper A)."""
    norms = np.linalg.norm(coef, axis=0)
    return np.asarray(coef * (radius / np.maximum(norms, radius)))


# Products of columns from which a product for each replicate is faster.


def row_products(rows: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return rows (m, p) times a matrix (p, k), (m, k); no row's numbers depend on another row.

    A matrix product sums its last rows in another order. Then one person's number of rows would change the
    last bits of what is computed for others. ``einsum`` sums each row of a contiguous array by itself.
    """
    matrix = np.ascontiguousarray(matrix)
    products = np.empty((len(rows), matrix.shape[1]))
    for start in range(0, len(rows), _CACHED_ROWS):
        chosen = slice(start, start + _CACHED_ROWS)
        np.einsum("ij,jk->ik", np.ascontiguousarray(rows[chosen]), matrix, out=products[chosen])
    return products


def sums_by_unit(factors: FloatArray, values: FloatArray, starts: IntArray) -> FloatArray:
    """Return the sums of factors (n,) times values (n, k) over each unit's rows, (units, k).

    Rows are sorted by unit. ``starts`` (units + 1,) are the first rows of units, and n. A unit's sum depends
    on no other unit, bit by bit.
    """
    # A sparse product makes no array of all products, and is faster than `np.add.reduceat` by rows.
    places = np.arange(len(values))
    own = scipy.sparse.csr_array((factors, places, starts), shape=(len(starts) - 1, len(values)))
    return np.asarray(own @ values)
