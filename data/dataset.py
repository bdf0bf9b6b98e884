"""What is declared of data: a dataset's origin, its checks and public facts; those of an analyst's table."""

import dataclasses
import difflib
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Protocol, Self

from pydantic import ConfigDict, Field, field_validator, model_validator
from pydantic.dataclasses import dataclass

from data.errors import DataError

PACKAGED = "package://"  # how the address of a file inside an installed package begins
FRAME_LABEL = "label"  # the column of a stored frame's label

# A dataset checks its parts, too, so that all of its faults are found at once.
_STRICT = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid", revalidate_instances="always")

Text = Annotated[str, Field(min_length=1)]
Checksum = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]


@dataclasses.dataclass(frozen=True)
class Column:
    """One column and what is public about it.

    Attributes
    ----------
    name, dtype, unit : str
        `dtype` is ``"float64"`` or ``"int64"``; ``"float32"`` for a feature of frames.
    lower, upper : float
        Public bounds; a file with a value outside them is refused.
    bounds_source : str
        Where the bounds and units come from.
    center, scale : float or None
        Public units ``(value - center) / scale``, or None where none were chosen.
    """

    name: Text
    dtype: Literal["float64", "int64", "float32"]
    unit: str
    lower: float
    upper: float
    bounds_source: Text
    center: float | None = None
    scale: Annotated[float, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> Self:
        if not self.lower < self.upper:
            raise ValueError(f"{self.name}: lower must be below upper, got {self.lower} and {self.upper}")
        if (self.center is None) != (self.scale is None):
            raise ValueError(f"{self.name}: center and scale come together; give both or neither")
        return self


@dataclasses.dataclass(frozen=True)
class GenotypeGroup:
    """A group of people whose genotypes are compared: its name in reports, and its people's labels."""

    name: Text
    labels: Annotated[tuple[Text, ...], Field(min_length=1)]


@dataclasses.dataclass(frozen=True)
class Source:
    """One file that holds a dataset, or the first of several that do so together.

    Attributes
    ----------
    file : str
        Path below ``DPCOST_DATA_MIRROR`` and below the store, with forward slashes.
    url : str
        Official address: on the network, or of a file inside an installed Python package,
        ``package://NAME/PATH``; ``""`` where there is none, then `note` says where the file comes from.
    layout : str
        Name of the parser; of a companion, its part in the set.
    sha256 : str
        The checksum; ``""`` where none is known: then `note` says why, and the parser alone judges the file.
    note : str
        What else is known of the file's origin.
    embedded : bool
        Whether the file ships with the package, as ``data/embedded/FILE`` or ``FILE.gz``.
    companions : tuple of Source
        Files that belong to this one, each with its own address and checksum; the set is only ever
        delivered whole.
    """

    file: Text
    url: Annotated[str, Field(pattern=r"^(https?://.+|package://.+)?$")]
    layout: Text
    sha256: Checksum = ""
    note: str = ""
    embedded: bool = False
    companions: tuple["Source", ...] = ()

    @field_validator("file")
    @classmethod
    def _file_is_below_the_mirror(cls, file: str) -> str:
        if PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts:
            raise ValueError("file must be a path below the mirror; write e.g. 'housing/houses.zip'")
        return file

    @model_validator(mode="after")
    def _origin_is_stated(self) -> Self:
        if not self.note and not self.url:
            raise ValueError("a source without url needs a note on where its file comes from; add it")
        if not self.sha256 and not self.note:
            raise ValueError("a source without sha256 needs a note on why none is known; add it")
        return self

    @property
    def files(self) -> tuple["Source", ...]:
        return (self, *self.companions)


@dataclass(frozen=True, config=_STRICT)
class Dataset:
    """The record of a dataset: its source, columns, license, size, and what else is public about it.

    Attributes
    ----------
    name, title, description : str
        `name` is that of its file, ``data/datasets/<name>.py``.
    privacy_unit : str
        Whose presence or value a guarantee protects.
    n_rows : int
        Rows of the published table, or people of the published genotypes, before any is dropped.
    license, citation : str
    source : Source
    columns : tuple of Column
        In the order of the table; none for genotypes. Of frames: the features of one boid, in order.
    table_sha256 : str
        `data.fetch.tables.table_digest` of the parsed table, the same for every layout; ``""`` if unknown.
    kind : {"table", "genotypes", "frames"}
        A table of numbers, the calls of people at SNPs, or labeled frames of a flock.
    n_snps : int
        Published SNPs; 0 for a table, or if unknown.
    groups : tuple of GenotypeGroup
        The two groups of people that are compared; none for a table.
    n_boids : int
        Boids of a frame; 0 for another kind.
    label : str
        The column of a frame's label in the published file.
    """

    name: Text
    title: Text
    description: Text
    privacy_unit: Text
    n_rows: Annotated[int, Field(ge=0)]
    license: Text
    citation: str
    source: Source
    columns: tuple[Column, ...] = ()
    table_sha256: Checksum = ""
    kind: Literal["table", "genotypes", "frames"] = "table"
    n_snps: int = 0
    groups: tuple[GenotypeGroup, ...] = ()
    n_boids: int = 0
    label: str = ""

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        files = [file.file for file in self.source.files]
        for names, what in ((self.column_names, "columns"), (files, "files")):
            if len(set(names)) < len(names):
                raise ValueError(f"two {what} share a name; give each its own")
        if self.kind == "genotypes":
            if len(self.groups) != 2 or set(self.groups[0].labels) & set(self.groups[1].labels):
                raise ValueError("genotypes need two groups that share no label")
        elif not self.columns:
            raise ValueError(f"a dataset of kind {self.kind!r} needs columns")
        if self.kind == "frames" and (self.n_boids < 1 or not self.label):
            raise ValueError("frames need n_boids of at least 1 and a label; add both")
        return self

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def frame_columns(self) -> tuple[str, ...]:
        """Names of a frame's features, those of each boid in turn: ``x1, y1, …, nS200``."""
        names = self.column_names
        return tuple(f"{name}{m}" for m in range(1, self.n_boids + 1) for name in names)

    def column(self, name: str) -> Column:
        """Return a column by name, or refuse an unknown one with the nearest name."""
        for column in self.columns:
            if column.name == name:
                return column
        raise DataError(f"{self.name} has no column {name!r}; {suggest_name(name, self.column_names)}")


class Derived(Protocol):
    """Columns that are computed from others, each row by itself, by public constants."""

    @property
    def uses(self) -> tuple[str, ...]:
        """The declared columns that they are computed from."""

    @property
    def sources(self) -> Mapping[str, tuple[str, ...]]:
        """Those that decide most of each column's values."""

    @property
    def described(self) -> Mapping[str, Any]:
        """All that decides their values, as plain data."""

    def values(self, rows: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return their values (n,) by name: from numbers, and the levels of categories."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeclaredColumn:
    """What an owner declares public of a column.

    Of its categories each but the first becomes a column of 0 and 1. A ``derived`` one stands in no file.
    """

    name: str
    lower: float = 0.0  # of numbers
    upper: float = 1.0
    categories: tuple[str, ...] = ()  # their codes 0, 1, … are a column of the same name
    impute: float | str | None = None  # in place of a missing cell; None: the table's rule
    clip: bool = False  # whether a value outside becomes the nearer bound
    others: str = ""  # the category of every text that is not listed; "": such a text is refused
    log: bool = False  # whether the column is replaced by its logarithm, log(name)
    derived: Derived | None = None
    missing: tuple[str, ...] = ()  # what stands for a missing cell, next to blanks and common markers
    spellings: tuple[tuple[str, str], ...] = ()  # other ways to write a category, each with the category

    @property
    def table_columns(self) -> tuple[str, ...]:
        """The columns that stand for it as a covariate: itself, or one for each category but the first."""
        if not self.categories:
            return (f"log({self.name})" if self.log else self.name,)
        return tuple(f"{self.name}={category}" for category in self.categories[1:])

    @property
    def imputed(self) -> float:
        return float(self.categories.index(str(self.impute)) if self.categories else self.impute or 0.0)


@dataclasses.dataclass(frozen=True)
class Marks:
    """How a CSV file writes numbers: its decimal mark, and what stands between thousands."""

    decimal: str = ""  # "": a comma where semicolons separate cells, else a point
    thousands: str = ""


PLAIN = Marks()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Declaration:
    """What an owner declares public of a table."""

    columns: tuple[DeclaredColumn, ...]
    marks: Marks = PLAIN
    missing: Literal["refuse", "drop"]  # what becomes of rows with a cell that is missing and not imputed
    n_rows: int | None  # None where it is not public
    user_id: str = ""  # the column of user ids; empty where every row is another user's
    n_users: int | None = None


def suggest_name(name: str, known: tuple[str, ...]) -> str:
    matches = difflib.get_close_matches(str(name), known, n=1)
    return f"did you mean {matches[0]!r}?" if matches else f"known: {', '.join(known)}"
