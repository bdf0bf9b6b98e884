"""Some replicates and some rows, as estimators see them, and the units of privacy of rows."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpalgos.typing import FloatArray, IntArray


@dataclass(frozen=True)
class Group:
    """Some replicates and rows that they use: all of them, or where rows are streamed one block of them.

    ``weights`` (n_group, R_group), or (n_group, 1), are 1 where a replicate uses a row, else 0. ``offset``
    (n_group, 1) is a part of the rows' linear predictors that has no coefficient.

    ``units`` is the unit of privacy of each row, as an index or a slice of all units. ``unit_weights``
    (n_group,) is the weight of each row in its unit (:mod:`dpalgos.rows.units`), None if it is 1.
    """

    replicates: slice
    rows: slice | IntArray
    X: FloatArray
    y: FloatArray
    weights: FloatArray
    offset: FloatArray | float = 0.0
    units: slice | IntArray | None = None
    unit_weights: FloatArray | None = None

    def shifted(self, products: FloatArray) -> FloatArray:
        """Return products of rows with coefficients, with the offset."""
        return products if isinstance(self.offset, float) else np.asarray(products + self.offset)


class PrivacyUnits(NamedTuple):
    """Units of privacy: ``codes`` (n,) tell the unit of each row, None if each is one.

    ``weights`` (n,) are of rows, and sum to at most 1 in a unit. ``n_units`` is their public number. If rows
    are sorted by unit, ``starts`` (units + 1,) are the first rows of units and the end.
    """

    codes: IntArray | None
    weights: FloatArray
    n_units: float
    starts: IntArray | None = None
