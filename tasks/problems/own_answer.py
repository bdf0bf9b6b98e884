"""One private estimate from all rows of an analyst's own table, next to the non-private one."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import dpalgos
from data.prepare.table_design import PreparedTable
from dpalgos.coefficients import covered
from dpalgos.typing import FloatArray
from tasks.own_table.file_units import FileUnits, file_units
from tasks.problems.problem import HeadlineRun

if TYPE_CHECKING:
    from tasks.problems.registered_table import RegisteredTable

_LEVEL = 0.95


def own_coefficients(problem: "RegisteredTable", prepared: PreparedTable, run: HeadlineRun) -> dict[str, Any]:
    """Return the content of `reports.exhibits.own_table`.

    Slopes are per standard deviation of a column. Means and terms of a formula are in the units of the file.
    """
    reference, unit, plain = problem.full_answer(prepared), prepared.to_standard, prepared.column_names
    assert unit is not None
    slopes = slice(problem.slopes.start or 0, (problem.slopes.start or 0) + len(unit))
    units, numbers = problem.units_of_file, "terms"
    if not problem.response:
        units, numbers = file_units(problem.columns(), None), "means"
    elif units is None:
        units, numbers = replace(FileUnits.unchanged(plain), terms=plain[slopes], back=unit), "slopes"
    there = reference.columns.copy()
    there[slopes] &= unit.any(axis=1)
    assert problem.analyst_table is not None
    labels = next(
        (one.categories for one in problem.analyst_table.columns if one.name == problem.response), ()
    )
    class_names = [f"class {labels[k] if labels else k}" for k in range(len(reference.classes))]
    names, included = [*plain, *class_names], [*there, *reference.classes]
    left_out = [name for name, is_included in zip(names, included, strict=True) if not is_included]
    content: dict[str, Any] = {"left_out": left_out, "linear": not problem.family, "rows": [], "missing": ""}
    private = [cell for cell in run.cells if cell.calibration == "tight"]
    private.sort(key=lambda cell: not dpalgos.get_estimator(cell.estimator).has_interval)
    if not private:
        return {**content, "missing": "none ran"}
    n = len(prepared.X) if prepared.groups is None else int(prepared.groups[-1]) + 1
    cell, all_rows = replace(private[0], n=n), replace(run.replicates, n=n, first=0, count=1, of=1)
    try:
        draw = next(iter(problem.draws(all_rows, prepared)))
        with_interval = draw.answer_with_interval(cell, all_rows, _LEVEL)
        answer = with_interval or draw.answer(cell, all_rows)
    except dpalgos.InputError as refused:
        return {**content, "missing": str(refused)}
    matrix, offset = units.affine
    limits: FloatArray = np.full((len(matrix), 2), np.nan)
    if answer.intervals is not None:
        limits, _ = units.limits_of(answer.intervals, answer.estimate)
    coef, exact = (
        (matrix @ each.reshape(len(there), -1) + offset[:, None])[:, reference.classes]
        for each in (answer.estimate, reference.coef)
    )
    if coef.shape[1] > 1:  # of classes, whose coefficients are known up to their mean
        coef, exact = (each - each.mean(axis=1, keepdims=True) for each in (coef, exact))
    has_interval = np.isfinite(limits.sum(axis=1))
    coef = np.where(has_interval[:, None], limits.mean(axis=1, keepdims=True), coef)
    suffixes = [f", {class_names[k]}" * (coef.shape[1] > 1) for k in np.flatnonzero(reference.classes)]
    content["rows"] = [
        [
            name + suffix,
            float(coef[j, k]),
            *(map(float, limits[j]) if has_interval[j] else (None, None)),
            float(exact[j, k]),
        ]
        for j, name in enumerate(units.coef_names)
        if matrix[j].any() and not matrix[j, ~there].any()
        for k, suffix in enumerate(suffixes)
    ]
    about = answer.about
    return {
        **content,
        "covers": covered(about.target, about.family)
        if has_interval.any() and about and about.target
        else "",
        "numbers": numbers,
        "pays_interval": with_interval is not None,
        "estimator": cell.estimator,
        "form": cell.form,
        "epsilon": cell.epsilon,
        "n": n,
    }
