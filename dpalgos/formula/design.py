"""The design matrix of a formula, built from public rows: no private row decides a column, a knot or a unit.

Public rows are synthetic, from declared bounds, units and levels. Most are quasi-random: each numeric column
has the beta distribution of its declared center and scale. In the last rows, every column is at a bound. The
design matrix P of these rows determines all state of the formula. The fitted columns are Z = P M, from the QR
decomposition of P. There, they have mean 0 and variance 1 and are uncorrelated. The coefficients are M g.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from dpalgos.errors import InputError, shown
from dpalgos.formula.allowed import SURVIVAL, Reading, call_of
from dpalgos.formula.code import (
    INTERCEPT,
    ROWS,
    Code,
    in_order,
    is_category,
    learn_state,
    names_of,
    read_declared,
    rows_for,
)
from dpalgos.formula.columns import (
    OF_ENDS,
    CategoryColumn,
    Declared,
    NumberColumn,
    declared_of,
    plain_columns,
    unit_of_bounds,
)
from dpalgos.models.families import Family
from dpalgos.release.checks import LARGEST_VALUE
from dpalgos.rows.products import row_products
from dpalgos.typing import FloatArray

if TYPE_CHECKING:  # imported if a response is a time
    from dpalgos.formula.survival_time import SurvivalTime

_MOST_COLUMNS = 2_000
_WEIGHT_OF_ENDS = 1e-6  # in the decomposition: they show which terms are identified, and do not move a center
SPANNED = 1e-10  # relative to a column's norm; smaller values are rounding


@dataclass(frozen=True, eq=False)
class SideColumn:
    """A response or an offset, with public bounds and units."""

    name: str
    lower: float
    upper: float
    center: float
    scale: float
    column: str = ""  # the declared column, if it is one unchanged
    code: Code | None = None
    event: Any = None  # the second level of a category

    def values(self, rows: Mapping[str, Any]) -> FloatArray:
        """Return its values (n,); for a category, whether it has the second level."""
        if self.code is not None:
            return np.clip(self.code.values(rows)[:, 0], self.lower, self.upper)
        return np.asarray(np.asarray(rows[self.column]) == self.event, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class FormulaDesign:
    """A formula with declarations.

    Names of ``terms`` are those of statsmodels. ``back`` (k, m) maps an estimate in the m fitted columns to
    the coefficients of the k terms. An offset is the first fitted column, a ``constant`` the last. If the
    response is a time to an event (``survival``), the reading and the columns are those of person-periods.
    """

    reading: Reading
    declared: Declared  # the declared columns that it uses
    code: Code
    terms: tuple[str, ...]
    names: tuple[str, ...]  # names of the fitted columns except the constant: the term that each adds
    sources_of: tuple[tuple[str, ...], ...]  # the declared columns of these terms
    constant: bool
    back: FloatArray
    references: Mapping[str, Any]  # category → its reference level
    response: SideColumn | None
    offset: SideColumn | None
    survival: SurvivalTime | None = None

    def __reduce__(self) -> Any:
        return design_of, (self.reading.formula, dict(self.source))

    @property
    def source(self) -> Declared:
        """The declared columns of rows of data: persons, if the response is a time to an event."""
        return self.survival.declared if self.survival else self.declared

    @property
    def formula(self) -> str:
        return self.reading.formula

    @property
    def has_intercept(self) -> bool:
        return () in self.reading.terms

    @property
    def uses(self) -> tuple[str, ...]:
        """The declared columns that it needs."""
        return tuple(self.source)

    @property
    def counts_missing(self) -> tuple[str, ...]:
        """No declared column may lack cells."""
        return ()

    def uses_of(self, name: str) -> tuple[str, ...]:
        """Return the declared columns that one of its columns needs."""
        if self.survival:
            return self.uses
        return self.reading.left if name == self.derived_response else self.reading.right

    @property
    def derived_response(self) -> str:
        """The name of a response that is computed from declared columns, or ""."""
        if self.response is None or (self.response.column and not self.survival):
            return ""
        return f"~ {self.response.name}"

    @property
    def response_column(self) -> str:
        """The column of a table that is its response, or ""."""
        return self.derived_response or (self.response.column if self.response else "")

    def check_response(self, family: Family) -> None:
        """Refuse a response that might be no label of a family, by its declaration alone."""
        response = self.response
        if response is None or self.survival or family.is_linear:
            return
        if self.derived_response:
            raise InputError(
                f"formula: the response {response.name!r} must be a column for family={family.name!r}, not "
                "computed; add it to the table as a column"
            )
        family.check_bounds(response.name, response.lower, response.upper)

    @property
    def covariates(self) -> tuple[str, ...]:
        """The names of the fitted columns in a table, without the constant."""
        return tuple(f"~ {name}" for name in self.names)

    @property
    def sources(self) -> dict[str, tuple[str, ...]]:
        """The columns that it adds to a table, with the declared columns that mostly determine each."""
        sources = dict(zip(self.covariates, self.sources_of, strict=True))
        return sources | ({self.derived_response: self.reading.left} if self.derived_response else {})

    def values(self, rows: Mapping[str, Any]) -> dict[str, FloatArray]:
        """Return the columns that it adds to a table, for those whose declared columns are present."""
        columns: dict[str, FloatArray] = {}
        if set(self.reading.right) <= set(rows):
            columns |= zip(self.covariates, self.matrix(rows).T, strict=False)
        if self.response and self.derived_response and set(self.reading.left) <= set(rows):
            columns[self.derived_response] = self.response.values(rows)
        return columns

    @property
    def times(self) -> tuple[str, ...]:
        """The columns of a time to an event, if it is the response."""
        return tuple(filter(None, [self.survival.start, self.survival.time])) if self.survival else ()

    @property
    def joins_rows(self) -> bool:
        """Whether its columns are those of follow-up: :mod:`dpalgos.formula.person_rows`."""
        return self.survival is not None

    @property
    def described(self) -> dict[str, Any]:
        """Everything that determines its columns, as plain data."""
        columns = {
            name: getattr(each, "levels", None) or [each.lower, each.upper, *each.unit]  # type: ignore[union-attr]
            for name, each in sorted({**self.declared, **self.source}.items())
        }
        if self.survival and self.survival.resolution:
            columns[self.survival.time] += [self.survival.resolution]
        exact, reading = self.reading.names.canonical, self.reading
        codes = {
            "response": exact(reading.response),
            "factors": [list(map(exact, term)) for term in in_order(reading, self.declared)],
            "offset": exact(reading.offset),
        }
        sides = [each.name for each in (self.response, self.offset) if each]
        return {"terms": self.terms, "columns": columns, "sides": sides, **codes}

    @property
    def offset_bounds(self) -> tuple[float, float] | None:
        """The public bounds of the first fitted column, if it is an offset."""
        offset = self.offset
        return (offset.lower - offset.center, offset.upper - offset.center) if offset else None

    def matrix(self, rows: Mapping[str, Any]) -> FloatArray:
        """Return the fitted columns, (n, m)."""
        offset = [self.offset.values(rows) - self.offset.center] if self.offset else []
        fitted = row_products(self.code.values(rows), self.back[:, len(offset) :])
        if self.constant:
            fitted[:, -1] = 1.0
        return np.column_stack([*offset, fitted])

    def terms_of(self, rows: Mapping[str, Any]) -> tuple[FloatArray, FloatArray]:
        """Return the terms' columns, (n, k), and the offset, (n,), which predict rows from coefficients."""
        columns = self.code.values(rows)
        return columns, self.offset.values(rows) if self.offset else np.zeros(len(columns))

    @property
    def offset_code(self) -> str:
        """The offset as in the formula, without ``offset(…)``; "" if there is none."""
        return self.reading.names.spell(self.reading.offset)

    @property
    def by_term(self) -> dict[str, tuple[str, ...]]:
        """The terms of the formula as written → their coefficients."""
        return self.code.by_term(self.terms)

    @property
    def declaration(self) -> dict[str, Any]:
        """The formula and its declared columns as plain data; :func:`design_of_declaration` reads it."""
        return {"formula": self.formula, "columns": plain_columns(self.source)}

    def shift(self, center: float) -> FloatArray | float:
        """Return the effect of a public center of the response on the coefficients of the terms."""
        return center * self.back[:, -1] if self.constant else 0.0


