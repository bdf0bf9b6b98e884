"""Products of rows with a matrix. Where people are protected, nothing else multiplies rows of data."""

import numpy as np

from dpalgos.typing import FloatArray

_CACHED_ROWS = 2**12


def row_products(rows: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return rows (m, p) times a matrix (p, k), (m, k) by column; no row's numbers depend on another row.

    A matrix product sums its last rows in another order. Then one person's number of rows would change the
    last bits of what is computed for others.
    """
    products = np.zeros((matrix.shape[1], len(rows)))
    term = np.empty(min(_CACHED_ROWS, len(rows)))
    for start in range(0, len(rows), _CACHED_ROWS):
        block = np.ascontiguousarray(rows[start : start + _CACHED_ROWS].T)
        own, few = products[:, start : start + block.shape[1]], term[: block.shape[1]]
        for k, sums in enumerate(own):
            for j, column in enumerate(block):
                sums += np.multiply(column, matrix[j, k], out=few)
    return products.T
