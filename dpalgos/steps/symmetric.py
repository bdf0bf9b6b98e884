"""Symmetric matrices as vectors: svec(M) = (M_ii, √2 M_ij for i < j).

An isometry from the Frobenius norm to ℓ2, so that Gaussian noise of standard deviation σ on
svec(M) is σ on the diagonal and σ/√2 off it, and the matrix stays symmetric.
"""

from functools import cache

import numpy as np

from dpalgos.typing import FloatArray, IntArray

_SHORT = 16  # columns of which all products of pairs are worth forming


def svec(matrices: FloatArray) -> FloatArray:
    """Turn (R, p, p) symmetric matrices into (p(p+1)/2, R) vectors."""
    first, second, scale = _layout(matrices.shape[-1])
    return (matrices[:, first, second] * scale).T


def unsvec(vectors: FloatArray, p: int) -> FloatArray:
    """Turn (p(p+1)/2, R) vectors back into (R, p, p) symmetric matrices."""
    return from_upper_triangles(vectors.T / _layout(p)[2], p)


def from_upper_triangles(entries: FloatArray, p: int) -> FloatArray:
    """Return the symmetric matrices (R, p, p) with upper triangles (R, p(p + 1)/2), row by row."""
    first, second, _ = _layout(p)
    matrices = np.empty((len(entries), p, p))
    matrices[:, first, second] = entries
    matrices[:, second, first] = entries
    return matrices


def quadratic_forms(X: FloatArray, matrices: FloatArray) -> FloatArray:
    """Return x_i' M_r x_i for every row and matrix, (n, R), as one matrix product where rows are short."""
    if X.shape[1] > _SHORT:
        return np.stack([np.einsum("ij,ij->i", X @ matrix, X) for matrix in matrices], axis=1)
    first, second, scale = _layout(X.shape[1])
    return (X[:, first] * X[:, second] * scale) @ svec(matrices)


def weighted_moments(Z: FloatArray, weights: FloatArray) -> FloatArray:
    """Return Σ_i w_ir z_i z_i' for rows Z (n, p) and weights (n, R), (R, p, p)."""
    p = Z.shape[1]
    if p > _SHORT:
        return np.stack([(Z * column[:, None]).T @ Z for column in weights.T])
    first, second, _ = _layout(p)
    return from_upper_triangles(weights.T @ (Z[:, first] * Z[:, second]), p)


def gram_sensitivity(row_bound: float) -> float:
    """Return the Frobenius sensitivity √2 B² of X'X under replacing one row.

    ‖xx' − zz'‖² = ‖x‖⁴ + ‖z‖⁴ − 2 (x'z)² ≤ 2B⁴, attained by orthogonal rows of norm B.
    """
    return float(np.sqrt(2) * row_bound**2)


@cache
def _layout(p: int) -> tuple[IntArray, IntArray, FloatArray]:
    first, second = np.triu_indices(p)
    return first, second, np.where(first == second, 1.0, np.sqrt(2.0))
