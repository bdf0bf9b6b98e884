"""The columns of a release: how they become rows, the way back, and the question that the ledger stores.

The rows of a release are computed from a `RowDesign` and from nothing else that is public. The estimator runs
with its keywords. The ledger hashes everything of the two that decides the estimate, so two requests are one
question only if they draw from the same inputs. A question has one form for all spellings:

- Columns are in order of their names, as long as no formula names the coefficients.
- Marks of numbers have their default: the numbers that were read with them are in the digest of the content.
- Cut points of a time are stated once, by the columns that are computed from it.
- Spellings of a category that mean the same code, such as 7 and 7.0, are stated once.
- A constant for missing cells is left out where they are counted.

The release is converted to the units of the file, which is post-processing. Covariates are centered.
Therefore the intercept is the estimate where all of them are at their centers.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
from pydantic import Field

from data.columns import Column, Declaration, Derived, rows_in_units
from data.formats.canonical import MISSING, meanings
from data.ledger.charges import canonical_json
from dpalgos.catalog import Estimator
from dpalgos.core.estimator import AnyEstimator
from dpalgos.formula.allowed import plain_code
from dpalgos.formula.design import FormulaDesign
from dpalgos.typing import FloatArray
from tasks.errors import SpecError
from tasks.file_schema import Strict
from tasks.own_table.analyst_table import AnalystTable
from tasks.own_table.file_units import FileUnits, file_units
from tasks.study.estimators import OFFSET


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


def _unit(column: Column) -> dict[str, Any]:
    return {"name": column.name, "center": column.center, "scale": column.scale}


def _markers(words: Sequence[str]) -> tuple[str, ...]:
    known = [each for each in words if each.strip().lower() not in MISSING]
    return tuple(sorted({str(each).removesuffix(".0") for each in meanings(known)}))


def _spellings(pairs: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the texts of categories with their categories, without other notations of one code."""
    texts, levels = [text for text, _ in pairs], [level for _, level in pairs]
    meant = zip(meanings(texts, has_codes=True), meanings(levels, has_codes=True), levels, strict=True)
    codes = {(str(text).removesuffix(".0"), level) for text, of_level, level in meant if text != of_level}
    return sorted(map(list, codes))


# Keywords that version 2.1 or 3.0 lacks, at values that mean what it did: questions stay the same questions.
_LATER = {
    **{"person_weight": "equal", "max_rows": None, "max_weight": None},  # since 3.0
    **{"single_event": False, "with_times": False},  # since 4.0
}


def question_parameters(
    estimator: Estimator, params: AnyEstimator, design: RowDesign, *, as_in_3_0: bool = False
) -> dict[str, Any]:
    """Return every field that a release is drawn from, next to the data, as plain data.

    ``as_in_3_0``: in the form of version 3.0, which depends on spellings.
    """
    n_columns, task = design.n_columns, estimator.task
    order = list(range(n_columns))
    if task == "mean" or (not as_in_3_0 and design.formula is None and task not in ("counts", "sums")):
        first = int(getattr(params, OFFSET, None) is not None)  # an offset stays the first column
        last = len(design.names) - int(bool(getattr(params, "intercept", False)) and not design.intercept)
        order[first:last] = sorted(order[first:last], key=lambda j: design.names[j])
        design = _sorted(design, [j for j in order if j < len(design.names)])
    keywords: dict[str, Any] = {}
    for item in fields(params):
        value = getattr(params, item.name)
        if item.metadata.get("per_column") and value is not None:
            of_column = value * n_columns if len(value) == 1 else value
            value = [of_column[j] for j in order]
        keywords[item.name] = value
    keywords = {name: each for name, each in keywords.items() if name not in _LATER or each != _LATER[name]}
    rows = _plain(design.described)
    if not as_in_3_0 and (declaration := rows["declaration"]):
        declaration["marks"] = {"decimal": "", "thousands": ""}
        counted = {name for each in design.columns if each.derived for name in each.derived.counts_missing}
        for column in declaration["columns"]:
            column.pop("periods", None)
            column["spellings"] = _spellings(column["spellings"])
            if column["name"] in counted:
                column["impute"] = None
    return {"keywords": _plain(keywords), "rows": rows}


def model_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is left of a question with a formula if spelling and order of terms do not count."""
    rows = parameters["rows"]
    if not (formula := rows.get("formula")) or not (declaration := rows.get("declaration")):
        return {}
    columns = [each for each in declaration["columns"] if each.get("derived") is None]
    return {
        "keywords": parameters["keywords"],
        "declaration": {**declaration, "columns": sorted(columns, key=lambda each: str(each["name"]))},
        "columns": formula["columns"],
        "sides": [plain_code(formula[side]) for side in ("response", "offset")],
        "factors": sorted(sorted(map(plain_code, term)) for term in formula["factors"]),
    }


def _sorted(design: RowDesign, order: Sequence[int]) -> RowDesign:
    """Return a design with its columns in another order, and those of the file by name."""
    declaration = design.declaration
    if declaration:
        by_name = sorted(declaration.columns, key=lambda column: column.name)
        declaration = replace(declaration, columns=tuple(by_name))
    return replace(design, columns=tuple(design.columns[j] for j in order), declaration=declaration)


def _plain(value: Any) -> Any:
    """Return a value with all its fields as plain data; a formula, which many columns share, is a digest."""
    if isinstance(value, Derived):
        return hashlib.sha256(canonical_json(_plain(value.described)).encode()).hexdigest()
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(each) for each in value]
    return value
