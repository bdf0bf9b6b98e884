"""The sample of a regression of times to an event: rows of data with their follow-up.

The offset of a row is the logarithm of the part of all periods that it is at risk. The released life table
gives the effects of periods. A person may have any number of rows: what they add is bounded for the person as
a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from dpalgos.errors import InputError
from dpalgos.formula.columns import OF_ENDS, public_rows
from dpalgos.formula.design import FormulaDesign
from dpalgos.formula.survival_time import SurvivalTime
from dpalgos.rows.follow_up import FollowUpOfRows
from dpalgos.survival.periods import FollowedRows
from dpalgos.typing import BoolArray, FloatArray, IntArray

_ROWS_AT_ONCE = 2**15


def person_sample(
    design: FormulaDesign,
    rows: Mapping[str, Any],
    codes: IntArray,
    *,
    is_clipped: BoolArray | None = None,
    row_weights: FloatArray | None = None,
    is_complete: BoolArray | None = None,
) -> dict[str, Any]:
    """Return rows of data with their follow-up, by codes (n,) of persons, as keywords of ``Sample``.

    ``is_clipped`` (n,) says which rows have a clipped covariate, and ``is_complete`` (n,) which are used.
    Another one is a row of zeros that is not followed.
    """
    time = design.survival
    assert time is not None
    if not len(codes):
        raise InputError("frame must have rows, got none")
    order = slice(None) if (codes[1:] >= codes[:-1]).all() else np.argsort(codes, kind="stable")
    rows, codes = {name: np.asarray(each)[order] for name, each in rows.items()}, codes[order]
    parts = list(_parts(codes, _ROWS_AT_ONCE))
    followed = _followed(time, {name: rows[name] for name in time.names}, codes, parts)
    covariates = {name: each for name, each in rows.items() if name in time.columns}
    X, y, end = _columns(design, covariates, codes, parts, followed), followed.response, followed.end
    is_used = None if is_complete is None else is_complete[order][followed.row]
    if is_used is not None:
        X[~is_used] = 0.0
        y, end = np.where(is_used, y, 0.0), np.where(is_used, end, followed.begin)
    lengths = np.diff(time.periods) / (time.periods[-1] - time.periods[0])
    follow_up = FollowUpOfRows.of_lengths(followed.begin, end, lengths, _time_columns(design, covariates))
    assert design.offset_bounds is not None
    least = design.offset_bounds[0]
    X[:, 0] += np.log(follow_up.exposure, out=np.full(len(X), least), where=follow_up.exposure > 0)
    for each in (X, y):
        each.flags.writeable = False  # so that it is not copied
    return {
        "X": X,
        "y": y,
        "moved": None if is_clipped is None else marked_rows(is_clipped[order][followed.row], X.shape[1]),
        "user_ids": followed.person,
        "row_weights": None if row_weights is None else row_weights[order][followed.row],
        "row_shares": followed.share,
        "follow_up": follow_up,
    }


def _columns(
    design: FormulaDesign,
    rows: Mapping[str, Any],
    codes: IntArray,
    parts: Sequence[slice],
    followed: FollowedRows,
) -> FloatArray:
    """Return the columns of followed rows at zero of all functions of operational time, (m, d)."""
    assert design.survival is not None
    n_columns, X, end = len(design.survival.time_columns), None, 0
    for part in parts:
        own = {name: each[part] for name, each in rows.items()}
        time_rows = design.matrix(design.survival.at(own, np.zeros((part.stop - part.start, n_columns))))
        X = np.empty((len(followed.row), time_rows.shape[1])) if X is None else X
        start, end = end, int(np.searchsorted(followed.person, codes[part.stop - 1], side="right"))
        X[start:end] = time_rows[followed.row[start:end] - part.start]
    assert X is not None
    return X


def _time_columns(design: FormulaDesign, names: Mapping[str, Any]) -> FloatArray:
    """Return what a unit of each function of operational time adds to the covariates, (B, d).

    It is the same for all rows, except for rounding: from a row of data, it would pass on its last bits.
    """
    time = design.survival
    assert time is not None
    n_columns = len(time.time_columns)
    public = public_rows({name: time.columns[name] for name in names}, OF_ENDS)
    one = {name: np.repeat(each[:1], n_columns + 1) for name, each in public.items()}
    columns = design.matrix(time.at(one, np.eye(n_columns + 1, n_columns)))
    return np.asarray(columns[:-1] - columns[-1])[:, 1:]  # not the offset


def _followed(
    time: SurvivalTime, times: Mapping[str, Any], codes: IntArray, parts: Sequence[slice]
) -> FollowedRows:
    """Return the follow-up of rows, made a few persons at a time."""
    follow_ups = [
        time.followed({name: each[part] for name, each in times.items()}, codes[part], part.start)
        for part in parts
    ]
    names = [each.name for each in fields(FollowedRows)]
    return FollowedRows(
        **{name: np.concatenate([getattr(each, name) for each in follow_ups]) for name in names}
    )


def _parts(codes: IntArray, size: int) -> Iterator[slice]:
    """Yield rows of data of whole persons, about ``size`` at a time."""
    n, start = len(codes), 0
    while start < n:
        end = min(start + size, n)
        end = int(np.searchsorted(codes, codes[end - 1], side="right"))
        yield slice(start, end)
        start = end


def marked_rows(is_clipped: BoolArray, n_columns: int) -> Any:
    """Return marks of all cells of rows (n,) that have a clipped number, without a copy for each column."""
    return np.broadcast_to(is_clipped.astype(np.int8)[:, None], (len(is_clipped), n_columns))
