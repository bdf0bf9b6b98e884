"""Declarations of datasets: the source, checks and public facts."""

import dataclasses
from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator
from pydantic.dataclasses import dataclass

from data.columns import Column, Text
from data.errors import DataError, known_names

PACKAGED = "package://"  # prefix of the address of a file in an installed package
FRAME_LABEL = "label"  # the column of a stored frame's label

# A dataset also checks its parts, to report all faults at once.
_STRICT = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid", revalidate_instances="always")

Checksum = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]


@dataclasses.dataclass(frozen=True)
class GenotypeGroup:
    """A group of people whose genotypes are compared: its name in reports and the labels of its people."""

    name: Text
    labels: Annotated[tuple[Text, ...], Field(min_length=1)]


@dataclasses.dataclass(frozen=True)
class Source:
    """One file with a dataset, or the first file of a set.

    `file`, `url`, `member` and `columns` are external names. They keep the spelling of the publisher.

    Attributes
    ----------
    file : str
        Path below ``DPCOST_DATA_MIRROR`` and below the store, with forward slashes.
    url : str
        Official address: on the network, or ``package://NAME/PATH`` for a file in an installed package.
        ``""`` if there is none: `note` then states the origin of the file.
    layout : str
        Name of the parser; of a companion, its part in the set.
    sha256 : str
        The checksum; ``""`` if none is known: `note` then gives the reason.
    note : str
        Further facts about the origin of the file.
    embedded : bool
        Whether the file ships with the package, as ``data/embedded/FILE`` or ``FILE.gz``.
    member : str
        The file that is read, if `file` is an archive.
    columns : tuple of str
        Names of the columns that the parser looks up, where they are not those of the dataset.
    companions : tuple of Source
        Other files of the set, each with its own address and checksum; the set is only delivered
        complete.
    """

    file: Text
    url: Annotated[str, Field(pattern=r"^(https?://.+|package://.+)?$")]
    layout: Text
    sha256: Checksum = ""
    note: str = ""
    embedded: bool = False
    member: str = ""
    columns: tuple[str, ...] = ()
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
            raise ValueError("a source without url needs a note about the origin of its file; add it")
        if not self.sha256 and not self.note:
            raise ValueError("a source without sha256 needs a note about the reason; add it")
        return self

    @property
    def files(self) -> tuple["Source", ...]:
        return (self, *self.companions)


@dataclass(frozen=True, config=_STRICT)
class Dataset:
    """The record of a dataset: its source, columns, license, size and other public facts.

    Attributes
    ----------
    name, title, description : str
        `name` is that of its file, ``data/datasets/<name>.py``.
    privacy_unit : str
        What a guarantee protects, e.g. a woman who answered.
    n_rows : int
        Rows of the published table, or people of the published genotypes, before any is dropped.
    license, citation : str
    source : Source
    columns : tuple of Column
        In the order of the table; empty for genotypes; for frames, the features of one boid in order.
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
    stand_in : str
        The function of `data.simulations.flock` that simulates frames which no source has; ``""`` if none.
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
    stand_in: str = ""

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        files = [file.file for file in self.source.files]
        for names, noun in ((self.column_names, "columns"), (files, "files")):
            if len(set(names)) < len(names):
                raise ValueError(f"two {noun} have the same name; rename one")
        if self.kind == "genotypes":
            if len(self.groups) != 2 or set(self.groups[0].labels) & set(self.groups[1].labels):
                raise ValueError("genotypes need two groups that share no label")
        elif not self.columns:
            raise ValueError(f"a dataset of kind {self.kind!r} needs columns")
        for column in self.columns:
            if column.categories or column.transform or column.impute is not None or column.missing:
                raise ValueError(f"column {column.name!r} of a dataset must be plain numbers with bounds")
            if (column.center is None) != (column.scale is None):
                raise ValueError(f"{column.name}: center and scale go together; pass both or neither")
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
        raise DataError(f"{self.name} has no column {name!r}{known_names(name, self.column_names)}")
