"""The declaration of an analyst's own table in a study file: everything that is public about it."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, InstanceOf, PlainSerializer, field_validator, model_validator

from data.dataset import Column, Dataset, Declaration, DeclaredColumn, Marks, Source
from data.formats.canonical import meanings
from data.tables import sources
from data.tables.marks import FileMarks, fault_of_code, odd_codes
from data.tables.reading import opened_table, require_columns
from dpalgos.declared_units import unit_of_bounds
from dpalgos.formula.code import INTERCEPT
from dpalgos.formula.columns import public_rows
from dpalgos.formula.design import FormulaDesign
from tasks.file_schema import Number, Strict

Text = Annotated[str, Field(min_length=1)]


class AnalystColumn(Strict):
    """A column: numbers with public bounds, or text with categories; what has no default must be stated."""

    name: Text
    lower: Number | None = None
    upper: Number | None = None
    categories: tuple[Text, ...] = ()  # all that text may hold; the first is the reference
    levels: dict[Text, tuple[Text, ...]] = Field(default={})  # categories with all ways to write each
    others: str = ""  # the category of every text that is not listed
    transform: Literal["", "log"] = ""  # errors, coefficients and units are of the logarithm
    unit: str = ""
    source: Text  # where bounds or categories come from
    center: Number | None = None  # public units: by default the middle and a quarter of the bounds
    scale: Annotated[Number, Field(gt=0)] | None = None
    impute: Number | str | None = None  # a public constant in the place of missing cells
    missing: tuple[Text, ...] = ()  # what stands for a missing cell, e.g. "?"; a category never does
    periods: tuple[Number, ...] = ()  # public cut points of a time to an event

    @model_validator(mode="before")
    @classmethod
    def _levels_name_categories(cls, plain: Any) -> Any:
        if isinstance(plain, dict) and isinstance(plain.get("levels"), dict) and "categories" not in plain:
            return {**plain, "categories": list(plain["levels"])}
        return plain

    @model_validator(mode="after")
    def _numbers_or_text(self) -> "AnalystColumn":
        name, bounds = self.name, (self.lower, self.upper)
        if self.categories:
            if any(value is not None for value in (*bounds, self.center, self.scale)) or self.transform:
                raise ValueError(f"{name!r} has categories and bounds; keep one of them")
            if len(set(self.categories)) < max(2, len(self.categories)) or "" in map(
                str.strip, self.categories
            ):
                raise ValueError(
                    f"categories of {name!r} must be two or more different texts, got {list(self.categories)}"
                )
            self._check_levels()
            if self.impute is not None and self.impute not in self.categories:
                raise ValueError(f"impute of {name!r} must be one of its categories, got {self.impute!r}")
            if self.others and self.others not in self.categories:
                raise ValueError(f"others of {name!r} must be one of its categories, got {self.others!r}")
            return self
        if self.others:
            raise ValueError(f"others of {name!r} needs categories, got none; remove it")
        if self.lower is None or self.upper is None:
            raise ValueError(f"{name!r} needs lower and upper, or categories; add one of them")
        if not self.lower < self.upper:
            raise ValueError(f"{name!r}: lower must be below upper, got {self.lower:g} and {self.upper:g}")
        if self.transform and not self.lower > 0:
            raise ValueError(f"{name!r}: lower must be above 0 for transform = 'log', got {self.lower:g}")
        low, high = self._in_units
        if self.center is not None and not low <= self.center <= high:
            raise ValueError(
                f"{name!r}: center must lie within its bounds {low:g} and {high:g}"
                f"{' on the log scale' * bool(self.transform)}, got {self.center:g}; correct it"
            )
        if isinstance(self.impute, str):
            raise ValueError(f"impute of {name!r} must be a number, got {self.impute!r}")
        if self.impute is not None and not self.lower <= self.impute <= self.upper:
            raise ValueError(f"impute of {name!r} must lie within its bounds, got {self.impute:g}")
        return self

    def _check_levels(self) -> None:
        """Refuse levels that are no categories, and a text that stands for two things."""
        if odd := [level for level in self.levels if level not in self.categories]:
            raise ValueError(f"levels of {self.name!r} must be among its categories, got {odd[0]!r}")
        pairs = {(text, level) for level, own in self.levels.items() for text in own}
        texts = [(level, level) for level in self.categories] + sorted(pairs)
        texts += [(text, "a missing cell") for text in self.missing]
        meant: dict[str | float, tuple[str, str]] = {}
        for text, (spelling, level) in zip(meanings([text for text, _ in texts]), texts, strict=True):
            other, before = meant.setdefault(text, (spelling, level))
            if before != level:
                raise ValueError(
                    f"{self.name!r} must have each text once among categories, levels and missing, where 7, "
                    f"07 and 7.0 are the same, got {other!r} and {spelling!r}; take one out, or put a letter "
                    "before each code in the file"
                )

    @property
    def uses(self) -> tuple[str, ...]:
        """The columns of the file that it is made from: itself."""
        return (self.name,)

    @property
    def declared(self) -> DeclaredColumn:
        declaration = DeclaredColumn(
            name=self.name,
            categories=self.categories,
            impute=self.impute,
            others=self.others,
            log=bool(self.transform),
            missing=self.missing,
            spellings=tuple(
                (spelling, level)
                for level, spellings in self.levels.items()
                for spelling in spellings
                if spelling != level
            ),
        )
        if self.lower is None or self.upper is None:
            return declaration
        return replace(declaration, lower=self.lower, upper=self.upper)

    @property
    def _in_units(self) -> tuple[float, float]:
        """The bounds as they are after the transform."""
        assert self.lower is not None
        assert self.upper is not None
        return (math.log(self.lower), math.log(self.upper)) if self.transform else (self.lower, self.upper)

    @property
    def columns(self) -> tuple[Column, ...]:
        if self.categories:
            center, scale = unit_of_level(len(self.categories))
            codes = Column(self.name, "float64", "", 0.0, len(self.categories) - 1.0, self.source, 0.0, 1.0)
            indicators = (
                Column(name, "float64", "", 0.0, 1.0, self.source, center, scale)
                for name in self.declared.table_columns
            )
            return (*indicators, codes)
        low, high = self._in_units
        middle, quarter = unit_of_bounds(low, high)
        center = middle if self.center is None else self.center
        scale = quarter if self.scale is None else self.scale
        (name,) = self.declared.table_columns
        unit = f"log {self.unit}".strip() if self.transform else self.unit
        return (Column(name, "float64", unit, low, high, self.source, center, scale),)


class DerivedColumn(AnalystColumn):
    """A column that a formula computes from others: one that is fitted, or its response."""

    derived: Annotated[InstanceOf[FormulaDesign], PlainSerializer(lambda design: design.described)]

    @model_validator(mode="after")
    def _numbers_or_text(self) -> "DerivedColumn":
        return self

    @classmethod
    def all_of(cls, design: FormulaDesign) -> tuple["DerivedColumn", ...]:
        columns, response = [], design.response
        for name, values in design.values(public_rows(design.declared, 1024)).items():
            is_response = response is not None and name == design.derived_response
            numbers: dict[str, Any] = {
                "lower": values.min(),
                "upper": values.max(),
                "center": response.center if response and is_response else 0.0,
                "scale": response.scale if response and is_response else 1.0,
            }
            columns.append(cls(name=name, source="from the bounds of its columns", derived=design, **numbers))
        return tuple(columns)

    @property
    def declared(self) -> DeclaredColumn:
        return replace(super().declared, derived=self.derived)

    @property
    def uses(self) -> tuple[str, ...]:
        reading = self.derived.reading
        if self.derived.survival:
            return self.derived.uses
        return reading.left if self.name == self.derived.derived_response else reading.right


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
    known = set(meanings([str(text) for text in texts]))
    return {**column, "missing": [code for code in codes if meanings([str(code)])[0] not in known]}


def require_clusters(path: sources.Source, table: "AnalystTable") -> None:
    """Refuse a column of clusters that the file's header lacks; no row is read."""
    if table.clusters not in ("", "none"):
        with opened_table(path, FileMarks(table.marks)) as (names, _):
            require_columns(path, names, [table.clusters], 'correct data.clusters, or write "none"')


