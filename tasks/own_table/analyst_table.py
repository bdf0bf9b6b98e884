"""The declaration of an analyst's own table in a study file: everything that is public about it."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import BeforeValidator, Field, field_validator, model_validator

from data.columns import Column, Declaration, Marks, Text
from data.dataset import Dataset, Source
from data.formats.canonical import meanings
from data.tables import sources
from data.tables.marks import FileMarks
from data.tables.queries import Query
from data.tables.reading import opened_table, require_columns
from dpalgos.formula.code import INTERCEPT
from dpalgos.formula.columns import unit_of_bounds
from dpalgos.formula.design import FormulaDesign
from tasks.errors import require_once
from tasks.file_schema import Positive, Strict

if TYPE_CHECKING:  # loaded if a table by group is requested
    from dpalgos.formula.group_table import GroupNumbers

_DECLARED = [each.name for each in fields(Column) if each.name not in ("dtype", "derived")]


def _column_of_file(plain: Any) -> Any:
    """Add the facts that columns of datasets alone must state; refuse keys that no file has."""
    if not isinstance(plain, dict):
        return plain
    if unknown := [key for key in plain if key not in _DECLARED]:
        raise ValueError(f"unknown key {unknown[0]!r}; allowed are {', '.join(_DECLARED)}")
    return {"dtype": "float64", "unit": "", "lower": -math.inf, "upper": math.inf, **plain}


def fitted_columns(column: Column) -> tuple[Column, ...]:
    """Return the columns of numbers that a declared column becomes, with their public units.

    A category becomes its indicators, then its codes 0, 1, …
    """
    number = replace(column, categories=(), levels={}, others="", transform="", impute=None, missing=())
    if column.categories:
        center, scale = unit_of_level(len(column.categories))
        level = replace(number, lower=0.0, upper=1.0, center=center, scale=scale)
        codes = replace(number, lower=0.0, upper=len(column.categories) - 1.0, center=0.0, scale=1.0)
        return (*(replace(level, name=name) for name in column.table_columns), codes)
    low, high = column.transformed_bounds
    center, scale = unit_of_bounds(low, high, column.center, column.scale)
    return (
        replace(
            number,
            name=column.table_columns[0],
            unit=f"log {column.unit}".strip() if column.transform else column.unit,
            lower=low,
            upper=high,
            center=center,
            scale=scale,
        ),
    )


def unit_of_level(n_levels: int) -> tuple[float, float]:
    """Return center and scale of a column of 0 and 1: as if all categories were equally frequent.

    The indicator is then of order one and hardly correlated with the intercept, whatever the data. At 0 and 1
    its second moments would be smaller than the noise. No value is outside ±2, as for numbers in units of a
    quarter of their bounds. The numbers have three digits.
    """
    share = round(1 / n_levels, 3)
    scale = max(math.sqrt(share * (1 - share)), (1 - share) / 2)
    return share, math.ceil(1000 * scale) / 1000


def _with_codes(column: Any, codes: Sequence[str]) -> Any:
    if not isinstance(column, dict) or "missing" in column:
        return column
    levels = column.get("levels") or {}
    texts: list[Any] = [*(column.get("categories") or levels)]
    texts += [text for spellings in levels.values() for text in spellings]
    known = set(meanings([str(text) for text in texts], has_codes=True))
    meant = meanings([str(code) for code in codes], has_codes=bool(texts))
    return {**column, "missing": [code for code, each in zip(codes, meant, strict=True) if each not in known]}


def require_clusters(path: sources.Source, table: "AnalystTable") -> None:
    """Refuse a column of clusters that the header lacks, or a query that its database refuses.

    No row is read.
    """
    clusters = [table.clusters] if table.clusters not in ("", "none") else []
    if clusters or isinstance(path, Query):
        with opened_table(path, FileMarks(table.marks)) as (names, _):
            require_columns(path, names, clusters, 'correct data.clusters, or write "none"')


class AnalystTable(Strict):
    """An analyst's own file: its path, and what is public about it."""

    # CSV or Parquet, from the study file's folder; or the address of a query
    path: Annotated[str, Field(pattern=r"^[^\x00]+$")]
    # public, since neighbors differ in one row's values; None with users, of whom only the number is public
    rows: Annotated[int, Field(strict=True, ge=1)] | None = None
    privacy_unit: Text  # whose values one row, or a user's rows, hold
    clusters: str = ""  # "none", or the column whose rows belong together, e.g. a clinic; "" if not stated
    user_id: str = ""  # the column of user ids; empty: a row is protected
    users: Annotated[int, Field(strict=True, ge=2)] | None = None  # as public as rows
    weights: str = ""  # the column of private weights, none of the covariates; "": rows weigh the same
    max_weight: Positive | None = None  # to which weights are clipped, from 0 on
    missing: Literal["refuse", "drop"] = "refuse"  # rows that lack a cell which is not imputed
    outside: Literal["refuse", "clip"] = "refuse"  # numbers beyond their bounds
    # codes of a missing cell in each column without missing = […] of its own, as far as they are no category,
    # and of missing weights and user ids
    missing_codes: Annotated[tuple[Text, ...], Field(exclude=True)] = ()
    decimal: Literal["", ".", ","] = ""  # the decimal mark; by default a comma between semicolons
    thousands: Literal["", ",", ".", "'", " "] = ""  # the mark between thousands
    # what separates the cells of a CSV file; by default the only mark of its header
    separator: Annotated[Literal["", ",", ";", "|", "\t"], Field(exclude=True)] = ""
    columns: tuple[Annotated[Column, BeforeValidator(_column_of_file)], ...] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _codes_of_columns(cls, plain: Any) -> Any:
        """Give each column the codes of the table; one with its own keeps them, even if there are none."""
        if not isinstance(plain, dict):
            return plain
        codes, columns = plain.get("missing_codes"), plain.get("columns")
        if not isinstance(codes, list) or not isinstance(columns, list):
            return plain
        return {**plain, "columns": [_with_codes(each, codes) for each in columns]}

    @field_validator("columns")
    @classmethod
    def _distinct(cls, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        names = [column.name for one in columns for column in fitted_columns(one)]
        require_once("columns must differ in name", names)
        if INTERCEPT in names:
            raise ValueError(
                f"no column may be called {INTERCEPT!r}, the name of the intercept; rename it in the file"
            )
        return columns

    @field_validator("clusters")
    @classmethod
    def _none_is_exact(cls, clusters: str) -> str:
        if clusters != "none" and clusters.strip().lower() == "none":
            raise ValueError(f'clusters must be "none" or the name of a column, got {clusters!r}')
        return clusters

    @model_validator(mode="after")
    def _users_and_weights_are_whole(self) -> "AnalystTable":
        for name, other in (("user_id", "users"), ("weights", "max_weight")):
            column, number = getattr(self, name), getattr(self, other)
            if bool(column) != (number is not None):
                raise ValueError(
                    f"{name} and {other} belong together, got {column!r} and {number!r}; write both"
                )
        if (self.rows is None) != bool(self.user_id):
            raise ValueError(
                f"rows must be left out exactly if user_id is declared, got rows = {self.rows} and user_id = "
                f"{self.user_id!r}: how many rows users have is private"
            )
        return self

    @model_validator(mode="after")
    def _no_covariate_is_special(self) -> "AnalystTable":
        names = [column.name for column in (*self.columns, *self.fitted)]
        for role, name in (("user ids", self.user_id), ("weights", self.weights)):
            if name in names:
                raise ValueError(f"columns must not hold the column of {role}, got {name!r}; take it out")
        if self.weights and self.weights == self.user_id:
            raise ValueError(f"weights must be another column than user_id, got {self.weights!r} for both")
        return self

    def formula_of(self, covariates: Collection[str]) -> FormulaDesign | None:
        """Return the formula that computes some covariates, if one does."""
        derived = (each.derived for each in self.columns if each.name in covariates)
        return next((each for each in derived if isinstance(each, FormulaDesign)), None)

    def group_numbers_of(self, names: Collection[str]) -> "GroupNumbers | None":
        derived = (each.derived for each in self.columns if each.name in names and each.derived)
        numbers = (each for each in derived if not isinstance(each, FormulaDesign))
        return cast("GroupNumbers | None", next(numbers, None))

    @property
    def fitted(self) -> tuple[Column, ...]:
        """The columns of numbers that the declared columns become."""
        return tuple(column for one in self.columns for column in fitted_columns(one))

    @property
    def marks(self) -> Marks:
        return Marks(self.decimal, self.thousands, self.separator)

    def needed(self, columns: Iterable[Column]) -> tuple[Column, ...]:
        """Return some columns, and before them those that they are computed from."""
        known, names = {column.name: column for column in self.columns}, tuple(columns)
        used = (known[name] for column in names for name in column.uses if name in known)
        return tuple({column.name: column for column in (*used, *names)}.values())

    def declaration(self, columns: Iterable[Column]) -> Declaration:
        """Return what the file, or some columns of it, is checked against: with the weights."""
        used = self.needed(columns)
        if self.weights:
            facts: dict[str, Any] = {"upper": self.max_weight, "missing": self.missing_codes}
            used += (replace(Column.in_units(self.weights), lower=0.0, **facts),)
        return Declaration(
            columns=used,
            clip=self.outside == "clip",
            marks=self.marks,
            missing=self.missing,
            missing_codes=self.missing_codes,
            n_rows=self.rows,
            user_id=self.user_id,
            n_users=self.users,
            weights=self.weights,
        )

    @property
    def units(self) -> tuple[int, str]:
        """How many rows or users are protected, and which of the two."""
        return (self.rows or 0, "rows") if self.users is None else (self.users, "users")

    @property
    def source(self) -> sources.Source:
        return sources.source_of(self.path)

    def dataset(self, name: str) -> Dataset:
        file = sources.name_of(self.source)
        return Dataset(
            name=name,
            title=file,
            description="A file of one's own.",
            privacy_unit=self.privacy_unit,
            n_rows=self.units[0],
            license="the owner's",
            citation="",
            source=Source(file, "", "own", note="the owner's own"),
            columns=self.fitted,
        )

    def term(self, name: str) -> str:
        """Return the name of a declared column in a model; another name as it is."""
        return next((column.term for column in self.columns if column.name == name), name)

    def ingested(self, name: str) -> tuple[str, ...]:
        """Return the columns of the ingested table that a declared column becomes; another name as it is."""
        for column in self.columns:
            if column.name == name:
                return column.table_columns
        return (name,)
