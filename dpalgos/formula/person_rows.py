"""The sample of a regression of times to an event: pieces of rows of data within periods.

The columns of a piece are those of its row of data. Its offset is the logarithm of the part of all periods
that it is at risk. The released life table gives the effects of periods. A person may have any number of
pieces: what they add is bounded for the person as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dpalgos.errors import InputError
from dpalgos.formula.columns import OF_ENDS, public_rows
from dpalgos.formula.design import FormulaDesign
from dpalgos.formula.survival_time import SurvivalTime
from dpalgos.rows.pieces import PiecesOfRows
from dpalgos.rows.sample import marked_rows
from dpalgos.survival.periods import Pieces
from dpalgos.typing import BoolArray, FloatArray, IntArray

_ROWS_AT_ONCE = 2**13


def person_sample(
    design: FormulaDesign,
    rows: Mapping[str, Any],
    codes: IntArray,
    *,
    is_clipped: BoolArray | None = None,
    row_weights: FloatArray | None = None,
    is_complete: BoolArray | None = None,
) -> dict[str, Any]:
    """Return the pieces of rows of data, by codes (n,) of persons, as keywords of ``Sample``.

    ``is_clipped`` (n,) says which rows have a clipped covariate, and ``is_complete`` (n,) which are used. The
    pieces of another one are rows of zeros, of the lowest exposure.
    """
    time = design.survival
    assert time is not None
    if not len(codes):
        raise InputError("frame must have rows, got none")
    order = np.argsort(codes, kind="stable")
    rows, codes = {name: np.asarray(each)[order] for name, each in rows.items()}, codes[order]
    parts = list(_parts(codes, _ROWS_AT_ONCE))
    pieces = _pieces_of(time, {name: rows[name] for name in time.names}, codes, parts)
    lengths = np.diff(time.periods)
    part = pieces.exposure / lengths[pieces.period]
    lengths = lengths / lengths.sum()
    covariates = {name: each for name, each in rows.items() if name in time.columns}
    of_rows = np.concatenate(
        [_columns(design, {name: each[some] for name, each in covariates.items()}) for some in parts]
    )
    X, y = of_rows[pieces.row], pieces.response
    X[:, 0] += np.log(part * lengths[pieces.period])
    if is_complete is not None:
        left_out = ~is_complete[order][pieces.row]
        X[left_out] = 0.0
        assert design.offset_bounds is not None
        X[left_out, 0] = design.offset_bounds[0]  # no hazard, so that the limit of a person is not reached
        y, part = np.where(left_out, 0.0, y), np.where(left_out, 0.0, part)
    for each in (X, y):
        each.flags.writeable = False  # so that it is not copied
    return {
        "X": X,
        "y": y,
        "moved": None if is_clipped is None else marked_rows(is_clipped[order][pieces.row], X.shape[1]),
        "user_ids": pieces.person,
        "row_weights": None if row_weights is None else row_weights[order][pieces.row],
        "row_shares": pieces.share,
        "pieces": PiecesOfRows(
            period=pieces.period, part=part, lengths=lengths, time_columns=_time_columns(design, covariates)
        ),
    }


def _columns(design: FormulaDesign, rows: Mapping[str, Any]) -> FloatArray:
    """Return the columns of rows at zero of all functions of operational time, (n, d)."""
    assert design.survival is not None
    n, n_columns = len(next(iter(rows.values()))), len(design.survival.time_columns)
    return design.matrix(design.survival.at(rows, np.zeros((n, n_columns))))


def _time_columns(design: FormulaDesign, names: Mapping[str, Any]) -> FloatArray:
    """Return what a unit of each function of operational time adds to the columns, (B, d).

    It is the same for all rows, except for rounding: from a row of data, it would pass on its last bits.
    """
    time = design.survival
    assert time is not None
    n_columns = len(time.time_columns)
    public = public_rows({name: time.columns[name] for name in names}, OF_ENDS)
    one = {name: np.repeat(each[:1], n_columns + 1) for name, each in public.items()}
    found = design.matrix(time.at(one, np.eye(n_columns + 1, n_columns)))
    return np.asarray(found[:-1] - found[-1])


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
        end = min(start + size, n)
        end = int(np.searchsorted(codes, codes[end - 1], side="right"))
        yield slice(start, end)
        start = end
