"""Faults in the declarations and settings of a release, whatever the rows are."""

from collections.abc import Iterator, Mapping
from typing import Any

from dpalgos import InputError
from dpalgos.catalog import Estimator
from dpalgos.formula.design import FormulaDesign
from dpalgos.models.families import Family, family_class, get_family
from dpalgos.params import check_settings
from tasks.errors import SpecError, require_once
from tasks.own_table.analyst_table import AnalystTable
from tasks.own_table.row_design import ReleaseColumns
from tasks.study.estimators import MAX_WEIGHT, OFFSET

NO_COVARIATE = 'columns.x must name at least one column, got none; add e.g. x = ["age"]'
_BUDGET_INSTEAD = "--epsilon and --delta say what a release costs, and nothing else does"


def faults_of_settings(
    columns: ReleaseColumns, bounds: Mapping[str, Any], params: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the settings that no estimator takes."""
    try:
        for table, settings in (("bounds", bounds), ("params", params)):
            check_settings(table, settings, _BUDGET_INSTEAD)
        named = [*columns.all_numbers, *filter(None, [columns.user_id])]
        require_once("columns must name each column once", named)
    except (InputError, SpecError) as error:
        yield str(error)
    if "public_X" in params:
        yield "params.public_X must be left out, got some; public rows are for studies and Python"
    for name in filter(is_bound, params):
        yield (
            f"params.{name} must be in [bounds], which declares it public; move it there, with a value that "
            "does not come from the data"
        )


def faults_of_declarations(
    table: AnalystTable,
    study: str,
    columns: ReleaseColumns,
    bounds: Mapping[str, Any],
    params: Mapping[str, Any],
) -> Iterator[str]:
    """Yield what no estimator takes by the declarations of a study file."""
    design = table.formula_of(columns.x)
    declared = {OFFSET: bool(design and design.offset), MAX_WEIGHT: table.max_weight is not None}
    for key, is_declared in declared.items():
        if is_declared and key in bounds:
            yield stated_by_column(key, study)
    yield from faults_of_columns(table, columns)
    interval = params.get("interval")
    if interval is not None and table.clusters not in ("", "none") and not table.user_id:
        yield (
            f"interval must be left out where data.clusters is {table.clusters!r}, got {interval!r}: its "
            f"variance takes rows as independent; to protect each {table.clusters} with all its rows, which "
            f"is a stronger guarantee with intervals, run dpcost init --user-id {table.clusters}; it says if "
            "there are too few of them, and then release without an interval"
        )
    name, n_classes = params.get("family"), params.get("n_classes")
    if columns.y and name is not None:
        try:
            if n_classes is not None or not family_class(name).needs_classes:
                _check_response(table, columns.y, get_family(name, n_classes=n_classes), design)
        except InputError as error:
            yield str(error)


def faults_of_columns(table: AnalystTable, columns: ReleaseColumns) -> Iterator[str]:
    """Yield what a study file declares otherwise than a release of these columns needs."""
    for key in ("user_id", "weights"):
        stated, declared = getattr(columns, key) or "none", getattr(table, key) or "none"
        if stated != declared:
            others = ', or "" for a regression without weights' * (key == "weights")
            yield f"columns.{key} must be the study file's, {declared!r}{others}, got {stated!r}; correct it"
    if table.missing == "drop" and columns.user_id:
        yield (
            'data.missing must be "refuse" for a release that protects users, got "drop": a user\'s rows '
            "count by their number; give columns with missing cells impute = a public constant"
        )
    numbers = table.group_numbers_of(columns.x)
    if table.missing == "drop" and (columns.y or numbers):
        return
    known = {column.name: column for column in table.columns}
    counted = numbers.counts_missing if numbers else ()
    for column in table.declaration(known[name] for name in columns.xy).columns:
        if column.missing and column.impute is None and column.name not in counted:
            yield (
                f"column {column.name!r} has codes for missing cells: refusing the file would reveal the "
                'cell; give it impute = a public constant, or for regressions missing = "drop"'
            )


def stated_by_column(bound: str, study: str) -> str:
    return f"bounds.{bound} must be left out: {study} declares it by column"


def check_columns(estimator: Estimator, columns: ReleaseColumns, *, by_group: bool) -> None:
    if not columns.x:
        raise SpecError(NO_COVARIATE)
    name = estimator.name
    if estimator.task in ("counts", "sums") and not by_group:
        raise SpecError(f"{name} is for numbers by group: state survival or table1 in place of columns")
    if estimator.task == "mean" and columns.y:
        raise InputError(f"columns.y must be left out for {name}, which estimates means")
    if columns.user_id and estimator.unit_of_privacy != "user":
        raise InputError(f"columns.user_id must be left out for {name}, whose unit of privacy is a row")
    if columns.weights and not estimator.takes(MAX_WEIGHT):
        raise InputError(
            f"columns.weights must be left out for {name}, which does not take weights; write weights = "
            '"" there'
        )
    if estimator.task not in ("mean", "counts", "sums") and not columns.y:
        raise InputError(f"columns.y is needed for {name}; name the response's column")


def unknown_columns(columns: ReleaseColumns, table: AnalystTable) -> Iterator[str]:
    """Yield a fault for each column that the study file does not declare."""
    known = [column.name for column in table.columns]
    for name in columns.xy:
        if name not in known:
            yield f"columns must be among those that the study file declares, got {name!r}"


def _check_response(table: AnalystTable, response: str, family: Family, design: FormulaDesign | None) -> None:
    """Refuse a response that may be no label of a family, by its declaration: no row decides it."""
    if design:
        design.check_response(family)
        return
    column = next(each for each in table.columns if each.name == response)
    if family.needs_classes and column.categories:
        family.check_bounds(response, 0, len(column.categories) - 1)
    elif not column.categories:
        family.check_bounds(response, column.lower, column.upper)


def is_bound(keyword: str) -> bool:
    """Whether a keyword is a claim about the data, which must be public."""
    return keyword.endswith(("_bound", "_bounds", "_norm", "_radius")) or keyword in (
        "center",
        "lower",
        "upper",
        "max_weight",
        "radius",
        "samples_per_user",
    )
