"""A study's formula: the columns that are fitted next to the declared ones."""

from dpalgos.errors import InputError
from dpalgos.formula.columns import CategoryColumn, NumberColumn, checked_periods
from dpalgos.formula.design import FormulaDesign, design_of
from tasks.errors import SpecError
from tasks.own_table.analyst_table import AnalystColumn, AnalystTable, DerivedColumn


def expand_formula(formula: str, table: AnalystTable) -> tuple[AnalystTable, FormulaDesign]:
    """Return a table with the columns of a formula in the place of an earlier one's, and what it comes to.

    A formula that uses undeclared columns, or learns from the rows, is refused.
    """
    declared = tuple(column for column in table.columns if not isinstance(column, DerivedColumn))
    try:
        design = design_of(formula, {column.name: _declaration(column) for column in declared})
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
    return table.model_copy(update={"columns": (*declared, *DerivedColumn.all_of(design))}), design


def _declaration(column: AnalystColumn) -> NumberColumn | CategoryColumn:
    if column.categories:
        return CategoryColumn(column.categories)
    assert column.lower is not None
    assert column.upper is not None
    cuts = checked_periods(column.periods) if column.periods else ()
    return NumberColumn(column.lower, column.upper, column.center, column.scale, cuts)
