"""The design of a formula: its columns, their public bounds and units, and their values on rows.

The coding of categories is that of patsy and R: a category that stands next to what spans its levels already
is coded by treatment contrasts, without its reference level, else by all of its levels.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpalgos.declared_units import unit_of_bounds
from dpalgos.errors import InputError
from dpalgos.formula.expressions import (
    ValueRange,
    columns_of,
    evaluate,
    function_of,
    parsed,
    spline_basis,
    spline_of,
)
from dpalgos.formula.terms import terms_of
from dpalgos.typing import FloatArray

INTERCEPT = "Intercept"
_INFINITE = 1e100  # squares and their sums stay finite below it


@dataclass(frozen=True)
class NumberColumn:
    """A declared column of numbers: its public bounds, and its public units where they are stated."""

    lower: float
    upper: float
    center: float | None = None
    scale: float | None = None


@dataclass(frozen=True)
class CategoryColumn:
    """A declared column of categories; the first level is the reference."""

    levels: tuple[Any, ...]


Declared = Mapping[str, NumberColumn | CategoryColumn]


@dataclass(frozen=True)
class Part:
    """A factor of a product: an expression of numbers, a spline of it, or whether a category has a level."""

    expression: str
    level: Any = None  # of the category that the expression names
    is_level: bool = False
    written: str = ""  # the category as the formula writes it, e.g. "C(region)"
    is_full: bool = False  # whether all levels have columns, without a reference
    knots: tuple[float, ...] = ()
    degree: int = 0
    position: int = 0  # of the spline in its basis

    @property
    def term(self) -> str:
        """The name that statsmodels gives it, but of splines."""
        if not self.is_level:
            return self.name
        return f"{self.written or self.expression}[{'' if self.is_full else 'T.'}{self.level}]"

    @property
    def name(self) -> str:
        if self.is_level:
            return f"{self.expression}={self.level}"
        if not self.knots:
            return self.expression
        # All that decides its values, with all digits, so that two splines never share a name.
        first, *inner, last = (
            repr(float(knot)).removesuffix(".0")
            for knot in self.knots[self.degree : len(self.knots) - self.degree]
        )
        ends, knots = f"{first} to {last}", ", ".join(inner)
        return f"bs({self.expression}; {knots}; {ends}; degree {self.degree})[{self.position}]"

    def values(self, rows: Mapping[str, Any]) -> FloatArray:
        """Return the values on rows: numbers by column, and categories as their levels."""
        if self.is_level:
            return np.asarray(np.asarray(rows[self.expression]) == self.level, dtype=np.float64)
        numbers = {name: np.asarray(rows[name], dtype=np.float64) for name in columns_of(self.expression)}
        found: FloatArray = np.array(evaluate(self.expression, numbers), dtype=np.float64)
        if self.knots:
            found = spline_basis(found, np.array(self.knots), self.degree)[:, self.position]
        return found


@dataclass(frozen=True)
class DesignColumn:
    """A column of the design: a product of parts, with public bounds and units."""

    parts: tuple[Part, ...]
    lower: float
    upper: float
    center: float
    scale: float

    @property
    def name(self) -> str:
        return ":".join(part.name for part in self.parts) or INTERCEPT

    @property
    def term(self) -> str:
        """The name that statsmodels gives it."""
        return ":".join(part.term for part in self.parts) or INTERCEPT

    @property
    def uses(self) -> tuple[str, ...]:
        """The declared columns that it is computed from."""
        named = (
            columns_of(part.expression) if not part.is_level else (part.expression,) for part in self.parts
        )
        return tuple(dict.fromkeys(itertools.chain.from_iterable(named)))

    def values(self, rows: Mapping[str, Any]) -> FloatArray:
        """Return the values on rows, (n,), clipped to the bounds up to rounding."""
        found = np.prod([part.values(rows) for part in self.parts], axis=0)
        return np.asarray(np.clip(found, self.lower, self.upper))


@dataclass(frozen=True)
class FormulaDesign:
    """A formula with declarations: response (None if it has none), columns without the intercept."""

    formula: str
    response: DesignColumn | None
    columns: tuple[DesignColumn, ...]
    has_intercept: bool
    references: Mapping[str, Any] = field(default_factory=dict)  # category → its reference level
    levels: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # category → all its levels
    offset: DesignColumn | None = None  # of the linear predictor, without a coefficient

    @property
    def terms(self) -> tuple[str, ...]:
        """The names of the coefficients, as in statsmodels: the intercept first."""
        return (*([INTERCEPT] if self.has_intercept else []), *(column.term for column in self.columns))

    def matrix(self, rows: Mapping[str, Any]) -> FloatArray:
        """Return the columns on rows, (n, d), without the intercept."""
        return np.column_stack([column.values(rows) for column in self.columns])


def design_of(formula: str, declared: Declared) -> FormulaDesign:
    """Return the design of a formula; refuse what is not declared or would be learned from rows.

    Raises
    ------
    InputError
        With the part of the formula and the public alternative.
    """
    try:
        return _design(formula, declared)
    except RecursionError:
        raise InputError(
            f"formula is nested too deeply, got {formula[:60]!r}…; write it as several terms"
        ) from None
    except InputError:
        raise
    except (TypeError, ValueError):
        raise InputError(
            f"formula: an argument of bs(…) or C(…) is of another kind than it must be, got {formula!r}"
        ) from None


def _design(formula: str, declared: Declared) -> FormulaDesign:
    found = terms_of(formula, declared)
    builder = _Builder(declared)
    has_intercept = () in found.terms
    columns = builder.columns_of_terms(found.terms)
    if not columns:
        raise InputError(f"formula must name at least one covariate, got {formula!r}; add one after ~")
    return FormulaDesign(
        formula=formula,
        response=builder.response(found.response) if found.response else None,
        offset=builder.offset(found.offset) if found.offset else None,
        columns=tuple(columns),
        has_intercept=has_intercept,
        references=builder.references,
        levels=builder.levels,
    )


class _Builder:
    """Turns terms into columns, and remembers what earlier terms span."""

    def __init__(self, declared: Declared) -> None:
        self._declared = declared
        self._bounds = {
            name: ValueRange(each.lower, each.upper)
            for name, each in declared.items()
            if isinstance(each, NumberColumn)
        }
        self._spanned: dict[frozenset[str], set[frozenset[str]]] = {}
        self.references: dict[str, Any] = {}
        self.levels: dict[str, tuple[Any, ...]] = {}

    def response(self, factor: str) -> DesignColumn:
        if self._category(factor):
            name, levels = self._levels(factor)
            if len(levels) != 2:
                raise InputError(
                    f"the response {name!r} must be numbers or two levels, got {len(levels)} levels"
                )
            return self._column((Part(name, levels[1], is_level=True),))
        (part,) = self._number_parts(factor)
        return self._column((part,))

    def offset(self, expression: str) -> DesignColumn:
        return self._column((Part(_plain(expression)),))

    def columns_of_terms(self, terms: Sequence[tuple[str, ...]]) -> list[DesignColumn]:
        """Return the columns of terms, coded as in patsy; terms of the same numbers stand together."""
        numbers_of = {term: frozenset(f for f in term if not self._category(f)) for term in terms}
        groups = list(dict.fromkeys([frozenset[str](), *numbers_of.values()]))
        found: dict[str, DesignColumn] = {}
        for group in groups:
            for term in sorted((t for t in terms if numbers_of[t] == group), key=len):
                for column in self._columns_of_term(term):
                    found.setdefault(column.term, column)
        found.pop(INTERCEPT, None)
        return list(found.values())

    def _columns_of_term(self, term: tuple[str, ...]) -> Iterator[DesignColumn]:
        categories = [f for f in term if self._category(f)]
        numbers = frozenset(f for f in term if not self._category(f))
        for coding in self._codings(categories, numbers):
            choices: list[Sequence[Part]] = []
            for factor in term:
                if factor in categories:
                    if factor not in coding:
                        continue
                    choices.append(self._level_parts(factor, full=coding[factor]))
                else:
                    choices.append(self._number_parts(factor))
            for parts in itertools.product(*reversed(choices)):  # the first varies fastest, as in patsy
                yield self._column(parts[::-1])

    def _codings(self, categories: Sequence[str], numbers: frozenset[str]) -> list[dict[str, bool]]:
        """Return which categories are coded in full (True) or without a reference, so that nothing repeats.

        A category in full spans the constant and its contrasts. Of all products of a term those that earlier
        terms span are left out; of the rest, a product and the same one with a contrast become one in full.
        """
        spanned = self._spanned.setdefault(numbers, set())
        names = {f: self._levels(f)[0] for f in categories}
        subsets = [
            frozenset(subset)
            for k in range(len(categories) + 1)
            for subset in itertools.combinations(categories, k)
        ]
        new = [s for s in subsets if frozenset(names[f] for f in s) not in spanned]
        spanned |= {frozenset(names[f] for f in s) for s in subsets}
        codings: list[dict[str, bool]] = [dict.fromkeys(sorted(s, key=categories.index), False) for s in new]
        while _merge_one(codings):
            pass
        return codings

    def _category(self, factor: str) -> bool:
        node = parsed(factor) if factor not in self._declared else None
        if isinstance(node, ast.Call) and function_of(node) == "C":
            return True
        return isinstance(self._declared.get(factor), CategoryColumn)

    def _levels(self, factor: str) -> tuple[str, tuple[Any, ...]]:
        """Return a category's column and its levels, the reference first."""
        if factor in self._declared:
            column = self._declared[factor]
            assert isinstance(column, CategoryColumn)
            self.references.setdefault(factor, column.levels[0])
            self.levels[factor] = column.levels
            return factor, column.levels
        node = parsed(factor)
        assert isinstance(node, ast.Call)
        name = ast.unparse(node.args[0]) if node.args else ""
        listed = self._declared.get(name)
        for each in node.keywords:
            if each.arg == "levels":
                listed = CategoryColumn(tuple(_literal(each.value, "levels")))
        if not isinstance(listed, CategoryColumn):
            raise InputError(
                f"formula: the levels of C({name}) would be learned from the rows; declare them, e.g. "
                f"levels={{{name!r}: ['a', 'b']}}"
            )
        reference = self._reference(node, name, listed.levels)
        levels = (reference, *(level for level in listed.levels if level != reference))
        self.references[name], self.levels[name] = reference, levels
        return name, levels

    def _reference(self, node: ast.Call, name: str, levels: tuple[Any, ...]) -> Any:
        contrasts = [*node.args[1:], *(k.value for k in node.keywords if k.arg == "contr")]
        if not contrasts:
            return levels[0]
        contrast = contrasts[0]
        called = function_of(contrast) if isinstance(contrast, ast.Call) else ast.unparse(contrast)
        if called.lower() != "treatment":
            raise InputError(f"formula: C({name}) takes Treatment(reference), got {ast.unparse(contrast)}")
        given = (
            [*contrast.args, *(k.value for k in contrast.keywords)] if isinstance(contrast, ast.Call) else []
        )
        reference = _literal(given[0], "the reference") if given else levels[0]
        if reference not in levels:
            raise InputError(
                f"formula: the reference of {name} must be one of {list(levels)}, got {reference!r}"
            )
        return reference

    def _level_parts(self, factor: str, *, full: bool) -> list[Part]:
        name, levels = self._levels(factor)
        written = factor if factor in self._declared else _plain(factor)
        return [
            Part(name, level, is_level=True, written=written, is_full=full)
            for level in (levels if full else levels[1:])
        ]

    def _number_parts(self, factor: str) -> list[Part]:
        if factor in self._bounds:
            return [Part(factor)]
        spline = spline_of(factor, self._bounds_of)
        if spline is None:
            self._bounds_of(factor)
            return [Part(_plain(factor))]
        inner, knots, degree = spline
        n_splines = len(knots) - degree - 2
        return [
            Part(inner, knots=tuple(map(float, knots)), degree=degree, position=j) for j in range(n_splines)
        ]

    def _bounds_of(self, expression: str) -> ValueRange:
        return bounds_of(expression, self._declared)

    def _column(self, parts: tuple[Part, ...]) -> DesignColumn:
        bounds = ValueRange(1.0, 1.0)
        for part in parts:
            plain = part.is_level or part.knots
            bounds = bounds * (ValueRange(0.0, 1.0) if plain else self._bounds_of(part.expression))
        if len(parts) == 1 and not parts[0].is_level and not parts[0].knots:
            center, scale, bounds = unit_of_number(parts[0].expression, self._declared)
            return DesignColumn(parts, bounds.lower, bounds.upper, center, scale)
        return DesignColumn(parts, bounds.lower, bounds.upper, *_middle(bounds))


