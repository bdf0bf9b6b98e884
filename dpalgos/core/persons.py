"""Persons with several rows, and weights: estimators that protect them, and sums of each person's rows."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpalgos.core.estimator import AnyEstimator
from dpalgos.core.rows import Rows, Vectors
from dpalgos.errors import InputError, shown
from dpalgos.params import choice, count, positive
from dpalgos.rows.products import sums_by_unit
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray, IntArray

EQUAL, BY_ROWS = "equal", "rows"


@dataclass(frozen=True, kw_only=True)
class UnitEstimator(AnyEstimator):
    """An estimator that protects people and takes weights."""

    person_weight: str = choice(
        "with user_ids: 'equal', each person counts once; 'rows', each row counts once, up to max_rows",
        (EQUAL, BY_ROWS),
        default=EQUAL,
    )
    max_rows: int | None = count(
        "with person_weight='rows': the public number of rows a person that count", default=None
    )
    max_weight: float | None = positive(
        "with weights: their public maximum, to which larger ones are clipped", default=None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.person_weight == BY_ROWS) != (self.max_rows is not None):
            raise InputError(
                f"max_rows must be a number exactly if person_weight='rows', got {shown(self.max_rows)} with "
                f"person_weight={self.person_weight!r}; set both or none"
            )

    @property
    def largest_change(self) -> float:
        """The maximum difference of two units' weights: at least one row of a person counts."""
        return 1.0 if self.max_weight is not None else 1 - 1 / (self.max_rows or 1)

    def check_units(self, sample: Sample) -> None:
        """Refuse a sample without the weights or user ids that the keywords need."""
        weights_given = sample.row_weights is not None
        if (self.max_weight is not None) != weights_given:
            raise InputError(
                "weights and max_weight, the public maximum of weights, must be given together; "
                f"got max_weight={self.max_weight!r} and {'' if weights_given else 'no '}weights"
            )
        if sample.user_codes is None and self.max_rows is not None:
            raise InputError("person_weight='rows' needs user_ids, got none; pass the person of every row")

    def with_units(self, sample: Sample) -> Sample:
        """Return a sample of one replicate whose rows know their unit and their weight, if there are any."""
        self.check_units(sample)
        return sample.in_units(self.max_rows, self.max_weight)


def sums_of_units(rows: Rows, vectors: Vectors, n_columns: int) -> FloatArray:
    """Return the sums of factors (n,) times vectors (n, k) over each unit's rows, (units, k)."""
    units = rows.sample.units
    assert units is not None
    if units.starts is None:
        return _sums_in_any_order(rows, vectors, n_columns)
    sums, end = np.zeros((len(units.starts) - 1, n_columns)), 0
    for own in _sums_in_order(rows, vectors, units.starts):
        start, end = end, end + len(own)
        sums[start:end] = own
    return sums


def some_sums_of_units(rows: Rows, vectors: Vectors, n_columns: int) -> Iterator[FloatArray]:
    """Yield the sums of :func:`sums_of_units` for some units, (m, k), in the order of units.

    These are the units of a block if rows are sorted by unit, otherwise all.
    """
    units = rows.sample.units
    assert units is not None
    if units.starts is None:
        return iter([_sums_in_any_order(rows, vectors, n_columns)])
    return _sums_in_order(rows, vectors, units.starts)


def _sums_in_order(rows: Rows, vectors: Vectors, starts: IntArray) -> Iterator[FloatArray]:
    """Yield the sums of the units of each block, (m, k): all rows of a unit are in one block."""
    for block in rows.each():
        assert isinstance(block.units, np.ndarray)
        own = starts[block.units[0] : block.units[-1] + 2]
        yield sums_by_unit(*vectors(block), own - own[0])


def _sums_in_any_order(rows: Rows, vectors: Vectors, n_columns: int) -> FloatArray:
    """Return the sums of all units, (units, k), whose rows may be in several blocks."""
    units = rows.sample.units
    assert units is not None
    n_units = int(units.n_units) if rows.sample.has_shared_units else len(units.weights)
    sums = np.zeros((n_units, n_columns))
    for block in rows.each():
        factors, values = vectors(block)
        if isinstance(block.units, np.ndarray) and units.codes is not None:
            first = int(block.units.min())  # of sorted streams, a block has few units
            some, codes = slice(first, int(block.units.max()) + 1), block.units - first
            for j in range(n_columns):
                sums[some, j] += np.bincount(codes, weights=values[:, j] * factors)
        else:
            sums[block.units] += values * factors[:, None]
    return sums
