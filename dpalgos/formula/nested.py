"""Nested models by formula.

A nested model is coded by its own formula, as if it were fitted alone. Without a main effect or an intercept,
a category has other columns than in the release. If the nested columns are N and those of the release P,
N = P L on public rows of all declared columns and levels. A formula whose columns P does not span is refused.

Two formulas are one model where their columns are equal on the public rows, however they are written.

``log(x)`` and ``np.log(x)`` have equal columns, as do ``I(x*z)`` and ``x:z``, and ``x + z`` and ``z + x`` in
another order. A column is recognized by its largest size and by a few weighted sums, to eight digits.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np

from dpalgos.answers.model import ReleasedModel
from dpalgos.answers.names import check_names, find_name
from dpalgos.errors import InputError, shown
from dpalgos.formula.allowed import Reading, call_of, read_formula
from dpalgos.formula.code import INTERCEPT, in_order, learn_state, names_of, read_declared, rows_for
from dpalgos.formula.columns import public_rows
from dpalgos.formula.design import SPANNED, FormulaDesign, design_of_declaration, refuse_dependent
from dpalgos.typing import FloatArray


def submodel_by_formula(
    model: ReleasedModel, formula: str, design: FormulaDesign | None = None
) -> ReleasedModel:
    """Return the model nested in a release that a formula states, such as ``"cost ~ age + C(region)"``.

    Its coefficients are named as if it were fitted alone. The offset is that of the release, even if the
    formula omits it. By default, the ``design`` of the release is the one that the model declares.
    """
    if design is None and model.declaration is None:
        return _by_columns(model, formula)
    design = design or design_of_declaration(model.declaration or {})
    return _nested(model, design, _read(design, formula))


def submodel_by_terms(model: ReleasedModel, design: FormulaDesign, names: Sequence[str]) -> ReleasedModel:
    """Return the nested model of some terms of a formula, with its intercept; or of some coefficients."""
    names = check_names("terms", names)
    terms = dict(zip(design.by_term, in_order(design.reading, design.declared), strict=True))
    known_names = [find_name(each, terms, model.columns) for each in names]
    if not all(known_names):
        return model.submodel(names)
    kept_terms = {INTERCEPT: (), **{each: terms[each] for each in known_names if each}}
    kept_terms = {name: term for name, term in kept_terms.items() if name in terms}
    return _nested(model, design, replace(design.reading, terms=tuple(kept_terms.values())))


def _nested(model: ReleasedModel, design: FormulaDesign, reading: Reading) -> ReleasedModel:
    by_term, L = _columns(design, reading)
    submodel = model.through(L, [name for members in by_term.values() for name in members], by_term)
    return replace(submodel, intercept=INTERCEPT if INTERCEPT in by_term else "")


def check_nested(design: FormulaDesign, formula: str) -> None:
    """Refuse a formula that is not nested in that of a release.

    Raises
    ------
    InputError
        Names the response, the offset or the term that the release does not have.
    """
    _columns(design, _read(design, formula))


def _read(design: FormulaDesign, formula: str) -> Reading:
    reading, released = read_declared(formula, design.source), design.reading
    if design.survival:
        reading = design.survival.nested(reading)
    sides = {"response": _exact(released, released.response), "offset": _exact(released, released.offset)}
    _check_sides(reading, sides, [*design.declared])
    if not reading.terms:
        raise InputError(f"formula must name a term, got {shown(formula)}; add one after ~")
    return reading


def _columns(design: FormulaDesign, reading: Reading) -> tuple[dict[str, tuple[str, ...]], FloatArray]:
    """Return terms → their coefficients, and L (k, s): nested columns are those of the release times L."""
    terms, rows = in_order(reading, design.declared), rows_for(len(design.terms), design.declared)
    code, N = learn_state(terms, reading, design.declared, rows)
    names, P = names_of(code, terms), design.code.values(rows)
    P_size, N_size = np.linalg.norm(P, axis=0), np.linalg.norm(N, axis=0)
    refuse_dependent(np.asarray(np.linalg.qr(N, mode="r")), names)
    Q, R = np.linalg.qr(P / P_size)
    missing = np.linalg.norm(N - Q @ (Q.T @ N), axis=0) > SPANNED * N_size
    if missing.any():
        raise InputError(
            f"formula: {names[int(missing.argmax())]!r} is no combination of the release's terms, "
            f"{', '.join(design.by_term)}; leave it out of the nested model"
        )
    L = np.linalg.solve(R, Q.T @ N) / P_size[:, None]
    exact = np.round(L)  # selections and sums of columns; others are exact up to rounding
    is_exact = np.linalg.norm(N - P @ exact, axis=0) <= SPANNED * N_size
    return code.by_term(names), np.where(is_exact, exact, L)


def _check_sides(reading: Reading, sides: Mapping[str, str], columns: Sequence[str]) -> None:
    """Refuse a response or an offset other than that of the release."""
    for part, code in (("response", reading.response), ("offset", reading.offset)):
        released = sides[part]
        is_other = code and find_name(_exact(reading, code), [released], columns) is None
        if is_other and (released or part == "offset"):
            raise InputError(
                f"formula must have the {part} of the release, {released or 'none'}, got "
                f"{reading.names.spell(code)}; a nested model only leaves out covariates"
            )


def _exact(reading: Reading, code: str) -> str:
    """Return code with the exact names of columns; a category is the same in and out of ``C(…)``."""
    name, arguments = call_of(code) if code else ("", [])
    return reading.names.canonical(ast.unparse(arguments[0]) if name == "C" and len(arguments) == 1 else code)


def _by_columns(model: ReleasedModel, formula: str) -> ReleasedModel:
    """Return the nested model of a release without a formula, whose terms are columns of the release.

    A category is coded against its reference level, so it needs the intercept.
    """
    reading = read_formula(formula, model.columns)
    _check_sides(reading, {"response": model.response, "offset": model.offset}, model.columns)
    has_intercept = () in reading.terms
    if has_intercept and not model.intercept:
        raise InputError("formula must be without an intercept, as the release is; add 0 + after ~")
    names = list[str]()
    for factors in filter(None, reading.terms):
        orders = (reading.names.canonical(":".join(order)) for order in permutations(factors))
        spellings = (find_name(each, model.by_term, model.columns) for each in orders)
        names.append(next(filter(None, spellings), reading.names.spell(":".join(factors))))
        is_coded = names[-1] in model.by_term and model.by_term[names[-1]] != (names[-1],)
        if is_coded and not (has_intercept and len(factors) == 1):
            raise InputError(
                f"formula: the record does not hold the levels by which {names[-1]!r} is coded here; keep "
                "the intercept and the category itself, or release with a formula"
            )
    return model.submodel(names, intercept=has_intercept)


_ROWS, _SUMS, _DIGITS = 1024, 3, 8


def signature_of(design: FormulaDesign) -> list[Any]:
    """Return what determines a model with its declared columns, as plain data: its columns, in any order."""
    rows = public_rows({name: design.declared[name] for name in sorted(design.declared)}, _ROWS)
    sides = [_signature(each.values(rows)) if each else "" for each in (design.response, design.offset)]
    time = design.survival
    times = [*time.names, *time.periods, time.all_events] if time else []
    return [sorted(map(_signature, design.code.values(rows).T)), sides, times]


def _signature(column: FloatArray) -> str:
    size = float(np.abs(column).max())
    phases = np.arange(len(column)) * np.sqrt(2) * np.arange(1, _SUMS + 1)[:, None]
    sums = np.cos(phases) @ column / (size * np.sqrt(len(column)) or 1.0)
    return " ".join([f"{size:.{_DIGITS}g}", *(f"{each + 0.0:.{_DIGITS}f}" for each in sums.round(_DIGITS))])