def bounds_of(expression: str, declared: Declared) -> ValueRange:
    """Return the public bounds of an expression of numbers; refuse columns that are not declared."""
    bounds = {
        name: ValueRange(each.lower, each.upper)
        for name, each in declared.items()
        if isinstance(each, NumberColumn)
    }
    for name in columns_of(expression):
        if name not in bounds:
            what = "has categories, and must be C(…)" if name in declared else "is not declared"
            raise InputError(f"formula names {name!r}, which {what}; correct it, or declare its bounds")
    found = evaluate(expression, {name: bounds[name] for name in columns_of(expression)} or bounds)
    if not isinstance(found, ValueRange) or not max(abs(found.lower), abs(found.upper)) < _INFINITE:
        raise InputError(f"formula: {expression!r} has no finite bounds; declare narrower ones")
    return found


def unit_of_number(expression: str, declared: Declared) -> tuple[float, float, ValueRange]:
    """Return the public center, scale and bounds of an expression of numbers.

    They are the middle and a quarter of the bounds, or where all columns state theirs, mean and standard
    deviation over values spread around the stated centers.
    """
    bounds = bounds_of(expression, declared)
    columns = {name: declared[name] for name in columns_of(expression)}
    numbers = {name: each for name, each in columns.items() if isinstance(each, NumberColumn)}
    if not all(each.center is not None and each.scale is not None for each in numbers.values()):
        one = numbers.get(expression, NumberColumn(0, 1))
        middle, quarter = _middle(bounds)
        return one.center if one.center is not None else middle, one.scale or quarter, bounds
    if expression in numbers:
        return numbers[expression].center or 0.0, numbers[expression].scale or 1.0, bounds
    steps = np.linspace(-1.5, 1.5, 7)
    grids = [np.clip((n.center or 0) + (n.scale or 1) * steps, n.lower, n.upper) for n in numbers.values()]
    points = {name: grid.ravel() for name, grid in zip(numbers, np.meshgrid(*grids), strict=True)}
    values = np.asarray(evaluate(expression, points), dtype=float)
    return float(values.mean()), float(values.std()) or _middle(bounds)[1], bounds


