"""Products of rows with a matrix. Where people are protected, nothing else multiplies rows of data."""

import numpy as np

from dpalgos.typing import FloatArray

_CACHED_ROWS = 2**12


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
