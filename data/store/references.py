"""References to stored files: small enough to pass between tasks, exact enough to verify."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow.parquet as pq
from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass
from pydantic_core import to_jsonable_python

from data.errors import CorruptTable
from data.store.folders import home, sha256_file
from data.store.shared import copy_shared

if TYPE_CHECKING:
    import pandas as pd

MAX_DROPPED_FRACTION = 0.01
LEFT_OUT = "left out"
OWN_FILE = "a file of your own"  # the origin of an analyst's table
_EXACT = ConfigDict(extra="forbid")  # stored references have exactly these fields


@dataclass(frozen=True)
class Repair:
    """A repair of rows, values or people for one reason; items with several reasons count under the first."""

    reason: str
    count: int
    what: str = "row"
    done: str = LEFT_OUT


def describe_repairs(repairs: Sequence[Repair]) -> str:
    return ", ".join(f"{repair.reason}: {repair.count:,}" for repair in repairs)


@dataclass(frozen=True, config=_EXACT)
class DatasetRef:
    """A Parquet table in the store with its origin; small enough to pass between tasks."""

    name: str
    path: str  # absolute; or below DPCOST_HOME, for other machines
    sha256: str  # of the Parquet file's bytes; it identifies the data
    source_sha256: str  # of the raw file; "" for a stand-in
    source_url: str
    layout: str
    origin: str  # where this run found the raw file
    data_source: Literal["real", "stand-in", "simulated"]
    n_rows: int  # or users, whose number of rows is private
    rows_read: int  # rows or users of the raw file
    repairs: tuple[Repair, ...] = ()  # dropped rows with reasons
    reasons: tuple[str, ...] = ()  # for a stand-in: each source with the reason why it failed
    unit: Literal["row", "user"] = "row"  # what is counted; a column has users as numbers 0, 1, …

    def to_dict(self) -> dict[str, Any]:
        return dict(to_jsonable_python(self))


@dataclass(frozen=True, kw_only=True, config=_EXACT)
class GenotypeRef(DatasetRef):
    """Genotypes in the store; rows are people."""

    n_snps: int
    group_names: tuple[str, ...]  # the two groups that are compared
    group_sizes: tuple[int, ...]  # the rest of n_rows is in neither
    missing_calls: int  # of n_rows * n_snps
    companion_sha256: tuple[str, ...] = ()  # of the other raw files, in the registry's order


@dataclass(frozen=True, kw_only=True, config=_EXACT)
class FramesRef(DatasetRef):
    """Frames of a flock in the store."""

    label_counts: tuple[int, int]  # number of frames with label 0 and 1
    frames_per_simulation: int  # consecutive rows; 0 for real frames, whose origin is not known
    table_sha256: str  # of the names of columns, the order of rows and every bit of the values


_ANY_REF: TypeAdapter[DatasetRef] = TypeAdapter(GenotypeRef | FramesRef | DatasetRef)


def ref_from_dict(plain: dict[str, Any]) -> DatasetRef:
    """Return the reference that `to_dict` wrote, with its class."""
    return _ANY_REF.validate_python(plain)


def verified_path(ref: DatasetRef) -> Path:
    """Return the path of a reference's file after checking its checksum."""
    path = home() / ref.path
    try:
        intact = sha256_file(path) == ref.sha256
    except OSError:
        if copy_shared(path, ref.sha256):
            return path
        raise CorruptTable(f"{path} cannot be read; run `dpcost ingest {ref.name} --again`") from None
    if not intact and not copy_shared(path, ref.sha256):
        raise CorruptTable(
            f"{path} was modified (its sha256 differs); run `dpcost ingest {ref.name} --again`"
        )
    return path


def read_table(ref: DatasetRef) -> "pd.DataFrame":
    import pandas as pd  # here: requests for releases are checked without it

    return pd.DataFrame(pq.ParquetFile(verified_path(ref)).read().to_pandas())