def design_of(formula: str, declared: Declared, size: float = np.inf) -> FormulaDesign:
    """Return the design of a formula; refuse undeclared columns, and terms that are not identified.

    The number of periods of a time to an event follows from nμ, the ``size``, unless they are declared.

    Raises
    ------
    InputError
        Names the part of the formula and the public alternative.
    """
    reading = read_declared(formula, declared)
    if not any(reading.terms):
        raise InputError(f"formula must name at least one covariate, got {formula!r}; add one after ~")
    survival = None
    if reading.response and call_of(reading.response)[0] == SURVIVAL:
        from dpalgos.formula.survival_time import SurvivalTime

        survival = SurvivalTime.of(reading, declared, size=size)
        assert survival is not None
        reading, declared = survival.of_rows(reading), survival.columns
    columns = {name: declared[name] for name in dict.fromkeys((*reading.left, *reading.right))}
    terms = in_order(reading, columns)
    rows = rows_for(0, columns)
    code, P = learn_state(terms, reading, columns, rows)
    if 4 * P.shape[1] > ROWS:
        if P.shape[1] > _MOST_COLUMNS:
            raise InputError(
                f"formula must have at most {_MOST_COLUMNS:,} columns, got {P.shape[1]:,}; name fewer"
            )
        rows = rows_for(P.shape[1], columns)
        code, P = learn_state(terms, reading, columns, rows)
    names = names_of(code, terms)
    term_of = [term for term, each in zip(terms, code.spec.structure, strict=True) for _ in each.columns]
    has_levels = [any(is_category(each, reading, columns) for each in term) for term in term_of]
    basis, back = _basis(P, names, has_levels)
    fitted, sources = [names[j] for j in basis], [reading.names.used(*term_of[j]) for j in basis]
    constant, offset = len(basis) < len(names), None
    if () in reading.terms:  # exactly: slopes of 0 stay 0
        back[:, -1] = [name == INTERCEPT for name in names]
    if reading.offset:
        offset = _side(reading.offset, reading, columns, rows)
        offset = replace(offset, name=f"offset({offset.name})", center=constant * offset.center, scale=1.0)
        back = np.column_stack([-offset.center * constant * back[:, -1], back])
        fitted, sources = [offset.name, *fitted], [reading.names.used(reading.offset), *sources]
    response = _side(reading.response, reading, columns, rows) if reading.response else None
    added = [*fitted, *([response.name] if response and (survival or not response.column) else [])]
    sizes = np.abs(back).max(axis=1) * max(response.scale if response else 1.0, 1.0)
    if not (sizes <= LARGEST_VALUE).all():
        raise InputError(f"formula: {names[int(sizes.argmax())]!r} is too small for y; change its unit")
    if twice := [name for name in added if added.count(name) > 1]:
        raise InputError(f"formula: two columns would be called {twice[0]!r}; rename one")
    return FormulaDesign(
        reading=reading,
        declared=columns,
        code=code,
        terms=names,
        names=tuple(fitted),
        sources_of=tuple(sources),
        constant=constant,
        back=back,
        references=_references(code),
        response=response,
        offset=offset,
        survival=survival,
    )


