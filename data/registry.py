"""The registry of datasets: addresses, checksums, provenance and public bounds, from ``registry.toml``."""

import difflib
import math
import re
import tomllib
from dataclasses import MISSING, dataclass
from dataclasses import fields as dataclass_fields
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from data.errors import DataError

REGISTRY_FILE = Path(__file__).with_name("registry.toml")
DTYPES = ("float64", "int64", "float32")
KINDS = ("table", "genotypes", "frames")
PACKAGED = "package://"  # how the address of a file inside an installed package begins
FRAME_LABEL = "label"  # the column of a stored frame's label

_HEX = re.compile(r"[0-9a-f]+")


@dataclass(frozen=True)
class Column:
    """One column with its public bounds and units.

    Attributes
    ----------
    name, dtype, unit : str
        `dtype` is ``"float64"`` or ``"int64"``; ``"float32"`` for a feature of frames.
    lower, upper : float
        Public bounds; a file with a value outside them is refused.
    center, scale : float or None
        Public units ``(value - center) / scale``, or None where none were chosen.
    bounds_source : str
        Where the bounds and units come from.
    """

    name: str
    dtype: str
    unit: str
    lower: float
    upper: float
    bounds_source: str
    center: float | None = None
    scale: float | None = None


@dataclass(frozen=True)
class GenotypeGroup:
    """A group of people whose genotypes are compared.

    Attributes
    ----------
    name : str
        What reports call it.
    labels : tuple of str
        The labels of its people, as the dataset's parser returns them.
    """

    name: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
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
        Name of the parser in ``data/datasets/<dataset>.py``; of a companion, its part in the set.
    sha256 : str
        All 64 digits, or ``""`` where only a part is known.
    sha256_begins, sha256_ends : str
        The known digits of a checksum known in part. Where nothing is known, `note` says why, and the
        parser alone judges the file.
    note : str
        What else is known of the file's origin.
    embedded : bool
        Whether the file ships with the package, in ``data/embedded/``, perhaps compressed by gzip.
    companions : tuple of Source
        Files that belong to this one, each with its own address and checksum; the set is only ever
        delivered whole.
    """

    file: str
    url: str
    layout: str
    sha256: str = ""
    sha256_begins: str = ""
    sha256_ends: str = ""
    note: str = ""
    embedded: bool = False
    companions: tuple["Source", ...] = ()

    @property
    def files(self) -> tuple["Source", ...]:
        """This file and its companions."""
        return (self, *self.companions)

    @property
    def checksum_is_partial(self) -> bool:
        """Whether only some digits of the checksum are known."""
        return not self.sha256

    @property
    def checksum_is_unknown(self) -> bool:
        """Whether no digit of the checksum is known."""
        return not (self.sha256 or self.sha256_begins or self.sha256_ends)

    @property
    def expected_checksum(self) -> str:
        """Description of the known part of the checksum."""
        return self.sha256 or f"{self.sha256_begins}…{self.sha256_ends}"

    def matches(self, sha256: str) -> bool:
        """Whether a file's checksum agrees with all that is known of the right one."""
        if self.sha256:
            return sha256 == self.sha256
        return sha256.startswith(self.sha256_begins) and sha256.endswith(self.sha256_ends)


@dataclass(frozen=True)
class Dataset:
    """One dataset of the registry.

    Attributes
    ----------
    name, title, description : str
        `name` is the registry's key and the parser's module name.
    privacy_unit : str
        Whose presence or value a guarantee protects.
    n_rows : int
        Rows of the published table, or people of the published genotypes, before any is dropped.
    license, citation : str
    sources : tuple of Source
        In the order in which they are tried.
    columns : tuple of Column
        In the order of the table; none for genotypes. Of frames: the features of one boid, in order.
    table_sha256 : str
        `data.formats.table.table_digest` of the parsed table, the same for every layout; ``""`` if unknown.
    kind : {"table", "genotypes", "frames"}
        A table of numbers, the calls of people at SNPs (see `data.fetch.genotypes`), or labeled frames of a
        flock (see `data.fetch.frames`).
    n_snps : int
        Published SNPs; 0 for a table, or if unknown.
    groups : tuple of GenotypeGroup
        The two groups of people that are compared; none for a table.
    n_boids : int
        Boids of a frame; 0 for another kind.
    label : str
        The column of a frame's label in the published file.
    """

    name: str
    title: str
    description: str
    privacy_unit: str
    n_rows: int
    license: str
    citation: str
    sources: tuple[Source, ...]
    columns: tuple[Column, ...] = ()
    table_sha256: str = ""
    kind: str = "table"
    n_snps: int = 0
    groups: tuple[GenotypeGroup, ...] = ()
    n_boids: int = 0
    label: str = ""

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns, in the order of the table."""
        return tuple(column.name for column in self.columns)

    @property
    def frame_columns(self) -> tuple[str, ...]:
        """Names of a frame's features, those of each boid in turn: ``x1, y1, …, nS200``."""
        return tuple(f"{name}{m}" for m in range(1, self.n_boids + 1) for name in self.column_names)

    def column(self, name: str) -> Column:
        """Return a column by name.

        Raises
        ------
        DataError
            No such column; the nearest name is suggested.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise DataError(f"{self.name} has no column {name!r}; {_suggest(name, self.column_names)}")


def load_registry(path: Path | None = None) -> dict[str, Dataset]:
    """Read and validate the registry.

    Parameters
    ----------
    path : pathlib.Path, optional
        Another registry file than the project's own.

    Returns
    -------
    dict of str to Dataset

    Raises
    ------
    DataError
        The file is missing, is not TOML, or an entry is incomplete or contradictory.
    """
    path = path or REGISTRY_FILE
    try:
        return dict(_datasets(path.read_text(encoding="utf-8")))
    except OSError:
        raise DataError(f"the registry {path} cannot be read; check that the file is there") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"the registry {path} is not valid TOML ({error}); mend that line") from None


@lru_cache(maxsize=4)
def _datasets(text: str) -> dict[str, Dataset]:
    """Return the entries of a registry file's text, parsed once: each row of results asks for its dataset."""
    document = tomllib.loads(text)
    return {name: _dataset(name, _inherited(name, entry, document)) for name, entry in document.items()}


