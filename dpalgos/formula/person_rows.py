"""Rows of person-periods of a design, from rows of persons, made block by block.

A formula has the period as a term of its own. Therefore the columns of a person-period are A + B_k, those of
the person plus those of the period. A is held for each row of data, B for each period. The offset adds the
logarithm of the exposure. Several rows of a person in one period are joined: A is their mean, weighted by the
time at risk. A person has at most as many rows as periods.
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
from dpalgos.rows.products import sums_by_unit
from dpalgos.rows.sample import marked_rows
from dpalgos.survival.periods import JoinedPeriods
from dpalgos.typing import BoolArray, FloatArray, IntArray

_NUMBERS_AT_ONCE, _NUMBERS_HELD = 2**20, 2**26


@dataclass(frozen=True, eq=False)
class PersonRows:
    """The person-periods of rows of data.

    Attributes
    ----------
    design : FormulaDesign
        With a time to an event as response.
    joined : JoinedPeriods
        The person-periods, and the rows of data of each.
    columns : (n, d) array
        A, with an offset without the logarithm of the exposure.
    of_periods : (K, d) array
        B: what a period adds to the columns of the first one.
    is_complete : (n,) array, optional
        Whether a row of data is used: the person-periods of another one are rows of zeros.
    """

    design: FormulaDesign
    joined: JoinedPeriods
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
        joined = _joined(time, times, codes, parts)
        return cls(design, joined, columns, of_periods - of_periods[0], is_complete)

    def sample_rows(self) -> tuple[Any, FloatArray | None]:
        """Return the columns of the design (m, d), and the responses (m,): streamed if they are many."""
        m = len(self.joined.person)
        if m * self.columns.shape[1] > _NUMBERS_HELD:
            return StreamedRows(self._pieces, m), None
        return self.held_rows()

    def held_rows(self) -> tuple[FloatArray, FloatArray]:
        """Return the columns of the design (m, d), and the responses (m,), in memory."""
        X, y = zip(*self._pieces(), strict=True)
        return np.concatenate(X), np.concatenate(y)

    def means(self, values: FloatArray) -> FloatArray:
        """Return the means of values of rows of data (n,) for each person-period, (m,)."""
        joined = self.joined
        return sums_by_unit(joined.share, values[joined.row][:, None], joined.starts)[:, 0]

    def _pieces(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        joined, offset = self.joined, self.design.offset
        assert offset is not None
        low, high = offset.lower - offset.center, offset.upper - offset.center
        size = max(1, _NUMBERS_AT_ONCE // self.columns.shape[1])
        for start in range(0, len(joined.person), size):
            some = slice(start, start + size)
            starts = joined.starts[start : start + size + 1]
            part = slice(starts[0], starts[-1])
            X = sums_by_unit(joined.share[part], self.columns[joined.row[part]], starts - starts[0])
            X += self.of_periods[joined.period[some]]
            X[:, 0] = np.clip(X[:, 0] + np.log(joined.exposure[some]), low, high)
            if self.design.constant:
                X[:, -1] = 1.0
            y = joined.event[some].astype(float)
            if self.is_complete is not None:
                left_out = ~self.is_complete[joined.row[starts[:-1]]]
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
    moved = None
    if is_clipped is not None:
        moved = marked_rows(persons.means(is_clipped[order].astype(float)) > 0, X.shape[1])
    weights = None if row_weights is None else persons.means(row_weights[order])
    return {"X": X, "y": y, "moved": moved, "user_ids": persons.joined.person, "row_weights": weights}


def _joined(
    time: SurvivalTime, times: Mapping[str, Any], codes: IntArray, parts: Sequence[slice]
) -> JoinedPeriods:
    """Return the person-periods, made a few persons at a time."""
    found, n_rows = list[JoinedPeriods](), 0
    for part in parts:
        some = {name: each[part] for name, each in times.items()}
        found.append(time.join(some, codes[part], first=(part.start, n_rows)))
        n_rows += len(found[-1].row)
    fields = ("exposure", "event", "share")
    wide: dict[str, Any] = {name: np.concatenate([getattr(each, name) for each in found]) for name in fields}
    for name in ("person", "period", "row"):
        wide[name] = np.concatenate([getattr(each, name).astype(np.int32) for each in found])
    if n_rows == len(wide["person"]):  # each person-period is of one row
        wide["share"] = np.broadcast_to(np.ones(1), n_rows)
    starts = np.concatenate([each.starts[:-1] for each in found])
    return JoinedPeriods(**wide, starts=np.append(starts, n_rows).astype(np.int32))


def _parts(codes: IntArray, size: int) -> Iterator[slice]:
    """Yield rows of data of whole persons, about ``size`` at a time."""
    n, start = len(codes), 0
    while start < n:
        end = min(start + max(size, 1), n)
        end = int(np.searchsorted(codes, codes[end - 1], side="right"))
        yield slice(start, end)
        start = end
