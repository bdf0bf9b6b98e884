"""Symmetric matrices: sums of products of columns, and matrices as vectors.

svec(M) = (M_ii, √2 M_ij for i < j) is an isometry from the Frobenius norm to ℓ2. Gaussian noise of standard
deviation σ on svec(M) has standard deviation σ on the diagonal of M and σ/√2 off it. The matrix stays
symmetric.
"""

from functools import cache

import numpy as np
import scipy

from dpalgos.typing import FloatArray, IntArray

_PRODUCTS_AT_ONCE = 1 << 10  # rows whose products of columns are written into one array, again and again
_PER_REPLICATE, _FEW_PRODUCTS = 8, 200


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
