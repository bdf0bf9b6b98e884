"""Expressions of columns, such as ``log1p(visits)``, evaluated on arrays and on intervals.

An expression is a small part of Python: names of columns, numbers, ``+ - * / **``, and the functions below.
On intervals it gives bounds of its values from bounds of the columns (interval arithmetic), which may be
wider than needed and are never too narrow. Nothing is learned from rows: what would be is refused.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np
import scipy

from dpalgos.errors import InputError
from dpalgos.typing import FloatArray

_LEARNS = {
    "scale": "the column's mean and standard deviation; state public ones: I((x - 50) / 15)",
    "standardize": "the column's mean and standard deviation; state public ones: I((x - 50) / 15)",
    "center": "the column's mean; state a public one: I(x - 50)",
    "poly": "an orthogonal basis; write the powers: x + I(x**2)",
    "cr": "knots; take bs(x, knots=(…)) with public ones",
    "cc": "knots; take bs(x, knots=(…)) with public ones",
    "te": "knots; take bs(x, knots=(…)) with public ones",
    "cut": "quantiles; declare categories of the column",
    "qcut": "quantiles; declare categories of the column",
    "rank": "the order of all rows; there is no public alternative",
    "lag": "other rows; there is no public alternative",
}
_ORDER = {"mean", "std", "min", "max", "median", "sum", "var"}


@dataclass(frozen=True)
class ValueRange:
    """The numbers from ``lower`` to ``upper``."""

    lower: float
    upper: float

    def __add__(self, other: ValueRange) -> ValueRange:
        return ValueRange(self.lower + other.lower, self.upper + other.upper)

    def __sub__(self, other: ValueRange) -> ValueRange:
        return ValueRange(self.lower - other.upper, self.upper - other.lower)

    def __mul__(self, other: ValueRange) -> ValueRange:
        ends = [a * b for a in (self.lower, self.upper) for b in (other.lower, other.upper)]
        return ValueRange(min(ends), max(ends))

    def __truediv__(self, other: ValueRange) -> ValueRange:
        if other.lower <= 0 <= other.upper:
            raise InputError(
                f"a divisor must not be 0 within its bounds, got {other.lower:g} to {other.upper:g}; "
                "declare bounds without 0, or add a constant"
            )
        return self * ValueRange(1 / other.upper, 1 / other.lower)

    def __neg__(self) -> ValueRange:
        return ValueRange(-self.upper, -self.lower)

    def __pow__(self, other: ValueRange) -> ValueRange:
        if other.lower != other.upper:
            raise InputError("a power must be a number, got an expression of columns")
        power = other.lower
        if power != int(power) or power < 0:
            if self.lower <= 0:
                raise InputError(
                    f"a base must be positive for the power {power:g}, got bounds from {self.lower:g}"
                )
            return (
                _increasing(lambda x: x**power, self)
                if power > 0
                else -_increasing(lambda x: -(x**power), self)
            )
        ends = self.lower**power, self.upper**power
        if power % 2 == 0 and self.lower < 0 < self.upper:
            return ValueRange(0.0, max(ends))
        return ValueRange(min(ends), max(ends))


Value = FloatArray | ValueRange


def _increasing(function: Callable[[float], float], x: ValueRange) -> ValueRange:
    return ValueRange(function(x.lower), function(x.upper))


@dataclass(frozen=True)
class _Function:
    """An increasing function of one number: on arrays, on numbers, and from where on it is defined."""

    on_arrays: Callable[[Any], Any]
    on_numbers: Callable[[float], float]
    above: float = -math.inf
    includes_end: bool = False

    def of(self, name: str, x: Value) -> Value:
        if isinstance(x, ValueRange):
            if x.lower < self.above or (x.lower == self.above and not self.includes_end):
                relation = "at least" if self.includes_end else "above"
                raise InputError(
                    f"{name} needs values {relation} {self.above:g}, got bounds from {x.lower:g}; declare a "
                    "larger lower bound, or add a public constant"
                )
            return _increasing(self.on_numbers, x)
        return cast(FloatArray, self.on_arrays(x))


_FUNCTIONS = {
    "log": _Function(np.log, math.log, 0.0),
    "log2": _Function(np.log2, math.log2, 0.0),
    "log10": _Function(np.log10, math.log10, 0.0),
    "log1p": _Function(np.log1p, math.log1p, -1.0),
    "sqrt": _Function(np.sqrt, math.sqrt, 0.0, includes_end=True),
    "exp": _Function(np.exp, math.exp),
}
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


@cache
def parsed(text: str) -> ast.expr:
    """Parse an expression."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(f"formula: {text[:60]!r} is not an expression") from None