class AnalystTable(Strict):
    """An analyst's own file: its path, and what is public about it."""

    path: Annotated[str, Field(pattern=r"^[^\x00]+$")]  # CSV or Parquet, from the study file's folder
    rows: Annotated[int, Field(strict=True, ge=1)]  # public, since neighbors differ in one row's values
    privacy_unit: Text  # whose values one row, or a user's rows, hold
    clusters: str = ""  # "none", or the column whose rows belong together, e.g. a clinic; "" if not stated
    user_id: str = ""  # the column of user ids; empty: a row is protected
    users: Annotated[int, Field(strict=True, ge=2)] | None = None  # as public as rows
    missing: Literal["refuse", "drop"] = "refuse"  # rows that lack a cell which is not imputed
    outside: Literal["refuse", "clip"] = "refuse"  # numbers beyond their bounds
    # codes of a missing cell in each column without missing = […] of its own, as far as they are no category
    missing_codes: Annotated[tuple[Text, ...], Field(exclude=True)] = ()
    decimal: Literal["", ".", ","] = ""  # the decimal mark; by default a comma between semicolons
    thousands: Literal["", ",", ".", "'", " "] = ""  # the mark between thousands
    # what separates the cells of a CSV file; by default the only mark of its header
    separator: Annotated[Literal["", ",", ";", "|", "\t"], Field(exclude=True)] = ""
    columns: tuple[AnalystColumn, ...] = Field(min_length=1)

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
    def _distinct(cls, columns: tuple[AnalystColumn, ...]) -> tuple[AnalystColumn, ...]:
        names = [column.name for one in columns for column in one.columns]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise ValueError(f"columns must differ in name, got {twice[0]!r} twice; remove one")
        if INTERCEPT in names:
            raise ValueError(
                f"no column may be called {INTERCEPT!r}, the name of the intercept; rename it in the file"
            )
        return columns

    @model_validator(mode="after")
    def _marks_differ(self) -> "AnalystTable":
        if self.thousands and self.thousands == (self.decimal or "."):
            raise ValueError(f"thousands must not be the decimal mark, got {self.thousands!r} for both")
        for column in self.columns:
            if not column.categories and (odd := odd_codes(column.missing, self.marks)):
                raise ValueError(fault_of_code(column.name, odd[0]))
        return self

    @field_validator("clusters")
    @classmethod
    def _none_is_exact(cls, clusters: str) -> str:
        if clusters != "none" and clusters.strip().lower() == "none":
            raise ValueError(f'clusters must be "none" or the name of a column, got {clusters!r}')
        return clusters

    @model_validator(mode="after")
    def _users_are_counted(self) -> "AnalystTable":
        if bool(self.user_id) != (self.users is not None):
            raise ValueError(
                f"user_id and users belong together, got {self.user_id!r} and {self.users!r}; write both"
            )
        if self.user_id in [column.name for one in self.columns for column in one.columns]:
            raise ValueError(f"columns must not hold the column of user ids, got {self.user_id!r}")
        return self

    def formula_of(self, covariates: Collection[str]) -> FormulaDesign | None:
        """Return the formula that computes some covariates, if one does."""
        derived = (each for each in self.columns if isinstance(each, DerivedColumn))
        return next((each.derived for each in derived if each.name in covariates), None)

    @property
    def marks(self) -> Marks:
        """How the file writes numbers."""
        return Marks(self.decimal, self.thousands, self.separator)

    def needed(self, columns: Iterable[AnalystColumn]) -> tuple[AnalystColumn, ...]:
        """Return some columns, and before them those that they are computed from."""
        known, names = {column.name: column for column in self.columns}, tuple(columns)
        used = (known[name] for column in names for name in column.uses if name in known)
        return tuple({column.name: column for column in (*used, *names)}.values())

    def declaration(self, columns: Iterable[AnalystColumn]) -> Declaration:
        """Return what the file, or some columns of it, is checked against."""
        clip = self.outside == "clip"
        return Declaration(
            columns=tuple(replace(column.declared, clip=clip) for column in self.needed(columns)),
            marks=self.marks,
            missing=self.missing,
            n_rows=self.rows,
            user_id=self.user_id,
            n_users=self.users,
        )

    @property
    def units(self) -> tuple[int, str]:
        """How many rows or users are protected, and which of the two."""
        return (self.rows, "rows") if self.users is None else (self.users, "users")

    def dataset(self, name: str) -> Dataset:
        file = Path(self.path).name
        return Dataset(
            name=name,
            title=file,
            description="A file of one's own.",
            privacy_unit=self.privacy_unit,
            n_rows=self.rows,
            license="the owner's",
            citation="",
            source=Source(file, "", "own", note="the owner's own"),
            columns=tuple(column for one in self.columns for column in one.columns),
        )

    def ingested(self, name: str) -> tuple[str, ...]:
        """Return the columns of the ingested table that a declared column becomes; another name as it is."""
        for column in self.columns:
            if column.name == name:
                return column.declared.table_columns
        return (name,)
