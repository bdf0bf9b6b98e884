"""Some replicates and some rows, as estimators see them."""

from dataclasses import dataclass

import numpy as np

from dpalgos.typing import FloatArray, IntArray


@dataclass(frozen=True)
class Group:
    """Some replicates and rows that they use: all of them, or where rows are streamed one block of them.

    ``weights`` (n_group, R_group), or (n_group, 1), are 1 where a replicate uses a row, else 0. ``offset``
    (n_group, 1) is a part of the rows' linear predictors that has no coefficient.
    """

    replicates: slice
    rows: slice | IntArray
    X: FloatArray
    y: FloatArray
    weights: FloatArray
    offset: FloatArray | float = 0.0

    def shifted(self, products: FloatArray) -> FloatArray:
        """Return products of rows with coefficients, with the offset."""
        return products if isinstance(self.offset, float) else np.asarray(products + self.offset)
