"""Rows of person-periods of a design, from rows of persons, made block by block.

A formula has the period as a term of its own. Therefore the columns of a piece are A + B_k, those of the row of
data plus those of the period. A is held for each row of data, B for each period. The offset adds the logarithm
of the exposure. A person may have any number of pieces: what they add is bounded for the person as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpalgos.formula.columns import OF_ENDS, public_rows
from dpalgos.formula.design import FormulaDesign
from dpalgos.formula.survival_time import SurvivalTime
from dpalgos.rows.blocks import StreamedRows
from dpalgos.rows.sample import marked_rows
from dpalgos.survival.periods import Pieces
from dpalgos.typing import BoolArray, FloatArray, IntArray

_NUMBERS_AT_ONCE, _NUMBERS_HELD = 2**20, 2**26


@dataclass(frozen=True, eq=False)
class PersonRows:
    """The pieces of follow-up of rows of data.

    Attributes
    ----------
    design : FormulaDesign
        With a time to an event as response.
    pieces : Pieces
        The parts of rows of data in periods.
    columns : (n, d) array
        A, with an offset without the logarithm of the exposure.
    of_periods : (K, d) array
        B: what a period adds to the columns of the first one.
    is_complete : (n,) array, optional
        Whether a row of data is used: the person-periods of another one are rows of zeros.
    """

    design: FormulaDesign
    pieces: Pieces
    columns: FloatArray
    of_periods: FloatArray
    is_complete: BoolArray | None = None

    @classmethod
    def of(
        cls,
        design: FormulaDesign,
        rows: Mapping[str, Any],
        codes: IntArray,
        is_complete: BoolArray | None = None,
    ) -> PersonRows:
        """Return the person-periods of rows of data (n,) by ascending codes (n,) of persons."""
        time = design.survival
        assert time is not None
        parts = list(_parts(codes, _NUMBERS_AT_ONCE // (8 * len(time.labels))))
        times = {name: rows[name] for name in time.names}
        used = {name: each for name, each in rows.items() if name in time.columns}
        first_period = (
            time.at_periods(
                {name: each[part] for name, each in used.items()}, np.zeros(len(codes[part]), int)
            )
            for part in parts
        )
        columns = np.concatenate([design.matrix(each) for each in first_period])
        columns[:, 0] -= np.log(time.longest_exposure)
        periods = np.arange(len(time.labels))
        # B is the same for all rows, except for rounding: from a row of data, it would pass on its last bits.
        public = public_rows({name: time.columns[name] for name in used}, OF_ENDS)
        of_periods = design.matrix(
            time.at_periods(
                {name: np.repeat(each[:1], len(periods)) for name, each in public.items()}, periods
            )
        )
        pieces = _pieces_of(time, times, codes, parts)
        return cls(design, pieces, columns, of_periods - of_periods[0], is_complete)

    def sample_rows(self) -> tuple[Any, FloatArray | None]:
        """Return the columns of the design (m, d), and the responses (m,): streamed if they are many."""
        m = len(self.pieces.person)
        if m * self.columns.shape[1] > _NUMBERS_HELD:
            return StreamedRows(self._pieces, m), None
        return self.held_rows()

    def held_rows(self) -> tuple[FloatArray, FloatArray]:
        """Return the columns of the design (m, d), and the responses (m,), in memory."""
        X, y = zip(*self._pieces(), strict=True)
        return np.concatenate(X), np.concatenate(y)

    def of_rows(self, values: Any) -> Any:
        """Return values of rows of data (n,) for each piece, (m,)."""
        return np.asarray(values)[self.pieces.row]

    def _pieces(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        pieces, offset = self.pieces, self.design.offset
        assert offset is not None
        low, high = offset.lower - offset.center, offset.upper - offset.center
        size = max(1, _NUMBERS_AT_ONCE // self.columns.shape[1])
        for start in range(0, len(pieces.person), size):
            some = slice(start, start + size)
            X = self.columns[pieces.row[some]] + self.of_periods[pieces.period[some]]
            X[:, 0] = np.clip(X[:, 0] + np.log(pieces.exposure[some]), low, high)
            if self.design.constant:
                X[:, -1] = 1.0
            y = pieces.response[some].copy()
            if self.is_complete is not None:
                left_out = ~self.is_complete[pieces.row[some]]
                X[left_out], y[left_out] = 0.0, 0.0
            yield X, y


def person_sample(
    design: FormulaDesign,
    rows: Mapping[str, Any],
    codes: IntArray,
    *,
    is_clipped: BoolArray | None = None,
    row_weights: FloatArray | None = None,
    is_complete: BoolArray | None = None,
) -> dict[str, Any]:
    """Return the person-periods of rows of data, by codes (n,) of persons, as keywords of ``Sample``.

    ``is_clipped`` (n,) says which rows have a clipped covariate, and ``is_complete`` (n,) which are used.
    """
    order = np.argsort(codes, kind="stable")
    rows, codes = {name: each[order] for name, each in rows.items()}, codes[order]
    persons = PersonRows.of(design, rows, codes, None if is_complete is None else is_complete[order])
    X, y = persons.sample_rows()
    moved = None if is_clipped is None else marked_rows(persons.of_rows(is_clipped[order]), X.shape[1])
    weights = None if row_weights is None else persons.of_rows(row_weights[order])
    return {
        "X": X,
        "y": y,
        "moved": moved,
        "user_ids": persons.pieces.person,
        "row_weights": weights,
        "row_shares": persons.pieces.share,
    }


def _pieces_of(
    time: SurvivalTime, times: Mapping[str, Any], codes: IntArray, parts: Sequence[slice]
) -> Pieces:
    """Return the pieces, made a few persons at a time."""
    found = [
        time.pieces({name: each[part] for name, each in times.items()}, codes[part], part.start)
        for part in parts
    ]
    wide: dict[str, Any] = {
        name: np.concatenate([getattr(each, name) for each in found])
        for name in ("exposure", "response", "share")
    }
    for name in ("person", "period", "row"):
        wide[name] = np.concatenate([getattr(each, name).astype(np.int32) for each in found])
    return Pieces(**wide)


def _parts(codes: IntArray, size: int) -> Iterator[slice]:
    """Yield rows of data of whole persons, about ``size`` at a time."""
    n, start = len(codes), 0
    while start < n:
        end = min(start + max(size, 1), n)
        end = int(np.searchsorted(codes, codes[end - 1], side="right"))
        yield slice(start, end)
        start = end
