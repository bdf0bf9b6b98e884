"""Symmetric matrices as vectors.

svec(M) = (M_ii, √2 M_ij for i < j) is an isometry from the Frobenius norm to ℓ2. Gaussian noise of standard
deviation σ on svec(M) has standard deviation σ on the diagonal of M and σ/√2 off it. The matrix stays
symmetric.
"""

from functools import cache

import numpy as np

from dpalgos.typing import FloatArray, IntArray


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
