"""The columns that a formula is fitted in: products about public centers, however it is written.

``age*smoker`` and ``I(age - 55)*smoker`` are one model. Each column of a design is a polynomial in factors,
z = (x − center) / scale of a declared column x, of a function, of a spline or of an indicator. The reduced
echelon form of these polynomials, with higher degrees first, is a basis of what they span, and depends on
nothing else: where the terms of lower degree are in the model, it is the products of centered factors, which
are hardly correlated. An answer in this basis gives those of the terms as written by a public linear map.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpalgos.errors import InputError
from dpalgos.formula.design import (
    CategoryColumn,
    Declared,
    DesignColumn,
    FormulaDesign,
    Part,
    unit_of_level,
    unit_of_number,
)
from dpalgos.formula.expressions import ValueRange, columns_of, function_of, parsed
from dpalgos.typing import FloatArray

Monomial = tuple[tuple[str, int], ...]  # names of factors, sorted, with their powers
Polynomial = dict[Monomial, float]
_ONE: Monomial = ()
_LARGEST_DEGREE = 6
_NOTHING = 1e-11  # relative to a column's largest coefficient


@dataclass(frozen=True)
class _Factor:
    """A number of a row, with its public center and scale, and the bounds of what is left."""

    part: Part
    center: float
    scale: float
    bounds: ValueRange

    def values(self, rows: Mapping[str, Any]) -> FloatArray:
        return self.part.values(rows) - self.center


@dataclass(frozen=True)
class FitColumn:
    """A column to fit: a sum of products of centered factors, in the units of the table."""

    name: str
    terms: tuple[tuple[float, tuple[tuple[_Factor, int], ...]], ...]
    lower: float
    upper: float
    center: float
    scale: float
    is_offset: bool = False  # a part of the linear predictor, whose coefficient is 1

    @property
    def offset_bounds(self) -> tuple[float, float] | None:
        """Its public bounds about its center, if it is an offset."""
        return (self.lower - self.center, self.upper - self.center) if self.is_offset else None

    @property
    def uses(self) -> tuple[str, ...]:
        """The declared columns that it is computed from."""
        parts = (factor.part for _, product in self.terms for factor, _ in product)
        return tuple(dict.fromkeys(name for part in parts for name in DesignColumn((part,), 0, 1, 0, 1).uses))

    def values(self, rows: Mapping[str, Any]) -> FloatArray:
        """Return the values on rows, (n,), clipped to the bounds up to rounding."""
        if self._is_plain:
            found = self.terms[0][1][0][0].part.values(rows)
        else:
            found = sum(
                coef * np.prod([factor.values(rows) ** power for factor, power in product], axis=0)
                for coef, product in self.terms
            )
        return np.asarray(np.clip(found, self.lower, self.upper))

    @property
    def _is_plain(self) -> bool:
        """Whether it is a factor as it stands in the table."""
        (_, product), *others = self.terms
        return not others and len(product) == 1 and product[0][1] == 1


@dataclass(frozen=True, eq=False)
class Basis:
    """Columns to fit a design in, and the way back.

    ``columns`` are taken as (value − center) / scale, an offset first, with a constant as the last column
    where ``constant``. ``back`` turns an answer into the coefficients of the design's terms, (m, k).
    """

    columns: tuple[FitColumn, ...]
    constant: bool
    back: FloatArray

    def matrix(self, rows: Mapping[str, Any]) -> FloatArray:
        """Return the rows to fit, (n, k)."""
        made = [(column.values(rows) - column.center) / column.scale for column in self.columns]
        return np.column_stack([*made, *([np.ones(len(made[0]))] if self.constant else [])])

    @property
    def offset_bounds(self) -> tuple[float, float] | None:
        """The public bounds of the first column, if it is an offset."""
        return self.columns[0].offset_bounds

    def shift(self, center: float) -> FloatArray | float:
        """Return what a public center of the response adds to the coefficients of the terms."""
        return center * self.back[:, -1] if self.constant else 0.0


def response_column(response: DesignColumn) -> FitColumn:
    """Return a response as a column to fit: as it stands in the table."""
    return _plain_column(response, response.parts[0].name, response.center, response.scale)


def _plain_column(column: DesignColumn, name: str, center: float, scale: float) -> FitColumn:
    (part,), ends = column.parts, ValueRange(column.lower, column.upper)
    terms = ((1.0, ((_Factor(part, 0.0, 1.0, ends), 1),)),)
    return FitColumn(name, terms, ends.lower, ends.upper, center, scale)


def basis_of(design: FormulaDesign, declared: Declared) -> Basis:
    """Return the columns to fit a design in; refuse terms that repeat each other."""
    reader = _Reader(design, declared)
    written = [{_ONE: 1.0}] if design.has_intercept else []
    written += [reader.column(column) for column in design.columns]
    monomials = sorted({m for each in written for m in each}, key=lambda m: (-_degree(m), m))
    rows = np.array([[each.get(m, 0.0) for m in monomials] for each in written])
    reduced, pivots = _echelon(rows, design.terms)
    # Lower degrees come first, as in most formulas, and the constant last.
    order = sorted(range(len(pivots)), key=lambda i: _in_order(monomials[pivots[i]]))
    constant = monomials[pivots[order[-1]]] == _ONE
    count = len(order) - constant
    columns, forward = [], rows[:, [pivots[i] for i in order]]
    for k, i in enumerate(order[:count]):
        polynomial = {m: float(c) for m, c in zip(monomials, reduced[i], strict=True) if c}
        column, mean, spread = reader.fitted(polynomial, monomials[pivots[i]], constant)
        columns.append(column)
        if constant:
            forward[:, -1] += mean * forward[:, k]
        forward[:, k] *= spread
    back = np.linalg.inv(forward.T)
    back[np.abs(back) < _NOTHING * np.abs(back).max(axis=1, keepdims=True)] = 0.0
    if design.offset is not None:
        name, center = f"offset({design.offset.name})", constant * design.offset.center
        columns.insert(0, replace(_plain_column(design.offset, name, center, 1.0), is_offset=True))
        back = np.column_stack([-center * back[:, -1], back])
    return Basis(tuple(columns), constant, back)


def _in_order(monomial: Monomial) -> tuple[bool, int, Monomial]:
    return monomial == _ONE, _degree(monomial), monomial


def _degree(monomial: Monomial) -> int:
    return sum(power for _, power in monomial)


def _echelon(rows: FloatArray, terms: Sequence[str]) -> tuple[FloatArray, list[int]]:
    """Return the reduced echelon form of rows (k, m), and which column each row leads in."""
    left = rows / np.abs(rows).max(axis=1, keepdims=True)
    names, pivots, k = list(terms), list[int](), 0
    for j in range(left.shape[1]):
        if k == len(left):
            break
        i = k + int(np.abs(left[k:, j]).argmax())
        if abs(left[i, j]) <= _NOTHING:
            continue
        left[[k, i]], names[k], names[i] = left[[i, k]], names[i], names[k]
        left[k] /= left[k, j]
        others = np.arange(len(left)) != k
        before = np.abs(left[others]).max(axis=1, keepdims=True)
        left[others] -= np.outer(left[others, j], left[k])
        left[np.ix_(others, [j])] = 0.0
        kept = np.abs(left[others]) > _NOTHING * np.maximum(before, np.abs(left[k]).max())
        left[others] = np.where(kept, left[others], 0.0)
        pivots.append(j)
        k += 1
    if k < len(left):
        raise InputError(
            f"formula: the term {names[k]!r} repeats what other terms say, so that no rows can tell their "
            "coefficients; take it out"
        )
    return left, pivots


class _Reader:
    """Reads columns of a design as polynomials, and remembers their factors."""

    def __init__(self, design: FormulaDesign, declared: Declared) -> None:
        self._declared, self._design = declared, design
        self._factors: dict[str, _Factor] = {}

    def column(self, column: DesignColumn) -> Polynomial:
        found: Polynomial = {_ONE: 1.0}
        for part in column.parts:
            found = _times(found, self._part(part))
        return found

    def fitted(
        self, polynomial: Polynomial, leading: Monomial, constant: bool
    ) -> tuple[FitColumn, float, float]:
        """Return a column, and the center and the scale of its polynomial."""
        spread = math.sqrt(max(_mean(_times(polynomial, polynomial)) - constant * _mean(polynomial) ** 2, 0))
        mean, unit = constant * _mean(polynomial), self._unit(leading)
        terms = tuple(
            (unit / self._unit(m) * coef, tuple((self._factors[name], power) for name, power in m))
            for m, coef in polynomial.items()
        )
        plain = constant and polynomial == {leading: 1.0} and _degree(leading) == 1
        moved = self._factors[leading[0][0]].center if plain else 0.0
        ends = ValueRange(0.0, 0.0)
        for coef, product in terms:
            one = ValueRange(coef, coef)
            for factor, power in product:
                one = one * factor.bounds ** ValueRange(power, power)
            ends = ends + one
        name = _name(terms) if not plain else leading[0][0]
        if not plain and len(terms) == 1 and _degree(leading) == 1:  # its values are taken as they stand
            terms = ((1.0, terms[0][1]), (0.0, ()))
        column = FitColumn(
            name, terms, ends.lower + moved, ends.upper + moved, mean * unit + moved, spread * unit
        )
        return column, mean, spread

    def _unit(self, monomial: Monomial) -> float:
        return math.prod(self._factors[name].scale ** power for name, power in monomial)

    def _part(self, part: Part) -> Polynomial:
        if part.is_level:
            return self._level(part)
        if part.knots:
            return self._spline(part)
        return self._expression(parsed(part.expression))

    def _level(self, part: Part) -> Polynomial:
        """Return an indicator; that of the first declared level is 1 less the others."""
        listed = self._declared.get(part.expression)
        levels = self._design.levels[part.expression]
        if isinstance(listed, CategoryColumn) and set(listed.levels) == set(levels):
            levels = listed.levels
        if part.level == levels[0]:
            others = [self._level(Part(part.expression, level, is_level=True)) for level in levels[1:]]
            return _plus({_ONE: 1.0}, _times({_ONE: -1.0}, _plus(*others)))
        center, scale = unit_of_level(len(levels))
        plain = Part(part.expression, part.level, is_level=True)
        return self._factor(plain.name, plain, center, scale, ValueRange(0.0, 1.0))

    def _spline(self, part: Part) -> Polynomial:
        """Return an element of a basis, whose knots count in the units of its column where it is of one."""
        names = columns_of(part.expression)
        line, key = self._expression(parsed(part.expression)), part.name
        own = ((names[0], 1),) if len(names) == 1 else _ONE
        if own and set(line) <= {_ONE, own} and line.get(own, 0.0) > 0:
            knots = [f"{(knot - line.get(_ONE, 0.0)) / line[own]:.9g}" for knot in part.knots]
            key = f"bs({names[0]}; {', '.join(knots)}; {part.degree})[{part.position}]"
        points = np.linspace(part.knots[0], part.knots[-1], 201)
        values = Part("x", knots=part.knots, degree=part.degree, position=part.position).values({"x": points})
        scale = max(float(values.std()), 0.1)
        return self._factor(key, part, float(values.mean()), scale, ValueRange(0.0, 1.0))

    def _expression(self, node: ast.expr) -> Polynomial:
        """Return an expression of numbers as a polynomial of columns and of functions of them."""
        if isinstance(node, ast.Constant):
            return {_ONE: float(node.value)}  # type: ignore[arg-type]
        if isinstance(node, ast.UnaryOp):
            return _times({_ONE: -1.0}, self._expression(node.operand))
        if isinstance(node, ast.Call) and function_of(node) == "I":
            return self._expression(node.args[0])
        if isinstance(node, ast.BinOp):
            left, right = self._expression(node.left), self._expression(node.right)
            number = right.get(_ONE, 0.0) if set(right) <= {_ONE} else None
            if isinstance(node.op, ast.Add | ast.Sub):
                sign = 1.0 if isinstance(node.op, ast.Add) else -1.0
                return _plus(left, _times({_ONE: sign}, right))
            if isinstance(node.op, ast.Div) and number:
                return _times({_ONE: 1 / number}, left)
            degree = max(map(_degree, left), default=0)
            if isinstance(node.op, ast.Mult) and degree + max(map(_degree, right)) <= _LARGEST_DEGREE:
                return _times(left, right)
            if isinstance(node.op, ast.Pow) and number in range(1, _LARGEST_DEGREE // max(degree, 1) + 1):
                found = left
                for _ in range(int(number or 1) - 1):
                    found = _times(found, left)
                return found
        part = Part(ast.unparse(node))
        if not columns_of(part.expression):
            return {_ONE: float(part.values({}))}
        center, scale, bounds = unit_of_number(part.expression, self._declared)
        return self._factor(part.expression, part, center, scale, bounds)

    def _factor(self, key: str, part: Part, center: float, scale: float, bounds: ValueRange) -> Polynomial:
        self._factors.setdefault(key, _Factor(part, center, scale, bounds - ValueRange(center, center)))
        return {((key, 1),): scale, _ONE: center}


def _name(terms: Sequence[tuple[float, Sequence[tuple[_Factor, int]]]]) -> str:
    """Return all that decides a column's values."""
    found = []
    for coef, product in terms:
        names = [
            f"({factor.part.name} - {factor.center!r})" + (f"**{power}" if power > 1 else "")
            for factor, power in product
        ]
        found.append(":".join([*([] if coef == 1 else [repr(coef)]), *names]))
    return " + ".join(found)


def _plus(*polynomials: Polynomial) -> Polynomial:
    found: Polynomial = {}
    for monomial, coef in itertools.chain.from_iterable(each.items() for each in polynomials):
        found[monomial] = found.get(monomial, 0.0) + coef
    return found


def _times(left: Polynomial, right: Polynomial) -> Polynomial:
    found: Polynomial = {}
    for (a, x), (b, y) in itertools.product(left.items(), right.items()):
        powers = dict(a)
        for name, power in b:
            powers[name] = powers.get(name, 0) + power
        monomial = tuple(sorted(powers.items()))
        found[monomial] = found.get(monomial, 0.0) + x * y
    return found


def _mean(polynomial: Polynomial) -> float:
    """Return the mean where factors are independent and uniform, with mean 0 and variance 1."""
    return sum(
        coef * math.prod(3 ** (k / 2) / (k + 1) if k % 2 == 0 else 0.0 for _, k in monomial)
        for monomial, coef in polynomial.items()
    )