def unit_of_level(n_levels: int) -> tuple[float, float]:
    """Return center and scale of a column of 0 and 1: as if all categories were equally frequent.

    So it is of order one and hardly correlated with the intercept, whatever the data: second moments of a
    column that is left at 0 and 1 are smaller than what noise can hide. No value is beyond ±2, as of numbers
    whose units are the middle and a quarter of their bounds. To three digits, as a reader sees them.
    """
    share = round(1 / n_levels, 3)
    scale = max(math.sqrt(share * (1 - share)), (1 - share) / 2)
    return share, math.ceil(1000 * scale) / 1000


def _middle(bounds: ValueRange) -> tuple[float, float]:
    """Return the unit of bounds, or 1 where they are one number."""
    middle, quarter = unit_of_bounds(bounds.lower, bounds.upper)
    return middle, quarter or 1.0


def _merge_one(codings: list[dict[str, bool]]) -> bool:
    """Merge a product with the one that has a contrast more, in place; False where there is none."""
    for i, short in enumerate(codings):
        for j in range(i + 1, len(codings)):
            more = set(codings[j]) - set(short)
            same = all(codings[j].get(name) == full for name, full in short.items())
            if len(more) == 1 and same and not codings[j][next(iter(more))]:
                codings[j] = {**codings[j], next(iter(more)): True}
                del codings[i]
                return True
    return False


def _plain(expression: str) -> str:
    """Return an expression without an enclosing ``I(…)`` and without module names."""
    node = parsed(expression)
    return ast.unparse(node)


def _literal(node: ast.expr, what: str) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise InputError(
            f"formula: {what} must be written as text or numbers, got {ast.unparse(node)}"
        ) from None
