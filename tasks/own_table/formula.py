"""A study's formula: the columns that are fitted next to the declared ones."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from data.columns import Column
from dpalgos.errors import InputError
from dpalgos.formula.columns import public_rows
from dpalgos.formula.design import FormulaDesign, design_of
from tasks.errors import SpecError
from tasks.own_table.analyst_table import AnalystTable
from tasks.own_table.simulated_rows import declared_as

if TYPE_CHECKING:
    from dpalgos.formula.group_table import GroupNumbers


def expand_formula(formula: str, table: AnalystTable) -> tuple[AnalystTable, FormulaDesign]:
    """Return a table with the columns of a formula in the place of an earlier one's, and what it comes to.

    A formula that uses undeclared columns, or learns from the rows, is refused.
    """
    from dpalgos.formula.survival_time import size_of  # loaded if there is a formula

    known = next((each.derived for each in table.columns if isinstance(each.derived, FormulaDesign)), None)
    if known and known.formula == formula:  # the study's own, which was expanded when its file was read
        return table, known
    declared = tuple(column for column in table.columns if not column.derived)
    try:
        columns = {column.name: declared_as(column) for column in declared}
        design = design_of(formula, columns, size_of(table.units[0]))
    except InputError as error:
        raise SpecError(str(error)) from None
    if not design.has_intercept:
        raise SpecError(f"formula must keep its intercept, which every regression here has, got {formula!r}")
    if design.response is None:
        raise SpecError(f"formula must have a response on its left, got {formula!r}; write response ~ terms")
    if twice := [column.name for column in declared if column.transform and column.name in design.uses]:
        raise SpecError(
            f"transform of {twice[0]!r} must be left out where a formula uses it; write log(…) there"
        )
    if twice := [column.name for column in declared if column.name in design.sources]:
        raise SpecError(f"column {twice[0]!r} has the same name as a term; rename it")
    return table.model_copy(update={"columns": (*declared, *_derived_columns(design))}), design


def expand_group_numbers(kind: str, formula: str, table: AnalystTable) -> tuple[AnalystTable, "GroupNumbers"]:
    """Return a table with the numbers by group of a survival curve or a baseline table, and what they are."""
    from dpalgos.formula.group_table import group_numbers  # loaded if a table by group is requested

    declared = tuple(column for column in table.columns if not column.derived)
    try:
        columns = {column.name: declared_as(column) for column in declared}
        if kind == "table1":
            columns = {
                column.name: replace(
                    columns[column.name],
                    may_lack=bool(table.missing == "drop" or column.missing or column.impute is not None),
                )
                for column in declared
            }
        numbers = group_numbers(kind, formula, columns)
        names, largest = numbers.names, numbers.largest
    except InputError as error:
        raise SpecError(str(error)) from None
    if logs := [column.name for column in declared if column.transform and column.name in numbers.uses]:
        raise SpecError(f"transform of {logs[0]!r} must be left out where {kind} uses it")
    derived = [
        Column(name, "float64", "", -1.0, largest, "from the declared columns", 0.0, 1.0, derived=numbers)
        for name in names
    ]
    return table.model_copy(update={"columns": (*declared, *derived)}), numbers


def _derived_columns(design: FormulaDesign) -> Iterator[Column]:
    """Yield the columns that a formula computes: those that are fitted, and its response."""
    response = design.response
    for name, values in design.values(public_rows(design.declared, 1024)).items():
        is_response = response is not None and name == design.derived_response
        unit = (response.center, response.scale) if response and is_response else (0.0, 1.0)
        bounds, source = (float(values.min()), float(values.max())), "from the bounds of its columns"
        yield Column(name, "float64", "", *bounds, source, *unit, derived=design)
