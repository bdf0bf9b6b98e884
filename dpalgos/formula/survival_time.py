"""``Surv(time, event)`` in a formula: the columns, the public periods, and the follow-up of rows.

A regression of times to an event is a Poisson regression of follow-up within periods (Holford 1980;
Laird & Olivier 1981). Its offset is the logarithm of the exposure in operational time
(:mod:`dpalgos.central.preconditioned.life_table`). Its formula has the terms of the right side, and a slope
and a curve of the baseline in operational time. Declared columns may not have the name of an added one.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.answers.names import cut_names
from dpalgos.central.preconditioned.estimator import ALL, FIRST
from dpalgos.central.preconditioned.life_table import LEAST_PART
from dpalgos.coefficients import BASELINE
from dpalgos.errors import InputError, shown
from dpalgos.formula.allowed import SURVIVAL, Reading, call_of
from dpalgos.formula.columns import CategoryColumn, Declared, NumberColumn, how_to_declare
from dpalgos.spelling import as_levels
from dpalgos.survival.periods import (
    FollowedRows,
    cell_rows,
    followed_rows,
    until_first_event,
)
from dpalgos.typing import BoolArray, FloatArray, IntArray

FIRST_EVENT = "Follow-up of a person ends at the first event"
_FEW, _MANY, _MANY_PERSONS = 12, 16, 3_000.0  # periods by default, and the nμ from which there are many
BASELINE_TERMS = (
    "Intercept and baseline terms are the logarithm of the hazard over time at zero of all numbers and at "
    "reference levels"
)
_ROUNDING = 1e-9
_EARLY = 2.0  # the power by which cut points grow


@dataclass(frozen=True, eq=False)
class SurvivalTime:
    """A time to an event in a formula.

    Attributes
    ----------
    name : str
        ``Surv(…)`` as the formula writes it.
    start : str
        The column of entry times, or "".
    time, event : str
        The columns of times, and of whether the event happened then.
    periods : tuple of float
        The public cut points, K + 1.
    declared : mapping
        The declared columns of the formula.
    all_events : bool
        Whether all events of a person count. By default, follow-up ends at the first one.
    """

    name: str
    start: str
    time: str
    event: str
    periods: tuple[float, ...]
    declared: Declared = field(repr=False)
    all_events: bool = False

    @classmethod
    def of(
        cls, reading: Reading, declared: Declared, n_periods: int | None = None, size: float = np.inf
    ) -> SurvivalTime | None:
        """Return the time that is a formula's response, if it is one.

        By default, it has ``n_periods`` of equal length. Without that number, their number suits nμ, the
        ``size``, and early periods are shorter, as most persons are followed there. With entry times, there
        are many: covariates may change with time.
        """
        if not reading.response or call_of(reading.response)[0] != SURVIVAL:
            return None
        names = [reading.names.columns[ast.unparse(each)] for each in call_of(reading.response)[1]]
        columns = {name: declared[name] for name in (*reading.left, *reading.right)}
        *times, event = names
        text = reading.names.spell(reading.response)
        for name in times:
            if not isinstance(columns[name], NumberColumn):
                raise InputError(f"formula: {name!r} in {text} must be a number, got a category")
        start, time = times[0] if len(times) == 2 else "", columns[times[-1]]
        n_default = _MANY if start or size >= _MANY_PERSONS else _FEW
        assert isinstance(time, NumberColumn)
        first = columns[start].lower if start else 0.0  # type: ignore[union-attr]
        if not first < time.upper:
            raise InputError(
                f"bounds of {times[-1]!r} must have an upper one above {first:g}, the first time, got "
                f"{time.upper:g}"
            )
        periods = tuple(time.periods) or _default_periods(
            first, time.upper, n_periods or n_default, time.resolution, 1.0 if n_periods else _EARLY
        )
        _check_multiples(periods, time.resolution)
        columns |= {name: replace(columns[name], periods=periods) for name in times}  # type: ignore[arg-type]
        columns[event] = _event(event, columns[event])
        survival_time = cls(text, start, times[-1], event, periods, columns)
        if taken := [name for name in survival_time.added if name in columns]:
            raise InputError(f"formula: no column may be called {taken[0]!r}, which is computed; rename it")
        return survival_time

    @property
    def names(self) -> tuple[str, ...]:
        """Its columns."""
        return tuple(filter(None, (self.start, self.time, self.event)))

    @property
    def time_columns(self) -> tuple[str, ...]:
        """The names of the added columns of operational time: a slope, and with many periods a curve."""
        n_columns = min(len(self.labels) - 1, 1 + (len(self.labels) >= _MANY))
        return tuple(f"{self.name}: {each}" for each in BASELINE[:n_columns])

    @property
    def exposure(self) -> str:
        """The name of the added column of exposures."""
        return f"{self.name}: exposure"

    @property
    def added(self) -> tuple[str, ...]:
        """The names of the columns that are computed: event, operational time and exposure."""
        return self.name, *self.time_columns, self.exposure

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The periods in words, (a, b]."""
        return tuple(f"({low}, {high}]" for low, high in pairwise(cut_names(self.periods)))

    @cached_property
    def columns(self) -> dict[str, NumberColumn | CategoryColumn]:
        """The declared columns of the regression."""
        columns = {name: each for name, each in self.declared.items() if name not in self.names}
        columns[self.name] = NumberColumn(0.0, 1.0)
        columns |= {name: NumberColumn(-1.0, 1.0) for name in self.time_columns}
        columns[self.exposure] = NumberColumn(LEAST_PART, 1.0)
        return columns

    def nested(self, reading: Reading) -> Reading:
        """Return a nested formula as one of the regression; it may leave out response and offset."""
        other = SurvivalTime.of(reading, self.declared)
        if reading.response and (
            other is None or (other.start, other.time, other.event) != (self.start, self.time, self.event)
        ):
            raise InputError(
                f"formula must have the response of the release, {self.name}, got "
                f"{reading.names.spell(reading.response)}; a nested model only leaves out covariates"
            )
        of_rows = self.of_rows(reading)
        return of_rows if reading.offset else replace(of_rows, offset="")

    def of_rows(self, reading: Reading) -> Reading:
        """Return the formula with operational time as terms, and the exposure as offset."""
        names = replace(
            reading.names,
            columns=dict(reading.names.columns),
            spellings=dict(reading.names.spellings),
        )
        event, exposure = (
            names.alias(names.columns, each, each).strip() for each in (self.name, self.exposure)
        )
        added = [
            (names.alias(names.columns, each, label).strip(),)
            for each, label in zip(self.time_columns, BASELINE, strict=False)
        ]
        offset = " + ".join(filter(None, [reading.offset, f"log({exposure})"]))
        return replace(
            reading,
            names=names,
            response=event if reading.response else "",
            terms=(*reading.terms, *added),
            offset=offset,
        )

    def settings(self, keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings of the regression; refuse those that would contradict it."""
        keywords = dict(keywords)
        events = keywords.pop("events", ALL if self.all_events else FIRST)
        if events not in (FIRST, ALL):
            raise InputError(f"events must be {FIRST!r} or {ALL!r}, got {shown(events)}")
        fixed = {"family": "poisson", "n_periods": len(self.labels)}
        settings = {**fixed, **keywords, "counted_events": events}
        for name, value in fixed.items():
            if settings[name] != value:
                raise InputError(f"{name} must be left out with {self.name}, got {shown(settings[name])}")
        for name in ("person_weight", "max_rows"):
            if settings.pop(name, None) is not None:
                raise InputError(f"{name} must be left out with {self.name}: a person counts once")
        return settings

    def happened(self, rows: Mapping[str, Any]) -> BoolArray:
        """Return whether the event of each person happened, (n,); refuse what is none of its levels."""
        events = as_levels(rows[self.event], self.event_levels)
        if events is None:
            raise InputError(f"column {self.event!r} must be one of {shown(self.event_levels)} in every row")
        return np.asarray(events == self.event_levels[1])

    def followed(self, rows: Mapping[str, Any], codes: IntArray, first_row: int = 0) -> FollowedRows:
        """Return the follow-up of rows of persons, who may have several; ``first_row`` is added to rows."""
        stop, cuts = np.asarray(rows[self.time], dtype=float), np.array(self.periods)
        start = np.asarray(rows[self.start] if self.start else np.full_like(stop, cuts[0]), dtype=float)
        if self.start and (start > stop).any():
            raise InputError(
                f"{self.start!r} must not be later than {self.time!r}: {SURVIVAL}(start, stop, event) has "
                "the entry first; swap the two, or correct the rows"
            )
        event, own = self.happened(rows), codes - codes[0]
        row_numbers: IntArray = np.arange(len(stop))
        if not self.all_events:
            row_numbers, stop, event = until_first_event(start, stop, event, own, cuts)
        start, own = start[row_numbers], own[row_numbers]
        # Whether all of a unit's time is at risk: a person is at risk after an event that is not the last.
        resolution = 0.0 if self.all_events else self.resolution
        follow_up = followed_rows(start, stop, event, own, cuts, resolution)
        return replace(
            follow_up, person=follow_up.person + codes[0], row=row_numbers[follow_up.row] + first_row
        )

    def at(self, rows: Mapping[str, Any], times: FloatArray) -> dict[str, Any]:
        """Return columns of rows (n,) at operational times (n, B), of an exposure of 1."""
        columns = {name: np.asarray(rows[name]) for name in self.columns if name in rows}
        columns[self.name] = np.zeros(len(times))
        columns[self.exposure] = np.ones(len(times))
        return columns | dict(zip(self.time_columns, times.T, strict=True))

    def cells(self, rows: Mapping[str, Any], codes: IntArray, n_groups: int) -> FloatArray:
        """Return the row of each person, (n, G · 2 · (2K + 1)), for counts and times at risk by group."""
        time, cuts = np.asarray(rows[self.time], dtype=float), np.array(self.periods)
        return cell_rows(time, self.happened(rows), codes, n_groups, cuts, self.resolution)

    @property
    def resolution(self) -> float:
        """The public number of which times are multiples; 0 if they are not."""
        declared = self.declared[self.time]
        assert isinstance(declared, NumberColumn)
        return declared.resolution

    @property
    def event_levels(self) -> tuple[Any, Any]:
        """The two levels of the event; the second one is that it happened."""
        declared = self.declared[self.event]
        assert isinstance(declared, CategoryColumn)
        return declared.levels


def size_of(n_persons: int, epsilon: float = 1.0, delta: float = 1e-6) -> float:
    """Return nμ of a public number of persons and a budget."""
    return n_persons * gaussian_mu(epsilon, delta)


def _default_periods(
    first: float, last: float, n_periods: int, resolution: float, power: float
) -> tuple[float, ...]:
    """Return cut points that grow by a power, at multiples of a resolution."""
    cuts = first + (last - first) * np.linspace(0, 1, n_periods + 1) ** power
    if resolution:
        cuts = np.unique(np.round(cuts / resolution)) * resolution
    if len(cuts) < 2:
        raise InputError(f"resolution must be at most {last - first:g}, the longest time, got {resolution:g}")
    return tuple(cuts.tolist())


def _check_multiples(periods: tuple[float, ...], resolution: float) -> None:
    """Refuse cut points within the resolution of times: an event would have no period."""
    multiples = np.array(periods) / (resolution or 1.0)
    off = np.flatnonzero(
        np.abs(multiples - np.round(multiples)) > _ROUNDING * np.maximum(1, np.abs(multiples))
    )
    if resolution and len(off):
        raise InputError(
            f"periods must be multiples of resolution = {resolution:g}, got "
            f"{periods[int(off[0])]:g}; an event at t happened in the time of that length before t"
        )


def _event(name: str, declared: NumberColumn | CategoryColumn) -> CategoryColumn:
    """Return the two levels of an event; numbers are 0 and 1."""
    if isinstance(declared, NumberColumn):
        if (declared.lower, declared.upper) != (0, 1):
            raise InputError(
                f"the event {name!r} must be 0 or 1, got bounds {(declared.lower, declared.upper)}; declare "
                f"other codes as levels, the event last, e.g. {how_to_declare(name, [1, 2])}"
            )
        return CategoryColumn((0, 1))
    if len(declared.levels) != 2:
        raise InputError(f"the event {name!r} must have two levels, got {len(declared.levels)}")
    return declared
