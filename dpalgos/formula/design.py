"""The design matrix of a formula, built from public rows: no private row decides a column, a knot or a unit.

Public rows are synthetic, from declared bounds, units and levels. Most are quasi-random: each numeric column
has the beta distribution of its declared center and scale. In the last rows, every column is at a bound. The
design matrix P of these rows determines all state of the formula. The fitted columns are Z = P M, from the QR
decomposition of P. They have mean 0 and variance 1 on the public rows and are uncorrelated there. An estimate
g in Z gives the coefficients β = M g of the terms.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from dpalgos.coefficients import frame_of
from dpalgos.declared_units import unit_of_bounds
from dpalgos.errors import InputError
from dpalgos.formula.allowed import Reading, call_of, read_formula
from dpalgos.formula.columns import OF_ENDS, CategoryColumn, Declared, NumberColumn, public_rows
from dpalgos.typing import FloatArray

INTERCEPT = "Intercept"
_ROWS = 4096  # quasi-random public rows
_MOST_COLUMNS = 2_000
_WEIGHT_OF_ENDS = 1e-6  # in the decomposition: they show which terms are identified, and do not move a center
_LARGEST = 1e60
_REPEATED = 1e-10  # relative to a column's norm; smaller values are rounding


@dataclass(frozen=True, eq=False)
class Code:
    """Code of a formula with all its state, which is learned from the public rows."""

    reading: Reading
    declared: Declared
    spec: Any
    middle: FloatArray  # (k,), in place of NaN
    lower: FloatArray
    upper: FloatArray

    def values(self, rows: Mapping[str, Any]) -> FloatArray:
        """Return the columns (n, k); values that are not finite, or outside the public range, are clipped."""
        columns, reach = _evaluate(self.spec, self.reading, self.declared, rows)[0], self.upper - self.lower
        columns = np.where(np.isnan(columns), self.middle, columns)
        return np.asarray(np.clip(columns, self.lower - reach, self.upper + reach))


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
    the coefficients of the k terms. An offset is the first fitted column, a ``constant`` the last.
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

    def __reduce__(self) -> Any:
        return design_of, (self.reading.formula, dict(self.declared))

    @property
    def formula(self) -> str:
        return self.reading.formula

    @property
    def has_intercept(self) -> bool:
        return () in self.reading.terms

    @property
    def uses(self) -> tuple[str, ...]:
        """The declared columns that it needs."""
        return tuple(self.declared)

    @property
    def derived_response(self) -> str:
        """The name of a response that is computed from declared columns, or ""."""
        return "" if self.response is None or self.response.column else f"~ {self.response.name}"

    @property
    def response_column(self) -> str:
        """The column of a table that is its response, or ""."""
        return self.derived_response or (self.response.column if self.response else "")

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
    def described(self) -> dict[str, Any]:
        """Everything that determines its columns, as plain data."""
        columns = {
            name: getattr(each, "levels", None) or [each.lower, each.upper, *each.unit]  # type: ignore[union-attr]
            for name, each in sorted(self.declared.items())
        }
        exact, reading = self.reading.names.canonical, self.reading
        codes = {
            "response": exact(reading.response),
            "factors": [list(map(exact, term)) for term in _in_order(reading, self.declared)],
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
        fitted = self.code.values(rows) @ self.back[:, len(offset) :]
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
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The terms of the formula as written → their coefficients."""
        names, spell = iter(self.terms), self.reading.names.spell
        terms = _in_order(self.reading, self.declared)
        return {
            spell(":".join(term)) or INTERCEPT: tuple(next(names) for _ in each.columns)
            for term, each in zip(terms, self.code.spec.structure, strict=True)
        }

    def shift(self, center: float) -> FloatArray | float:
        """Return the effect of a public center of the response on the coefficients of the terms."""
        return center * self.back[:, -1] if self.constant else 0.0