def design_of_declaration(plain: Mapping[str, Any]) -> FormulaDesign:
    """Return the design from plain data, as :attr:`FormulaDesign.declaration` writes it."""
    return design_of(plain["formula"], declared_of(plain["columns"]))


def level_grid(design: FormulaDesign, name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the levels of a category, and rows with each of them in turn, in equal numbers.

    Other categories have all their levels in each turn. Numbers are at their public centers.
    """
    used = {each: design.declared[each] for each in design.reading.right}
    levels = {each: one.levels for each, one in used.items() if isinstance(one, CategoryColumn)}
    if not isinstance(name, str) or name not in levels:
        raise InputError(
            f"name must be a category of the formula, one of {', '.join(levels) or 'none'}, got {shown(name)}"
        )
    others = list(product(*(levels[each] for each in levels if each != name)))
    grid = [(level, *other) for level in levels[name] for other in others]
    if len(grid) > _MOST_COLUMNS * len(levels[name]):
        raise InputError(f"other categories of {name!r} have {len(others):,} pairs of levels; fit fewer")
    order = [name, *(each for each in levels if each != name)]
    rows: dict[str, Any] = {
        each: np.array(values, dtype=object)
        for each, values in zip(order, zip(*grid, strict=True), strict=True)
    }
    for each, one in used.items():
        if isinstance(one, NumberColumn):
            rows[each] = np.full(len(grid), one.unit[0])
    return levels[name], rows


def _basis(P: FloatArray, names: Sequence[str], has_levels: Any) -> tuple[list[int], FloatArray]:
    """Return the independent columns of P, and M (k, k): P M is fitted, with a constant last.

    There is a constant if the columns span one. An indicator column is within ±2 of its unit. Therefore rare
    levels do not make long rows.
    """
    n = len(P) * OF_ENDS // (OF_ENDS + 1)
    weight = np.where(np.arange(len(P)) < n, 1.0, _WEIGHT_OF_ENDS)[:, None]
    triangle = np.asarray(np.linalg.qr(weight * np.column_stack([np.ones(len(P)), P]), mode="r"))
    ones, (Q, R) = triangle[:, 0], np.linalg.qr(triangle[:, 1:])
    refuse_dependent(R, names)
    last = _dependent(triangle)  # with a constant before P, at most one
    basis = [j for j in range(P.shape[1]) if [j + 1] != last]
    H = np.eye(P.shape[1])[:, basis]
    if last:  # P times the first column is constant
        H = np.column_stack([np.linalg.solve(R, Q.T @ ones), H])
    T = H @ np.linalg.inv(np.linalg.qr(R @ H, mode="r")) * np.sqrt(n)
    T *= np.where(P[n] @ T < 0, -1, 1)  # positive if all are at their upper bounds
    levels = np.flatnonzero(np.concatenate([[False] * len(last), np.asarray(has_levels)[basis]]))
    T[:, levels] /= np.maximum(np.abs(P[:n] @ T[:, levels]).max(axis=0) / 2, 1)
    return basis, np.column_stack([T[:, 1:], H[:, 0]]) if last else T


def refuse_dependent(R: FloatArray, names: Sequence[str]) -> None:
    """Refuse a term that is 0 or that earlier terms span, from a triangular factor of their columns."""
    if zero := np.flatnonzero(~R.any(axis=0)).tolist():
        raise InputError(
            f"formula: the term {names[zero[0]]!r} is 0 within the declared bounds of its columns; drop it, "
            "or state the knots of a spline: knots=(…), between the bounds"
        )
    if repeated := _dependent(R):
        raise InputError(
            f"formula: the term {names[repeated[0]]!r} is a linear combination of other terms, which "
            'leaves their coefficients unidentified; drop it (in cr(…), add constraints="center")'
        )


def _dependent(R: FloatArray) -> list[int]:
    """Return the columns that are spanned by earlier ones, from a triangular factor."""
    return list(np.flatnonzero(np.abs(np.diag(R)) <= SPANNED * np.linalg.norm(R, axis=0)))


def _side(code: str, reading: Reading, declared: Declared, rows: Mapping[str, Any]) -> SideColumn:
    """Return a response or an offset: a number, or whether a category has its second level."""
    text, column = reading.names.spell(code), reading.names.columns.get(code, "")
    if is_category(code, reading, declared):
        (name,) = reading.names.used(code)
        category = declared[name]
        assert isinstance(category, CategoryColumn)
        if len(category.levels) != 2:
            raise InputError(
                f"the response {name!r} must be numbers or two levels, got {len(category.levels)} levels"
            )
        return SideColumn(f"{name}={category.levels[1]}", 0, 1, 0.5, 0.25, name, event=category.levels[1])
    column_code, values = learn_state([(f"I({code})",)], reading, declared, rows)
    lower, upper = float(values.min()), float(values.max())
    used = [declared[name] for name in reading.names.used(code)]
    if column and isinstance(number := declared[column], NumberColumn):
        return SideColumn(text, number.lower, number.upper, *number.unit, column, column_code)
    center, scale = unit_of_bounds(lower, upper)
    if all(isinstance(each, NumberColumn) and None not in (each.center, each.scale) for each in used):
        center, scale = float(values.mean()), float(values.std())
    return SideColumn(text, lower, upper, center, scale or 1.0, code=column_code)


def _references(code: Code) -> dict[str, Any]:
    """Return the reference level of each category that has one."""
    from formulaic.transforms.contrasts import TreatmentContrasts

    references: dict[str, Any] = {}
    for factor, (_, state) in code.spec.encoder_state.items():
        if "contrasts" in state and isinstance(contrasts := state["contrasts"].contrasts, TreatmentContrasts):
            (name,) = code.reading.names.used(factor)
            levels, base = state["categories"], contrasts.base
            references[name] = base if base in levels else levels[0]
    return references