def get_dataset(name: str, path: Path | None = None) -> Dataset:
    """Return one dataset of the registry.

    Raises
    ------
    DataError
        No such dataset; the nearest name is suggested.
    """
    registry = load_registry(path)
    if name not in registry:
        raise DataError(f"dataset {name!r} is not in the registry; {_suggest(name, tuple(registry))}")
    return registry[name]


def _suggest(name: str, known: tuple[str, ...]) -> str:
    nearest = difflib.get_close_matches(str(name), known, n=1)
    return f"did you mean {nearest[0]!r}?" if nearest else f"known: {', '.join(known)}"


def _inherited(name: str, entry: Any, document: dict[str, Any]) -> Any:
    """Complete an entry by those keys of the one that it is `like` which it does not state itself."""
    if not isinstance(entry, dict) or "like" not in entry:
        return entry
    other = document.get(entry["like"])
    if not isinstance(other, dict) or "like" in other or entry["like"] == name:
        raise DataError(f"registry entry {name!r}: like must name an entry that states all its keys; mend it")
    return {**other, **{key: value for key, value in entry.items() if key != "like"}}


_OF_KIND = {
    "table": ("columns", "table_sha256"),
    "genotypes": ("groups", "n_snps"),
    "frames": ("columns", "n_boids", "label"),
}


def _dataset(name: str, entry: Any) -> Dataset:
    where = f"registry entry {name!r}"
    if not isinstance(entry, dict):
        raise DataError(f"{where} must be a table, got {type(entry).__name__}; write [{name}] above its keys")
    fields = dict(entry)
    sources = tuple(_source(where, item) for item in _tables(where, fields, "sources"))
    kind = fields.get("kind", "table")
    if kind not in KINDS:
        raise DataError(f"{where}: kind must be one of {', '.join(KINDS)}, got {kind!r}")
    for key in dict.fromkeys(key for keys in _OF_KIND.values() for key in keys):
        if key in fields and key not in _OF_KIND[kind]:
            raise DataError(f"{where}: a dataset of kind {kind!r} has no {key}; take it out or change kind")
    columns: tuple[Column, ...] = ()
    groups: tuple[GenotypeGroup, ...] = ()
    if kind != "genotypes":
        columns = tuple(_column(where, item) for item in _tables(where, fields, "columns"))
    else:
        groups = tuple(_group(where, item) for item in _tables(where, fields, "groups"))
        if len(groups) != 2 or set(groups[0].labels) & set(groups[1].labels):
            raise DataError(f"{where}: genotypes need two groups that share no label; mend [[{name}.groups]]")
    parts = {"name": name, "sources": sources, "columns": columns, "groups": groups}
    dataset: Dataset = _build(Dataset, where, {**fields, **parts})
    if not name.isidentifier():
        raise DataError(f"{where} must be a Python identifier, because data/datasets/{name}.py is its parser")
    if kind == "frames" and (dataset.n_boids < 1 or not dataset.label):
        raise DataError(f"{where}: frames need n_boids of at least 1 and a label; add both")
    if dataset.n_rows < 1:
        raise DataError(f"{where}: n_rows must be at least 1, got {dataset.n_rows}; count the published rows")
    _check_hex(where, "table_sha256", dataset.table_sha256, 64)
    files = [file.file for source in sources for file in source.files]
    for names, what in ((dataset.column_names, "columns"), (files, "sources")):
        if len(set(names)) < len(names):
            raise DataError(f"{where}: two {what} share a name; give each its own")
    if not dataset.table_sha256 and any(
        file.checksum_is_partial and not file.checksum_is_unknown
        for source in sources
        for file in source.files
    ):
        raise DataError(
            f"{where}: a source whose sha256 is known only in part needs table_sha256 as well; add it"
        )
    return dataset