def design_of(formula: str, declared: Declared) -> FormulaDesign:
    """Return the design of a formula; refuse undeclared columns, and terms that are not identified.

    Raises
    ------
    InputError
        Names the part of the formula and the public alternative.
    """
    levels = [
        level for each in declared.values() if isinstance(each, CategoryColumn) for level in each.levels
    ]
    reading = read_formula(formula, declared, levels)
    used = tuple(dict.fromkeys((*reading.left, *reading.right)))
    if unknown := [name for name in used if name not in declared]:
        raise InputError(
            f"formula names {unknown[0]!r}, which is not a declared column; correct or declare it"
        )
    if not any(reading.terms):
        raise InputError(f"formula must name at least one covariate, got {formula!r}; add one after ~")
    columns = {name: declared[name] for name in used}
    terms = _in_order(reading, columns)
    rows = public_rows(columns, _ROWS)
    code, P = _learn_state(terms, reading, columns, rows)
    if 4 * P.shape[1] > _ROWS:
        if P.shape[1] > _MOST_COLUMNS:
            raise InputError(
                f"formula must have at most {_MOST_COLUMNS:,} columns, got {P.shape[1]:,}; name fewer"
            )
        rows = public_rows(columns, 1 << (4 * P.shape[1]).bit_length())
        code, P = _learn_state(terms, reading, columns, rows)
    names = _terms(code, terms)
    term_of = [term for term, each in zip(terms, code.spec.structure, strict=True) for _ in each.columns]
    has_levels = [any(_category(each, reading, columns) for each in term) for term in term_of]
    basis, back = _basis(P, names, has_levels)
    fitted, sources = [names[j] for j in basis], [reading.names.used(*term_of[j]) for j in basis]
    constant, offset = len(basis) < len(names), None
    if reading.offset:
        offset = _side(reading.offset, reading, columns, rows)
        offset = replace(offset, name=f"offset({offset.name})", center=constant * offset.center, scale=1.0)
        back = np.column_stack([-offset.center * constant * back[:, -1], back])
        fitted, sources = [offset.name, *fitted], [reading.names.used(reading.offset), *sources]
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
        response=_side(reading.response, reading, columns, rows) if reading.response else None,
        offset=offset,
    )


