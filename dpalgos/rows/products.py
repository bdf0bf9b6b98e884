"""Products of rows with a matrix, with the units of privacy, and of the columns of rows with each other.

Where people are protected, only :func:`row_products` multiplies rows of data with a matrix, and only
:func:`sums_by_unit` adds the rows of a person.

Clipping of rows, responses and coefficients.

Clipping is a part of the guarantee, not an assumption on the data: estimators always clip.

Symmetric matrices as vectors.

svec(M) = (M_ii, √2 M_ij for i < j) is an isometry from the Frobenius norm to ℓ2. Gaussian noise of standard
deviation σ on svec(M) has standard deviation σ on the diagonal of M and σ/√2 off it. The matrix stays
symmetric.
"""

from functools import cache

import numpy as np
import scipy

from dpalgos.typing import FloatArray, IntArray

_CACHED_ROWS = 2**12
_PRODUCTS_AT_ONCE = 1 << 10  # rows whose products of columns are written into one array, again and again


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


def svec(matrices: FloatArray) -> FloatArray:
    """Turn (R, p, p) symmetric matrices into (p(p+1)/2, R) vectors."""
    first, second, scale = svec_layout(matrices.shape[-1])
    return (matrices[:, first, second] * scale).T


def unsvec(vectors: FloatArray, p: int) -> FloatArray:
    """Turn (p(p+1)/2, R) vectors back into (R, p, p) symmetric matrices."""
    return from_upper_triangles(vectors.T / svec_layout(p)[2], p)


def from_upper_triangles(entries: FloatArray, p: int) -> FloatArray:
    """Return the symmetric matrices (…, p, p) with upper triangles (…, p(p + 1)/2), row by row."""
    first, second, _ = svec_layout(p)
    matrices = np.empty((*entries.shape[:-1], p, p))
    matrices[..., first, second] = matrices[..., second, first] = entries
    return matrices


@cache
def svec_layout(p: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Return rows, columns and scales of the entries of svec, for p rows."""
    first, second = np.triu_indices(p)
    return first, second, np.where(first == second, 1.0, np.sqrt(2.0))


# Products of columns from which a product for each replicate is faster.
_PER_REPLICATE, _FEW_PRODUCTS = 8, 200


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
        for own, weight in zip(sums, weights.T, strict=True):
            used = np.flatnonzero(weight)
            chosen = columns[:, used]
            own[:] = (chosen * weight[used]) @ chosen.T
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
