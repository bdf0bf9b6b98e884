"""Tables by group from one release of numbers by group: survival curves, and the baseline table of a paper.

A person counts in the person's own group alone. All constants are public.

- Survival curves: cells of ``cumulative_counts``, by the period of the event or of censoring, with the part
  of the period that was spent at risk.
- Baseline table, by ``group_sums``: the size of the group and persons in each level of a category. A number
  has its sum and persons in ordered cells. The public bounds become −1 and 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpalgos.accounting.events import Event
from dpalgos.answers.baseline import BaselineTable, Variable, row_names
from dpalgos.central.cumulative_counts import noise_covariance, part_weights
from dpalgos.central.group_sums import MISSING
from dpalgos.errors import InputError, shown
from dpalgos.formula.code import read_declared
from dpalgos.formula.columns import (
    CategoryColumn,
    Declared,
    NumberColumn,
    declared_of,
    how_to_declare,
    plain_columns,
)
from dpalgos.formula.survival_time import SurvivalTime
from dpalgos.spelling import quoted
from dpalgos.survival.curves import SurvivalCurves, name_at
from dpalgos.typing import FloatArray

_N_PERIODS = 16  # of curves


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupColumns(ABC):
    """The columns that an estimator of groups reads, computed from the declared columns of a formula.

    Attributes
    ----------
    formula : str
    group : str
        The column of groups, or "" for one group.
    declared : mapping
        The declared columns of the formula.
    """

    formula: str
    group: str
    declared: Declared
    times: ClassVar[tuple[str, ...]] = ()  # columns of times
    joins_rows: ClassVar[bool] = False  # each row is a person
    sources: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # declared columns of numbers that are clipped
    counts_missing: ClassVar[tuple[str, ...]] = ()  # declared columns whose missing cells are counted
    largest: ClassVar[float] = 1.0  # the largest value in the columns

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""

    @abstractmethod
    def matrix(self, rows: Mapping[str, Any]) -> FloatArray:
        """Return the columns, (n, d)."""

    def values(self, rows: Mapping[str, Any]) -> dict[str, FloatArray]:
        """Return the columns by name, (n,) each."""
        return dict(zip(self.names, self.matrix(rows).T, strict=True))

    @property
    def uses(self) -> tuple[str, ...]:
        """The declared columns that are needed to compute :attr:`names`."""
        return tuple(self.declared)

    def uses_of(self, _: str) -> tuple[str, ...]:
        """Return the declared columns that are needed to compute one of :attr:`names`."""
        return self.uses

    @property
    def described(self) -> dict[str, Any]:
        """Everything that determines the columns :attr:`names`, as plain data."""
        return {**self.declaration, "formula": self.names, "uses": self.uses}

    @property
    @abstractmethod
    def declaration(self) -> dict[str, Any]:
        """The formula with its declared columns, as plain data."""

    @property
    def groups(self) -> tuple[Any, ...]:
        """The public levels of the group."""
        declared = self.declared[self.group] if self.group else CategoryColumn(("all",))
        if not isinstance(declared, CategoryColumn):
            raise InputError(
                f"formula: {self.group!r} must be a category, got numbers; declare its levels, e.g. "
                + how_to_declare(self.group, ["a", "b"])
            )
        return declared.levels

    def _codes(self, rows: Mapping[str, Any]) -> Any:
        """Return the number of the group of each person, (n,); −1 for none."""
        if not self.group:
            return np.zeros(len(rows[self.uses[0]]), dtype=int)
        values = np.asarray(rows[self.group])
        return np.select([values == each for each in self.groups], list(range(len(self.groups))), -1)


class GroupNumbers(GroupColumns):
    """The numbers of persons by group that one estimator releases, and the table that is made from them."""

    kind: ClassVar[str]  # the key of a release file, such as "survival"
    estimator: ClassVar[str]
    survival: ClassVar[SurvivalTime | None] = None  # the time to an event; None for a baseline table

    @property
    @abstractmethod
    def keywords(self) -> dict[str, Any]:
        """The public keywords of the estimator."""

    @property
    def released_names(self) -> tuple[str, ...]:
        """The names of the numbers that are released."""
        return self.names

    @property
    @abstractmethod
    def terms(self) -> tuple[str, ...]:
        """The names of the rows of the table, whose precision can be planned."""

    @property
    def declaration(self) -> dict[str, Any]:
        """Kind, formula and declared columns as plain data, which :func:`numbers_of_declaration` reads."""
        return {"kind": self.kind, "formula": self.formula, "columns": plain_columns(self.declared)}

    @abstractmethod
    def result(self, estimate: Any, noise_std: float, n: int, level: float | None, **facts: Any) -> Any:
        """Return the table from what was released of n persons, (d,), with noise of one size."""


def noise_std_of(events: Sequence[Event]) -> float:
    """Return the noise standard deviation of the one release of a table."""
    (event,) = events
    assert event.noise_scale is not None
    return float(np.max(event.noise_scale))


@dataclass(frozen=True, eq=False, kw_only=True)
class SurvivalCells(GroupNumbers):
    """Cells of survival curves by group: events and other exits by period, and parts of periods at risk."""

    kind = "survival"
    estimator = "cumulative_counts"

    @cached_property
    def survival(self) -> SurvivalTime:  # type: ignore[override]
        """The time, the event, and the public periods."""
        time = SurvivalTime.of(read_declared(self.formula, self.declared), self.declared, _N_PERIODS)
        if time is None or time.start:
            raise InputError(f"formula must be like 'Surv(time, event) ~ arm', got {shown(self.formula)}")
        return time

    @property
    def terms(self) -> tuple[str, ...]:
        """The names of survival at the cut points, by group."""
        return tuple(
            name_at(each, time, self.group, self.survival.periods)
            for each in self.groups
            for time in self.survival.periods[1:]
        )

    @property
    def ratio_names(self) -> tuple[str, ...]:
        """The names of the hazard ratios to the first group, as a regression on the group has them."""
        return tuple(f"{self.group}[T.{each}]" for each in self.groups[1:])

    def check_ratios(self, formula: str) -> None:
        """Refuse a formula whose coefficients are not the hazard ratios of the curves."""
        right = f"{self.survival.name} ~ {quoted(self.group)}"
        fault = f"formula must be that of the curves, '{right}', got {shown(formula)}"
        try:
            other = group_numbers(self.kind, formula, self.declared)
        except InputError:
            raise InputError(fault) from None
        assert isinstance(other, SurvivalCells)
        if not self.group or (other.group, other.survival.names) != (self.group, self.survival.names):
            raise InputError(fault)

    @property
    def times(self) -> tuple[str, ...]:  # type: ignore[override]
        """The column of times: a person followed beyond the last cut point is censored there."""
        return (self.survival.time,)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, of one group after another."""
        periods = self.survival.labels
        parts = [f"parts of {period} at risk" for period in periods]
        parts += [f"half of those at the end of {period}" for period in periods]
        cells = [f"in {period}" for period in (*periods, f"after {self.survival.periods[-1]:g}")]
        of_group = [f"{ending} {each}" for ending in ("events", "censored") for each in (*cells, *parts)]
        return tuple(f"~ {group}, {name}" for group in self.groups for name in of_group)

    @property
    def keywords(self) -> dict[str, Any]:
        """The public keywords of the estimator."""
        return {"chain": len(self.survival.periods), "with_times": True}

    def matrix(self, rows: Mapping[str, Any]) -> FloatArray:
        """Return the columns :attr:`names`, (n, d)."""
        return self.survival.cells(rows, self._codes(rows), len(self.groups))

    def result(
        self, estimate: Any, noise_std: float, n: int, level: float | None, **facts: Any
    ) -> SurvivalCurves:
        """Return the curves from what was released."""
        return released_curves(
            estimate,
            noise_std,
            self.survival.periods,
            self.groups,
            group=self.group,
            time=self.survival.time,
            resolution=self.survival.resolution,
            level=level or 0.95,
            **facts,
        )