def level_grid(design: FormulaDesign, name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the levels of a category, and rows with each of them in turn, in equal numbers.

    Other categories have all their levels in each turn. Numbers are at their public centers.
    """
    used = {each: design.declared[each] for each in design.reading.right}
    levels = {each: one.levels for each, one in used.items() if isinstance(one, CategoryColumn)}
    if name not in levels:
        raise InputError(
            f"name must be a category of the formula, one of {', '.join(levels) or 'none'}, got {name!r}"
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
    if repeated := _dependent(R):
        raise InputError(
            f"formula: the term {names[repeated[0]]!r} is a linear combination of other terms, which "
            'leaves their coefficients unidentified; drop it (in cr(…), add constraints="center")'
        )
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


def _dependent(R: FloatArray) -> list[int]:
    """Return the columns that are spanned by earlier ones, from a triangular factor."""
    return list(np.flatnonzero(np.abs(np.diag(R)) <= _REPEATED * np.linalg.norm(R, axis=0)))


def _side(code: str, reading: Reading, declared: Declared, rows: Mapping[str, Any]) -> SideColumn:
    """Return a response or an offset: a number, or whether a category has its second level."""
    text, column = reading.names.spell(code), reading.names.columns.get(code, "")
    if _category(code, reading, declared):
        (name,) = reading.names.used(code)
        category = declared[name]
        assert isinstance(category, CategoryColumn)
        if len(category.levels) != 2:
            raise InputError(
                f"the response {name!r} must be numbers or two levels, got {len(category.levels)} levels"
            )
        event = category.levels[1]
        return SideColumn(f"{name}={event}", 0.0, 1.0, 0.5, 0.25, name, event=event)
    column_code, values = _learn_state([(f"I({code})",)], reading, declared, rows)
    lower, upper = float(values.min()), float(values.max())
    used = [declared[name] for name in reading.names.used(code)]
    if column and isinstance(number := declared[column], NumberColumn):
        return SideColumn(text, number.lower, number.upper, *number.unit, column, column_code)
    if all(isinstance(each, NumberColumn) and None not in (each.center, each.scale) for each in used):
        center, scale = float(values.mean()), float(values.std())
        return SideColumn(text, lower, upper, center, scale or 1.0, code=column_code)
    center, scale = unit_of_bounds(lower, upper)
    return SideColumn(text, lower, upper, center, scale or 1.0, code=column_code)


def _category(code: str, reading: Reading, declared: Declared) -> bool:
    """Return whether a factor is a category; refuse categories of numbers, and numbers from categories."""
    name = call_of(code)[0]
    kinds = {isinstance(declared[each], CategoryColumn) for each in reading.names.used(code)}
    if name == "C" and False in kinds:
        raise InputError(
            f"formula: the levels of {reading.names.spell(code)} would be learned from the rows; declare "
            f"them, e.g. levels={{{reading.names.used(code)[0]!r}: ['a', 'b']}}"
        )
    if name == "C" or code in reading.names.columns:
        return True in kinds
    if True in kinds:
        raise InputError(
            f"formula: {reading.names.spell(code)!r} must be of numbers, got a category; take C(…)"
        )
    return False


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


def _in_order(reading: Reading, declared: Declared) -> list[tuple[str, ...]]:
    """Return the terms in patsy's order: grouped by their numeric factors, products last."""
    numbers = {t: frozenset(c for c in t if not _category(c, reading, declared)) for t in reading.terms}
    groups = list(dict.fromkeys([frozenset[str](), *numbers.values()]))
    return sorted(reading.terms, key=lambda term: (groups.index(numbers[term]), len(term)))


def _terms(code: Code, terms: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the names that statsmodels gives the columns of the terms; refuse equal names."""
    names = list(code.spec.column_names)
    for spline in {c for term in terms for c in term if call_of(c)[0] in ("bs", "cr", "cc")}:
        if "include_intercept=True" not in spline:  # patsy counts from 0
            counted = re.compile(re.escape(spline) + r"\[(\d+)\]")
            names = [counted.sub(lambda each: f"{spline}[{int(each[1]) - 1}]", name) for name in names]  # noqa: B023
    texts = [code.reading.names.spell(name) for name in names]
    for j, name in enumerate(texts):
        if texts.count(name) > 1 or (name == INTERCEPT and names[j] != INTERCEPT):
            raise InputError(f"formula: a term would be called {name!r} like another; rename the column")
    return tuple(texts)


def _learn_state(
    terms: Sequence[tuple[str, ...]], reading: Reading, declared: Declared, rows: Mapping[str, Any]
) -> tuple[Code, FloatArray]:
    """Return terms with state from the public rows, and their columns on these rows."""
    from formulaic import Formula, ModelSpec

    text = " + ".join(reading.names.spell(":".join(term)) for term in terms if term)
    try:
        formula = Formula.from_spec([":".join(term) or "1" for term in terms], ordering="none")
        values, spec = _evaluate(
            ModelSpec.from_spec(formula, output="numpy", na_action="ignore"), reading, declared, rows
        )
    except Exception:  # each function of formulas has its own
        raise InputError(
            f"formula: {text} cannot be computed; correct the arguments of its functions"
        ) from None
    if not (np.abs(values) < _LARGEST).all():
        infinite = [
            reading.names.spell(spec.column_names[j])
            for j in np.flatnonzero(~(np.abs(values) < _LARGEST).all(axis=0))
        ]
        bounds = {
            name: (each.lower, each.upper)
            for name, each in declared.items()
            if isinstance(each, NumberColumn)
        }
        raise InputError(
            f"formula: {infinite[0]} must be finite between the declared bounds of its columns, {bounds}; "
            "declare others, or add a public constant"
        )
    return Code(reading, declared, spec, values.mean(axis=0), values.min(axis=0), values.max(axis=0)), values


def _evaluate(
    spec: Any, reading: Reading, declared: Declared, rows: Mapping[str, Any]
) -> tuple[FloatArray, Any]:
    """Return the columns of a specification on some rows, and the specification with its state."""
    names = {alias: name for alias, name in reading.names.columns.items() if name in rows}
    frame = frame_of({alias: np.asarray(rows[name]) for alias, name in names.items()})
    for alias, name in names.items():
        if isinstance(category := declared[name], CategoryColumn):
            frame[alias] = frame[alias].astype("category").cat.set_categories(list(category.levels))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings would reveal rows
        matrix = spec.get_model_matrix(frame, context={**_functions(), **reading.names.literals})
    return np.asarray(matrix, dtype=np.float64), matrix.model_spec


@cache
def _functions() -> dict[str, Any]:
    """Return functions that formulaic lacks, or that might refuse a row in formulaic."""
    from formulaic.transforms import basis_spline, stateful_transform
    from formulaic.transforms.contrasts import TreatmentContrasts

    @stateful_transform  # type: ignore[untyped-decorator]
    def clipped_spline(x: Any, *args: Any, _state: Any = None, **keywords: Any) -> Any:
        return basis_spline(x, *args, extrapolation="clip", _state=_state, **keywords)

    class Treatment(TreatmentContrasts):  # type: ignore[misc]
        def __init__(self, *args: Any, **reference: Any) -> None:  # patsy's name of the argument
            super().__init__(*args, *reference.values())

    return {"log1p": np.log1p, "sqrt": np.sqrt, "numpy": np, "bs": clipped_spline, "Treatment": Treatment}
