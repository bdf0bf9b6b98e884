"""The columns of a release as a study file declares them: how they become rows, and the way back."""

from collections.abc import Iterator
from dataclasses import replace

from pydantic import Field

from data.columns import Column
from dpalgos.formula.design import FormulaDesign
from tasks.errors import SpecError
from tasks.file_schema import Strict
from tasks.own_table.analyst_table import AnalystTable
from tasks.own_table.file_units import FileUnits, file_units
from tasks.release.design import RowDesign


class ReleaseColumns(Strict):
    """The columns of a release's file: covariates, the response, and whose rows they are."""

    x: tuple[str, ...] = Field(default=(), min_length=1)
    y: str | None = None
    user_id: str | None = None
    weights: str | None = None  # "": a regression without the weights that the study file declares

    @property
    def all_numbers(self) -> tuple[str, ...]:
        """The covariates, the weights and the response, as far as there are any."""
        return (*self.x, *filter(None, [self.weights, self.y]))

    @property
    def xy(self) -> tuple[str, ...]:
        """The covariates, and the response if there is one."""
        return (*self.x, self.y) if self.y else self.x


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


def units_as_declared(
    analyst_table: AnalystTable, asked: ReleaseColumns, family: str, formula: FormulaDesign | None = None
) -> tuple[RowDesign, FileUnits]:
    """Return how rows are made from columns as a study file declares them, and the way back."""
    known = {column.name: column for column in analyst_table.columns}
    for fault in faults_of_columns(analyst_table, asked):
        raise SpecError(fault)
    declaration = analyst_table.declaration(known[name] for name in asked.xy)
    columns = {column.name: column for column in analyst_table.fitted}
    groups = {known[name].term: known[name].table_columns for name in asked.x}
    response = None
    if asked.y:
        one, *others = [asked.y] if family == "multinomial" else known[asked.y].table_columns
        if others:
            raise SpecError(
                f"columns.y must be a column of numbers or of two categories, got {asked.y!r}; choose "
                "another, or params.family = 'multinomial'"
            )
        response = Column.in_units(one) if family else columns[one]
    design = RowDesign(
        columns=tuple(columns[name] for group in groups.values() for name in group),
        response=response,
        user_id=analyst_table.user_id,
        weights=analyst_table.weights,
        intercept=response is not None,
        declaration=declaration,
        formula=formula.described if formula else None,
    )
    if numbers := analyst_table.group_numbers_of(asked.x):
        return design, FileUnits.unchanged(numbers.released_names)
    units = file_units(design.columns, response)
    if response is not None:
        units = replace(units, groups=groups, columns=asked.xy)
    return design, units.by_formula(formula) if formula else units