def released_curves(
    estimate: Any, noise_std: float, periods: Sequence[float], groups: Sequence[Any], **facts: Any
) -> SurvivalCurves:
    """Return the curves of a release of ``cumulative_counts`` with times."""
    chain = len(periods)
    released = np.asarray(estimate).reshape(len(groups), 2, -1)
    if released.shape[-1] == 2 * chain - 1:  # version 4.0: those who leave at a cut point are in the parts
        released = np.pad(released, ((0, 0), (0, 0), (0, chain - 1)))
    if released.shape[-1] != 3 * chain - 2:
        raise InputError(
            "the record holds counts without times at risk, of version 3.0; its curves assume when in a "
            "period persons leave: release them again"
        )
    counts, sums, ends = np.split(released, [chain, 2 * chain - 1], axis=-1)
    return SurvivalCurves(
        counts=counts,
        sums=sums,
        ends=ends,
        noise=noise_covariance(chain, noise_std),
        noise_of_sums=noise_std / part_weights(chain),
        periods=tuple(periods),
        groups=tuple(groups),
        **facts,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class BaselineNumbers(GroupNumbers):
    """Columns of a baseline table: the code of the group, then of each variable its level or its number.

    If a variable may lack cells, its missing cells are counted. Columns are in order of the names of the
    variables. Therefore the order of a formula does not change what is released. The table has the order of
    the formula.
    """

    kind = "table1"
    estimator = "group_sums"

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables: categories with their levels, and numbers with their bounds."""
        return tuple(
            Variable(name, each.levels, may_lack=each.may_lack)
            if isinstance(each, CategoryColumn)
            else Variable(name, (), each.lower, each.upper, each.may_lack, each.resolution)
            for name, each in self.declared.items()
            if name != self.group
        )

    @property
    def uses(self) -> tuple[str, ...]:
        """The declared columns that are needed to compute :attr:`names`."""
        return (self.group, *(each.name for each in self._sorted))

    @property
    def sources(self) -> Mapping[str, tuple[str, ...]]:  # type: ignore[override]
        """The declared column of each number, which may be clipped."""
        return {f"~ {each.name}": (each.name,) for each in self.variables if not each.levels}

    @property
    def described(self) -> dict[str, Any]:
        """The same without resolutions, which only round what was released."""
        plain = super().described
        columns = {
            name: {key: value for key, value in each.items() if key != "resolution"}
            for name, each in plain["columns"].items()
        }
        return {**plain, "columns": columns}

    @property
    def counts_missing(self) -> tuple[str, ...]:  # type: ignore[override]
        """The variables that may lack cells."""
        return tuple(each.name for each in self.variables if each.may_lack)

    @property
    def _sorted(self) -> list[Variable]:
        return sorted(self.variables, key=lambda each: each.name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that are computed from the rows, in order of the variables' names."""
        return tuple(f"~ {name}" for name in (self.group, *(each.name for each in self._sorted)))

    @property
    def released_names(self) -> tuple[str, ...]:
        """The names of the released sums."""
        of_group = ["n", *(f"{each.name}: {part}" for each in self._sorted for part in each.parts)]
        return tuple(f"~ {group}, {name}" for group in self.groups for name in of_group)

    @property
    def largest(self) -> float:  # type: ignore[override]
        """The largest value in the columns :attr:`names`, a code."""
        return float(max(MISSING, *self.keywords["levels"]))

    @property
    def terms(self) -> tuple[str, ...]:
        """The names of the statistics, by group."""
        return tuple(row_names(self.variables, self.groups))

    @property
    def keywords(self) -> dict[str, Any]:
        """The public keywords of the estimator."""
        return {"levels": (len(self.groups), *(each.code for each in self._sorted))}

    def matrix(self, rows: Mapping[str, Any]) -> FloatArray:
        """Return the columns :attr:`names`, (n, d)."""
        columns = [each.numbers(rows[each.name]) for each in self._sorted]
        return np.column_stack([self._codes(rows) + 1.0, *columns])

    def result(
        self, estimate: Any, noise_std: float, n: int, level: float | None, **facts: Any
    ) -> BaselineTable:
        """Return the table from what was released."""
        sums = np.asarray(estimate).reshape(len(self.groups), -1)
        if sums.shape[1] < 1 + sum(len(each.parts) for each in self.variables):
            raise InputError(
                "the record holds sums without persons outside the bounds, of version 4.0 or before; release "
                "them again"
            )
        ends = np.cumsum([1, *(len(each.parts) for each in self._sorted)])
        parts = dict(
            zip([each.name for each in self._sorted], np.split(sums, ends, axis=1)[1:-1], strict=True)
        )
        return BaselineTable(
            sums=np.hstack([sums[:, :1], *(parts[each.name] for each in self.variables)]),
            noise_std=noise_std,
            variables=self.variables,
            groups=self.groups,
            n_persons=n,
            level=level or 0.95,
            **facts,
        )


def group_numbers(kind: str, formula: str, declared: Declared) -> GroupNumbers:
    """Return the numbers of a table by group: ``"survival"`` or ``"table1"``.

    Raises
    ------
    InputError
        Names the part of the formula that is not of this kind.
    """
    reading = read_declared(formula, declared)
    columns = {name: declared[name] for name in (*reading.left, *reading.right)}
    plain = all(len(term) < 2 and "".join(term) in ("", *reading.names.columns) for term in reading.terms)
    of_table = {"survival": (2, "Surv(time, event) ~ arm"), "table1": (1, "arm ~ age + stage")}
    n_left, example = of_table[kind]
    is_one_group = kind == "table1" or len(reading.right) < 2
    plain = plain and (kind == "survival" or reading.response in reading.names.columns)
    if not plain or reading.offset or len(reading.left) != n_left or not is_one_group:
        raise InputError(f"formula of {kind} must be columns like {example!r}, got {shown(formula)}")
    group = reading.left[0] if kind == "table1" else "".join(reading.right)
    facts: dict[str, Any] = {"formula": formula, "group": group}
    if kind == "table1":
        columns = {name: _with_missing(each, name != group) for name, each in columns.items()}
    numbers: GroupNumbers = BaselineNumbers(**facts, declared=columns)
    if kind == "survival":
        numbers = SurvivalCells(**facts, declared=columns)
        numbers = SurvivalCells(**facts, declared=numbers.survival.declared)
    if len(numbers.names) < 2 or (kind == "table1" and not reading.right):
        raise InputError(f"formula of {kind} must be columns like {example!r}, got {shown(formula)}")
    for names in (numbers.names, numbers.released_names, numbers.terms):
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            text = twice[0].removeprefix("~ ")
            raise InputError(
                f"formula of {kind}: two numbers would be called {text!r}; rename a column or a level"
            )
    return numbers


def _with_missing(column: NumberColumn | CategoryColumn, is_variable: bool) -> NumberColumn | CategoryColumn:
    """Return a column of a baseline table; missing cells of variables are counted, not replaced."""
    if not is_variable:
        return replace(column, may_lack=False)
    return replace(column, impute=None, may_lack=column.may_lack or column.impute is not None)


def numbers_of_declaration(plain: Mapping[str, Any]) -> GroupNumbers:
    """Return the numbers of a table from plain data, as :attr:`GroupNumbers.declaration` writes it."""
    return group_numbers(plain["kind"], plain["formula"], declared_of(plain["columns"]))
