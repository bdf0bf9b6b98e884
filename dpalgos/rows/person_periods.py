"""Persons followed over time, as rows of person-periods and as cells of a table of counts.

A person is followed from ``start`` to ``stop``, when the event happens or the person is censored. Cut points
c_0 < … < c_K are public. The rules hold for each person alone:

- An event at a cut point counts in the period before it, a person censored there in the period after it.
- A person followed beyond c_K is censored there.
- A person followed for no time, or only before c_0 or after c_K, has one row with the minimum exposure, 1/50
  of its period. An event at c_0 counts. So every person has from 1 to K rows.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.typing import BoolArray, FloatArray, IntArray

LEAST_EXPOSURE = 0.02  # of a period


@dataclass(frozen=True, eq=False, kw_only=True)
class PersonPeriods:
    """Rows of person-periods: person, period, exposure, and whether the event happens, (m,) each."""

    person: IntArray
    period: IntArray
    exposure: FloatArray
    event: BoolArray


def person_periods(
    start: FloatArray, stop: FloatArray, event: BoolArray, periods: FloatArray
) -> PersonPeriods:
    """Return the rows of persons, (n,) each, ordered by person and period."""
    cuts, last = np.asarray(periods, dtype=float), len(periods) - 2
    event = event & (stop <= cuts[-1]) & (stop >= cuts[0])
    start, stop = np.clip(start, cuts[0], cuts[-1]), np.clip(stop, cuts[0], cuts[-1])
    end = np.clip(np.searchsorted(cuts, stop, side="left") - 1, 0, last)
    begin = np.minimum(np.clip(np.searchsorted(cuts, start, side="right") - 1, 0, last), end)
    n_rows = end - begin + 1
    person = np.repeat(np.arange(len(stop)), n_rows)
    period = np.arange(len(person)) - np.repeat(np.cumsum(n_rows) - n_rows - begin, n_rows)
    followed = np.minimum(stop[person], cuts[period + 1]) - np.maximum(start[person], cuts[period])
    return PersonPeriods(
        person=person,
        period=period,
        exposure=np.maximum(followed, LEAST_EXPOSURE * np.diff(cuts)[period]),
        event=event[person] & (period == end[person]),
    )


def exposure_bounds(periods: FloatArray) -> tuple[float, float]:
    """Return the public bounds of the exposure of a person-period."""
    widths = np.diff(np.asarray(periods, dtype=float))
    return LEAST_EXPOSURE * float(widths.min()), float(widths.max())


def cell_indicators(
    time: FloatArray, event: BoolArray, group: IntArray, n_groups: int, periods: FloatArray
) -> FloatArray:
    """Return the cell of each person as a row of indicators, (n, G · 2 · (K + 1)).

    Cells are by group, event before censored, then by period; the last period is after c_K. A person of no
    group (a code outside 0 … G − 1), or followed only before c_0, is in no cell.
    """
    first, *cuts = np.asarray(periods, dtype=float)
    n_periods = len(cuts) + 1
    side = np.where(
        event, np.searchsorted(cuts, time, side="left"), np.searchsorted(cuts, time, side="right")
    )
    cell = (2 * group + ~event) * n_periods + side
    indicators = np.zeros((len(time), 2 * n_groups * n_periods))
    known = np.flatnonzero((group >= 0) & (group < n_groups) & (time >= first))
    indicators[known, cell[known]] = 1.0
    return indicators