def _source(where: str, fields: dict[str, Any]) -> Source:
    where = f"{where}, source {fields.get('file')!r}"
    if "companions" in fields:
        companions = tuple(_source(where, item) for item in _tables(where, fields, "companions"))
        fields = {**fields, "companions": companions}
    source: Source = _build(Source, where, fields)
    relative = PurePosixPath(source.file)
    if relative.is_absolute() or ".." in relative.parts or not relative.parts:
        raise DataError(f"{where}: file must be a path below the mirror; write e.g. 'housing/houses.zip'")
    if source.url and not source.url.startswith(("https://", "http://", PACKAGED)):
        raise DataError(
            f"{where}: url must begin with https://, http:// or {PACKAGED}, got {source.url!r}; mend it"
        )
    if not source.note and not source.url:
        raise DataError(f"{where}: a source without url needs a note on where its file comes from; add it")
    if source.sha256:
        _check_hex(where, "sha256", source.sha256, 64)
        if source.sha256_begins or source.sha256_ends:
            raise DataError(f"{where}: sha256 is given whole and in part; keep only the whole one")
    elif not (source.checksum_is_unknown and source.note) and (
        len(source.sha256_begins + source.sha256_ends) < 8
    ):
        raise DataError(f"{where}: give sha256, or at least 8 digits as sha256_begins and sha256_ends")
    _check_hex(where, "sha256_begins", source.sha256_begins)
    _check_hex(where, "sha256_ends", source.sha256_ends)
    return source


def _group(where: str, fields: dict[str, Any]) -> GenotypeGroup:
    where = f"{where}, group {fields.get('name')!r}"
    labels = fields.get("labels")
    if not isinstance(labels, list) or not labels or not all(isinstance(label, str) for label in labels):
        raise DataError(f"{where}: labels must be a list of text; write e.g. labels = ['CEU', 'TSI']")
    group: GenotypeGroup = _build(GenotypeGroup, where, {**fields, "labels": tuple(labels)})
    return group


def _column(where: str, fields: dict[str, Any]) -> Column:
    where = f"{where}, column {fields.get('name')!r}"
    column: Column = _build(Column, where, fields)
    if column.dtype not in DTYPES:
        raise DataError(f"{where}: dtype must be one of {', '.join(DTYPES)}, got {column.dtype!r}")
    if not column.lower < column.upper:
        raise DataError(f"{where}: lower must be below upper, got {column.lower} and {column.upper}")
    if (column.center is None) != (column.scale is None):
        raise DataError(f"{where}: center and scale come together; give both or neither")
    if column.scale is not None and column.scale <= 0:
        raise DataError(f"{where}: scale must be positive, got {column.scale}")
    return column


_KINDS: dict[str, type] = {
    "n_rows": int, "lower": float, "upper": float, "center": float, "scale": float, "sources": tuple,
    "columns": tuple, "companions": tuple, "n_snps": int, "groups": tuple, "labels": tuple,
    "n_boids": int, "embedded": bool,
}  # fmt: skip
_MAY_BE_EMPTY = {"table_sha256", "sha256", "sha256_begins", "sha256_ends", "unit", "url", "note"}


def _build(record: type, where: str, fields: dict[str, Any]) -> Any:
    """Make one of the dataclasses above, with every key known, present and of its type."""
    known = {field.name: field.default is not MISSING for field in dataclass_fields(record)}
    for key in fields:
        if key not in known:
            raise DataError(f"{where}: unknown key {key!r}; {_suggest(key, tuple(known))}")
    for key, optional in known.items():
        if key not in fields and not optional:
            raise DataError(f"{where}: key {key!r} is missing; add it")
    return record(**{key: _typed(where, key, value) for key, value in fields.items()})


def _typed(where: str, key: str, value: Any) -> Any:
    kind = _KINDS.get(key, str)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise DataError(f"{where}: {key} must be of type {kind.__name__}, got {type(value).__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise DataError(f"{where}: {key} must be finite, got {value}")
    if value == "" and key not in _MAY_BE_EMPTY:
        raise DataError(f"{where}: {key} is empty; fill it in")
    return value


def _tables(where: str, fields: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the array of tables `key`, which must not be empty."""
    items = fields.get(key)
    if not isinstance(items, list) or not items or not all(isinstance(item, dict) for item in items):
        raise DataError(f"{where}: at least one [[….{key}]] is needed; add it")
    return items


def _check_hex(where: str, key: str, value: str, length: int | None = None) -> None:
    if value and (not _HEX.fullmatch(value) or (length is not None and len(value) != length)):
        wanted = f"{length} lower-case hexadecimal digits" if length else "lower-case hexadecimal digits"
        raise DataError(f"{where}: {key} must be {wanted}, got {value!r}")
