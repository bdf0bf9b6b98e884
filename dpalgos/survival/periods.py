"""Persons followed over time, as rows within periods and as cells of a table of counts.

A person is followed from ``start`` to ``stop``, when the event happens or the person is censored. Cut points
c_0 < … < c_K are public. The rules hold for each person alone:

- A time that differs from a cut point by rounding is that cut point (:func:`rounded_to_cuts`).
- With a public ``resolution`` u, times are multiples of u, and an event at t happened in (t − u, t]. It is
  counted at t − u/2.
- A person who leaves at a cut point leaves in the period before it.
- A person followed to c_K or beyond is censored there, except for an event at c_K.
- In a regression, a person followed for no time, or only before c_0 or after c_K, has one row with the
  minimum exposure, 10⁻⁶ of its period. An event at c_0 counts.

A row has covariates that were known when it began. A person's rows have shares that sum to 1. So sums
weighted by shares count each person once, however rows are divided.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.typing import BoolArray, FloatArray, IntArray

LEAST_EXPOSURE = 1e-6  # of a period: scores hardly depend on how rows are divided
_ROUNDING = 1e-9  # of the range of cut points
_SINGLE, _NARROW = 2.0**-24, 1e-4  # relative rounding of single precision; at most so much of a period


def rounded_to_cuts(times: FloatArray, periods: FloatArray) -> FloatArray:
    """Return times, (n,), with the cut point in place of a time that differs from it by rounding.

    The tolerance is 10⁻⁹ of the range of cut points. It is at least the rounding of single precision, as far
    as that is below 1/10,000 of the shortest period.
    """
    times, cuts = np.asarray(times, dtype=float), np.asarray(periods, dtype=float)
    above = np.clip(np.searchsorted(cuts, times), 1, len(cuts) - 1)
    near = np.where(times - cuts[above - 1] < cuts[above] - times, cuts[above - 1], cuts[above])
    single = np.minimum(_SINGLE * np.abs(near), _NARROW * np.diff(cuts).min())
    tolerance = np.maximum(_ROUNDING * (cuts[-1] - cuts[0]), single)
    return np.asarray(np.where(np.abs(times - near) <= tolerance, near, times))


def _moments_of_events(
    stop: FloatArray, event: BoolArray, cuts: FloatArray, resolution: float
) -> tuple[FloatArray, BoolArray]:
    """Return when persons leave, (n,), and whether that is an event between the first and last cut point."""
    stop = rounded_to_cuts(stop, cuts)
    happened = event & (stop <= cuts[-1]) & (stop >= cuts[0])
    return np.where(happened, np.maximum(stop - resolution / 2, cuts[0]), stop), happened


@dataclass(frozen=True, eq=False, kw_only=True)
class FollowedRows:
    """Rows of data in the order of persons and time, with their follow-up.

    Attributes
    ----------
    person, row : (m,) array
        The code of the person, and the row of data.
    begin, end : (m,) array
        Places (:mod:`dpalgos.rows.follow_up`).
    response : (m,) array
        0 without an event, else 1 plus the last part of the exposure in the last period in which the event
        happened.
    share : (m,) array
        The part of the person's follow-up: it sums to 1.
    """

    person: IntArray
    row: IntArray
    begin: FloatArray
    end: FloatArray
    response: FloatArray
    share: FloatArray


def until_first_event(
    start: FloatArray, stop: FloatArray, event: BoolArray, codes: IntArray, periods: FloatArray
) -> tuple[IntArray, FloatArray, BoolArray]:
    """Return the rows of persons that begin before their first event, when these end, and the events.

    An event before c_0 or after c_K is none. Of events at one time, that of the first row counts.
    """
    cuts = np.asarray(periods, dtype=float)
    start, stop = rounded_to_cuts(start, cuts), rounded_to_cuts(stop, cuts)
    happened = np.flatnonzero(event & (stop >= cuts[0]) & (stop <= cuts[-1]))
    first: FloatArray = np.full(int(codes.max(initial=0)) + 1, np.inf)
    np.minimum.at(first, codes[happened], stop[happened])
    happened = happened[stop[happened] <= first[codes[happened]]]
    is_first: BoolArray = np.zeros(len(stop), dtype=bool)
    is_first[happened[np.unique(codes[happened], return_index=True)[1]]] = True
    row_numbers = np.flatnonzero((start < first[codes]) | is_first)
    return row_numbers, np.minimum(stop, first[codes])[row_numbers], is_first[row_numbers]


def followed_rows(
    start: FloatArray,
    stop: FloatArray,
    event: BoolArray,
    codes: IntArray,
    periods: FloatArray,
    resolution: float = 0.0,
) -> FollowedRows:
    """Return the follow-up of rows (n,) of persons, by their ``codes`` (n,).

    A row that is followed for no time is left out, unless the person has no other row. A person's rows depend
    on no other person. With a ``resolution`` u, an event at t happened within u before it.
    """
    cuts = np.asarray(periods, dtype=float)
    stop, event = _moments_of_events(stop, event, cuts, 0.0)
    start, stop = np.clip(rounded_to_cuts(start, cuts), cuts[0], cuts[-1]), np.clip(stop, cuts[0], cuts[-1])
    counts = (stop > start) | event
    is_followed = np.bincount(codes, weights=counts, minlength=int(codes.max()) + 1) > 0
    first = np.zeros(len(codes), dtype=bool)
    first[np.unique(codes, return_index=True)[1]] = True
    row_numbers = np.flatnonzero(counts | (first & ~is_followed[codes]))
    end = np.maximum(_places(stop[row_numbers], cuts), LEAST_EXPOSURE)
    begin = np.minimum(_places(start[row_numbers], cuts), end - LEAST_EXPOSURE)
    order = np.lexsort((event[row_numbers], end, begin, codes[row_numbers]))
    row_numbers, begin, end = row_numbers[order], begin[order], end[order]
    times, person = np.interp(np.stack([begin, end]), np.arange(len(cuts)), cuts), codes[row_numbers]
    exposure = times[1] - times[0]
    last = times[1] - np.maximum(times[0], cuts[np.ceil(end).astype(np.int64) - 1])
    return FollowedRows(
        person=person,
        row=row_numbers,
        begin=begin,
        end=end,
        response=np.where(event[row_numbers], 1.0 + np.minimum(resolution / last, 1.0), 0.0),
        share=exposure / np.bincount(person, exposure)[person],
    )


def _places(times: FloatArray, cuts: FloatArray) -> FloatArray:
    """Return the places of times within the cut points."""
    period = np.clip(np.searchsorted(cuts, times, side="right") - 1, 0, len(cuts) - 2)
    return np.asarray(period + (times - cuts[period]) / np.diff(cuts)[period])


def cell_rows(
    time: FloatArray,
    event: BoolArray,
    group: IntArray,
    n_groups: int,
    periods: FloatArray,
    resolution: float = 0.0,
) -> FloatArray:
    """Return a row for each person, (n, G · 2 · (3K + 1)), for ``cumulative_counts`` with times.

    Cells are by group, event before other exits, then by period; the last one is after c_K. Each chain of
    cells is followed by K columns of the centered part of the period that was spent at risk. Another K
    columns are 1/2 if the recorded time is the end of the period; the part is then 0. A person of no group (a
    code outside 0 … G − 1), or followed only before c_0, has a row of zeros.
    """
    cuts = np.asarray(periods, dtype=float)
    n_periods = len(cuts) - 1
    recorded = rounded_to_cuts(time, cuts)
    time, happened = _moments_of_events(time, event, cuts, resolution)
    period = np.searchsorted(cuts[1:], time, side="left")
    period = np.where(~happened & (time >= cuts[-1]), n_periods, period)
    known = np.flatnonzero((group >= 0) & (group < n_groups) & (time >= cuts[0]))
    first = (2 * group + ~happened) * (3 * n_periods + 1)
    rows = np.zeros((len(time), 2 * n_groups * (3 * n_periods + 1)))
    rows[known, (first + period)[known]] = 1.0
    inside = known[period[known] < n_periods]
    k = period[inside]
    spent = (time[inside] - cuts[k]) / (cuts[k + 1] - cuts[k])
    at_end = recorded[inside] == cuts[k + 1]
    column = first[inside] + n_periods + 1 + k
    rows[inside, column + n_periods * at_end] = np.where(at_end, 0.5, spent - 0.5)
    return rows