def columns_of(text: str) -> tuple[str, ...]:
    """Return the columns that an expression names, in order."""
    tree = parsed(text)
    functions = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    inner = {
        id(n) for node in ast.walk(tree) if isinstance(node, ast.Attribute) for n in ast.walk(node.value)
    }
    names = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and id(node) not in functions and id(node) not in inner
    ]
    names.sort(key=lambda node: (node.lineno, node.col_offset))
    return tuple(dict.fromkeys(node.id for node in names))


def function_of(node: ast.Call) -> str:
    """Return the name of the function that is called, without a module: ``np.log`` is ``log``."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def evaluate(text: str, columns: Mapping[str, Any]) -> Any:
    """Return an expression's value: an array of arrays, an interval of intervals."""
    try:
        return _evaluated(parsed(text), columns)
    except (OverflowError, ZeroDivisionError):
        raise InputError(f"formula: {text[:60]!r} has no finite bounds; declare narrower ones") from None


def _evaluated(node: ast.expr, columns: Mapping[str, Any]) -> Any:
    is_interval = any(isinstance(each, ValueRange) for each in columns.values())
    if isinstance(node, ast.Name):
        if node.id not in columns:
            raise InputError(f"formula names {node.id!r}, which is no declared column of numbers; correct it")
        return columns[node.id]
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
    ):
        return ValueRange(float(node.value), float(node.value)) if is_interval else float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluated(node.operand, columns)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_evaluated(node.left, columns), _evaluated(node.right, columns))
    if isinstance(node, ast.Call):
        name = function_of(node)
        if name == "I" and len(node.args) == 1:
            return _evaluated(node.args[0], columns)
        if name in _FUNCTIONS and len(node.args) == 1 and not node.keywords:
            return _FUNCTIONS[name].of(name, _evaluated(node.args[0], columns))
        raise _refused(name)
    raise InputError(
        f"formula: {ast.unparse(node)!r} is not an expression of columns and numbers; write it otherwise"
    )


def _refused(name: str) -> InputError:
    if name in _LEARNS:
        return InputError(f"formula: {name}(…) would learn {_LEARNS[name]}")
    if name in _ORDER:
        return InputError(
            f"formula: {name}(…) would be read from the rows; state a public constant in its place"
        )
    known = ", ".join([*_FUNCTIONS, "I", "bs", "C"])
    return InputError(f"formula: {name or 'this call'}(…) is not known; take one of {known}")


def spline_of(text: str, bounds: Callable[[str], ValueRange]) -> tuple[str, FloatArray, int] | None:
    """Return the inner expression, the knots and the degree of ``bs(x, knots=(…))``; None for another call.

    Boundary knots are the declared bounds of the inner expression, or ``lower_bound`` and ``upper_bound``.
    """
    node = parsed(text)
    if not isinstance(node, ast.Call) or function_of(node) != "bs":
        return None
    given = {each.arg: each.value for each in node.keywords}
    unknown = set(given) - {"knots", "degree", "lower_bound", "upper_bound"}
    if len(node.args) != 1 or unknown or "knots" not in given:
        raise InputError(
            "formula: bs(…) would learn its knots from the rows; state public ones: bs(x, knots=(30, 50))"
        )
    try:
        values = {name: ast.literal_eval(value) for name, value in given.items() if name}
    except ValueError:
        raise InputError("formula: knots, degree and bounds of bs(…) must be numbers") from None
    inner = ast.unparse(node.args[0])
    ends = bounds(inner)
    low, high = values.get("lower_bound", ends.lower), values.get("upper_bound", ends.upper)
    knots = np.sort(np.atleast_1d(np.asarray(values["knots"], dtype=float)))
    degree = int(values.get("degree", 3))
    if not (low < high and (knots > low).all() and (knots < high).all() and 1 <= degree <= 5):
        raise InputError(
            f"formula: knots of bs(…) must lie within {low:g} and {high:g}, and degree be 1 to 5"
        )
    return inner, np.r_[[low] * (degree + 1), knots, [high] * (degree + 1)], degree


def spline_basis(x: FloatArray, knots: FloatArray, degree: int) -> FloatArray:
    """Return B-splines at x (n,), without the first one, (n, k); x is moved to the boundary knots."""
    inside = np.clip(x, knots[0], knots[-1])
    basis = scipy.interpolate.BSpline.design_matrix(inside, knots, degree).toarray()
    return np.asarray(basis[:, 1:])
