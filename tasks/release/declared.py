"""The columns of a release as a study file declares them: how they become rows, and the way back.

The release is converted to the units of the file, which is post-processing. Covariates are centered.
Therefore the intercept is the estimate where all of them are at their centers.
"""

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


def row_design(
    analyst_table: AnalystTable | None,
    asked: ReleaseColumns,
    family: str,
    formula: FormulaDesign | None = None,
) -> RowDesign:
    """Return how rows are made from columns: as a study file declares them, or unchanged without one."""
    if analyst_table is None:
        return RowDesign(
            columns=tuple(map(Column.in_units, asked.x)),
            response=Column.in_units(asked.y) if asked.y else None,
            user_id=asked.user_id or "",
            weights=asked.weights or "",
        )
    known = {column.name: column for column in analyst_table.columns}
    for fault in faults_of_columns(analyst_table, asked):
        raise SpecError(fault)
    declaration = analyst_table.declaration(known[name] for name in asked.xy)
    columns = {column.name: column for column in analyst_table.fitted}
    response = None
    if asked.y:
        one, *others = [asked.y] if family == "multinomial" else known[asked.y].table_columns
        if others:
            raise SpecError(
                f"columns.y must be a column of numbers or of two categories, got {asked.y!r}; choose "
                "another, or params.family = 'multinomial'"
            )
        response = Column.in_units(one) if family else columns[one]
    return RowDesign(
        columns=tuple(columns[each] for name in asked.x for each in known[name].table_columns),
        response=response,
        user_id=analyst_table.user_id,
        weights=analyst_table.weights,
        intercept=response is not None,
        declaration=declaration,
        formula=formula.described if formula else None,
    )


def units_of_file(
    design: RowDesign,
    analyst_table: AnalystTable | None,
    asked: ReleaseColumns,
    formula: FormulaDesign | None = None,
) -> FileUnits:
    """Return how an estimate from the rows of a design is converted to the units of the file."""
    if analyst_table is None:
        return FileUnits.unchanged(design.names)
    if numbers := analyst_table.group_numbers_of(asked.x):
        return FileUnits.unchanged(numbers.released_names)
    units = file_units(design.columns, design.response)
    if design.response is not None:
        known = {column.name: column for column in analyst_table.columns}
        groups = {known[name].term: known[name].table_columns for name in asked.x}
        units = replace(units, groups=groups, columns=asked.xy)
    return units.by_formula(formula) if formula else units
