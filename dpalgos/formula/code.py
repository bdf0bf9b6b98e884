"""The columns of a formula's terms, with all state of its functions from public rows."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from dpalgos.coefficients import frame_of
from dpalgos.errors import InputError
from dpalgos.formula.allowed import Reading, call_of, read_formula
from dpalgos.formula.columns import CategoryColumn, Declared, NumberColumn, how_to_declare, public_rows
from dpalgos.typing import FloatArray

INTERCEPT = "Intercept"
ROWS = 4096  # quasi-random public rows
_LARGEST = 1e60


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
        columns, width = _evaluate(self.spec, self.reading, self.declared, rows)[0], self.upper - self.lower
        columns = np.where(np.isnan(columns), self.middle, columns)
        return np.asarray(np.clip(columns, self.lower - width, self.upper + width))

    def by_term(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the terms of the formula as written → the names of their columns."""
        columns, spell = iter(names), self.reading.names.spell
        terms = in_order(self.reading, self.declared)
        return {
            spell(":".join(term)) or INTERCEPT: tuple(next(columns) for _ in each.columns)
            for term, each in zip(terms, self.spec.structure, strict=True)
        }


def read_declared(formula: str, declared: Declared) -> Reading:
    """Read a formula about declared columns; refuse others."""
    levels = [
        level for each in declared.values() if isinstance(each, CategoryColumn) for level in each.levels
    ]
    reading = read_formula(formula, declared, levels)
    if unknown := [name for name in (*reading.left, *reading.right) if name not in declared]:
        name = unknown[0]
        raise InputError(
            f"formula names {name!r}, which is not a declared column; correct or declare it. In Python, "
            f"pass bounds={{{name!r}: (lower, upper)}} or levels={{{name!r}: ['a', 'b']}}. The categories of "
            f"a data frame are not read, because they may come from its rows: state public ones. If you know "
            f"them to be public, pass levels={{{name!r}: frame[{name!r}].cat.categories}}"
        )
    if both := [name for name in reading.right if name in reading.left]:
        text = reading.names.spell(reading.response)
        raise InputError(f"formula: {both[0]!r} is in {text}, and cannot be a covariate, too")
    return reading


def rows_for(n_columns: int, declared: Declared) -> dict[str, Any]:
    """Return the public rows from which a formula of so many columns learns its state."""
    return public_rows(declared, ROWS if 4 * n_columns <= ROWS else 1 << (4 * n_columns).bit_length())


def is_category(code: str, reading: Reading, declared: Declared) -> bool:
    """Return whether a factor is a category; refuse categories of numbers, and numbers from categories."""
    name = call_of(code)[0]
    kinds = {isinstance(declared[each], CategoryColumn) for each in reading.names.used(code)}
    if name == "C" and False in kinds:
        raise InputError(
            f"formula: the levels of {reading.names.spell(code)} would be learned from the rows; declare "
            f"them, e.g. {how_to_declare(reading.names.used(code)[0], ['a', 'b'])}"
        )
    if name == "C" or code in reading.names.columns:
        return True in kinds
    if True in kinds:
        raise InputError(
            f"formula: {reading.names.spell(code)!r} must be of numbers, got a category; take C(…)"
        )
    return False


def in_order(reading: Reading, declared: Declared) -> list[tuple[str, ...]]:
    """Return the terms in patsy's order: grouped by their numeric factors, products last."""
    numbers = {t: frozenset(c for c in t if not is_category(c, reading, declared)) for t in reading.terms}
    kinds = list(dict.fromkeys([frozenset[str](), *numbers.values()]))
    return sorted(reading.terms, key=lambda term: (kinds.index(numbers[term]), len(term)))


def names_of(code: Code, terms: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
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
    spelled = [INTERCEPT, *(code.reading.names.spell(":".join(term)) for term in terms if term)]
    if twice := [term for term in spelled if spelled.count(term) > 1]:
        raise InputError(f"formula: two terms would be called {twice[0]!r}; rename the column")
    return tuple(texts)


def learn_state(
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
    columns = {alias: np.asarray(rows[name]) for alias, name in names.items()}
    frame = frame_of(columns or {"": np.ones(len(next(iter(rows.values()))))})  # an intercept has rows, too
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
