"""How the rows of a release are made from the columns of a file, and the way back.

The rows are computed from a `RowDesign` and from nothing else that is public. The release is converted to the
units of the file, which is post-processing. Covariates are centered. Therefore the intercept is the estimate
where all of them are at their centers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import Field

from data.columns import Column, Declaration, rows_in_units
from data.formats.canonical import MISSING, meanings
from dpalgos.formula.design import FormulaDesign
from dpalgos.typing import FloatArray
from tasks.errors import SpecError
from tasks.file_schema import Strict
from tasks.own_table.analyst_table import AnalystTable
from tasks.own_table.file_units import FileUnits, file_units


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


@dataclass(frozen=True, kw_only=True)
class RowDesign:
    """How rows are made from a file.

    Without a ``declaration`` the columns are the numbers of the file. ``intercept``: the last column is 1.
    ``formula`` describes the formula that computes the columns, and names the coefficients.
    """

    columns: tuple[Column, ...]
    response: Column | None = None
    user_id: str = ""
    weights: str = ""
    intercept: bool = False
    declaration: Declaration | None = None
    formula: Mapping[str, Any] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def n_columns(self) -> int:
        """The number of columns of X."""
        return len(self.columns) + self.intercept

    @property
    def plain_declaration(self) -> Declaration:
        """The declaration of a file that has none: whole columns of finite numbers."""
        response = self.response.name if self.response else ""
        columns = tuple(map(Column.in_units, [*self.names, *filter(None, [self.weights, response])]))
        return Declaration(columns=columns, missing="refuse", n_rows=None, user_id=self.user_id)

    def rows(self, table: Any) -> tuple[FloatArray, FloatArray | None]:
        """Return the rows (n, k) of a table, columns (n,) by name, and its responses."""
        return rows_in_units(table, self.columns, self.response, intercept=self.intercept)

    @property
    def described(self) -> dict[str, Any]:
        """Everything that the rows are made from, the same for all spellings of a declaration."""
        declaration = self.declaration.described if self.declaration else None
        for column in declaration["columns"] if declaration else ():
            column["missing"] = _markers(column["missing"])
            column["spellings"] = sorted(column["spellings"])
        return {
            "columns": list(map(_unit, self.columns)),
            "response": _unit(self.response) if self.response else None,
            "user_id": self.user_id,
            **({"weights": self.weights} if self.weights else {}),
            "intercept": self.intercept,
            "declaration": declaration,
            "formula": self.formula,
        }


def row_design(
    analyst_table: AnalystTable | None,
    columns_of_release: ReleaseColumns,
    family: str,
    formula: FormulaDesign | None = None,
) -> RowDesign:
    """Return how rows are made from columns: as a study file declares them, or unchanged without one."""
    if analyst_table is None:
        return RowDesign(
            columns=tuple(map(Column.in_units, columns_of_release.x)),
            response=Column.in_units(columns_of_release.y) if columns_of_release.y else None,
            user_id=columns_of_release.user_id or "",
            weights=columns_of_release.weights or "",
        )
    known = {column.name: column for column in analyst_table.columns}
    declaration = analyst_table.declaration(known[name] for name in columns_of_release.xy)
    columns = {column.name: column for column in analyst_table.fitted}
    response = None
    if columns_of_release.y:
        one, *others = (
            [columns_of_release.y] if family == "multinomial" else known[columns_of_release.y].table_columns
        )
        if others:
            raise SpecError(
                f"columns.y must be a column of numbers or of two categories, got {columns_of_release.y!r}; "
                "choose another, or params.family = 'multinomial'"
            )
        response = Column.in_units(one) if family else columns[one]
    return RowDesign(
        columns=tuple(columns[each] for name in columns_of_release.x for each in known[name].table_columns),
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
    columns_of_release: ReleaseColumns,
    formula: FormulaDesign | None = None,
) -> FileUnits:
    """Return how an estimate from the rows of a design is converted to the units of the file."""
    if analyst_table is None:
        return FileUnits.unchanged(design.names)
    if numbers := analyst_table.group_numbers_of(columns_of_release.x):
        return FileUnits.unchanged(numbers.released_names)
    units = file_units(design.columns, design.response)
    if design.response is not None:
        known = {column.name: column for column in analyst_table.columns}
        groups = {known[name].term: known[name].table_columns for name in columns_of_release.x}
        units = replace(units, groups=groups, columns=columns_of_release.xy)
    return units.by_formula(formula) if formula else units


def _unit(column: Column) -> dict[str, Any]:
    return {"name": column.name, "center": column.center, "scale": column.scale}


def _markers(words: Sequence[str]) -> tuple[str, ...]:
    known = [each for each in words if each.strip().lower() not in MISSING]
    return tuple(sorted({str(each).removesuffix(".0") for each in meanings(known)}))
