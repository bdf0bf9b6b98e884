"""A table of numbers in the store: typed, checked and written; faults are counted, values never shown."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from data import datasets
from data.dataset import Dataset
from data.errors import CorruptSource, DataError
from data.fetch.raw import RawFile
from data.formats.canonical import canonical_cells
from data.store.folders import atomic_file
from data.store.references import MAX_DROPPED_FRACTION, DatasetRef, Repair, describe_repairs

if TYPE_CHECKING:
    import pandas as pd


def store_table(dataset: Dataset, raw: RawFile, path: Path) -> DatasetRef:
    frame = _parsed(dataset, raw)
    table, repairs = with_registry_types(frame, dataset)
    require_published(dataset.name, "rows", len(frame), dataset.n_rows)
    outside = [(~table[each.name].between(each.lower, each.upper)).sum() for each in dataset.columns]
    require_none_outside(dataset, outside, "rows")
    digest = table_digest(table)
    if dataset.table_sha256 not in ("", digest):
        dropped = f" after dropping rows ({describe_repairs(repairs)})" if repairs else ""
        raise CorruptSource(
            f"{dataset.name}: the table{dropped} is not the published one, its content digest differs; "
            "get the file again"
        )
    ref = DatasetRef(**raw.provenance(path), n_rows=len(table), rows_read=len(frame), repairs=repairs)
    with atomic_file(path) as handle:
        pq.write_table(pa.table({name: table[name].to_numpy() for name in table.columns}), handle)
    return ref


def _parsed(dataset: Dataset, raw: RawFile) -> "pd.DataFrame":
    """Return the parser's table; an error names the parser's file, never a value."""
    parse = datasets.parser(dataset.name, raw.layout)
    try:
        frame: pd.DataFrame = parse(Path(raw.path))
    except (LookupError, TypeError, AttributeError, NameError) as error:
        raise DataError(f"the parser of {dataset.name} raised {type(error).__name__}; correct it") from error
    return frame


def with_registry_types(frame: "pd.DataFrame", dataset: Dataset) -> "tuple[pd.DataFrame, tuple[Repair, ...]]":
    """Convert a parser's table to the registry's columns and types, and drop unusable rows.

    A table with more than 1% of such rows, or with other columns than the registry's, is refused.
    """
    import pandas as pd  # here: files are checked without it

    if different := sorted(set(dataset.column_names) ^ set(frame.columns)):
        raise CorruptSource(
            f"{dataset.name}: column {different[0]!r} is only in the file or only in the registry; get the "
            "file again"
        )
    usable = np.ones(len(frame), dtype=bool)
    repairs: list[Repair] = []
    numbers: dict[str, npt.NDArray[np.float64]] = {}
    for column in dataset.columns:
        values, faults = _numbers_and_faults(frame[column.name])
        if column.dtype == "int64":
            faults["fraction in a whole-number column"] = np.isfinite(values) & (values != np.rint(values))
        for kind, rows in faults.items():
            if count := int(np.count_nonzero(rows & usable)):
                repairs.append(Repair(f"{kind} {column.name}", count))
                usable &= ~rows
        numbers[column.name] = values

    require_few_dropped(dataset.name, "rows", repairs, len(frame))
    table = pd.DataFrame({c.name: numbers[c.name][usable].astype(c.dtype) for c in dataset.columns})
    return table, tuple(repairs)


def _numbers_and_faults(
    values: "pd.Series",
) -> tuple[npt.NDArray[np.float64], dict[str, npt.NDArray[np.bool_]]]:
    """Convert a column to floating-point numbers exactly, and return the rows of each fault."""
    if values.dtype == object:  # numbers among text
        values = values.astype("string")
    cells = canonical_cells(pa.array(values, from_pandas=True))
    return cells.numbers, {
        "text in number column": cells.texts >= 0,
        "blank or NaN in column": cells.missing,
        "infinity in column": np.isinf(cells.numbers),
    }


def require_published(name: str, what: str, counted: int, published: int) -> None:
    """Refuse another number of rows, people or SNPs than was published; 0 if that is not known."""
    if published not in (0, counted):
        raise CorruptSource(
            f"{name}: the file has {counted:,} {what}, {published:,} were published; get the file again"
        )


def require_none_outside(dataset: Dataset, counts: Iterable[int], what: str) -> None:
    """Refuse a table with values outside the public bounds, given their number per column."""
    faults = ", ".join(
        f"{column.name} outside its public bounds in {count:,} {what}"
        for column, count in zip(dataset.columns, counts, strict=True)
        if count
    )
    if faults:
        raise CorruptSource(
            f"{dataset.name}: {faults}; get the file again or correct the bounds in the registry"
        )


def require_few_dropped(name: str, what: str, repairs: Sequence[Repair], n_read: int) -> None:
    """Refuse data with too many dropped rows or people: they are not the published ones."""
    dropped = sum(repair.count for repair in repairs)
    if dropped > MAX_DROPPED_FRACTION * n_read:
        raise CorruptSource(
            f"{name}: {dropped:,} of {n_read:,} {what} are unusable ({describe_repairs(repairs)}), "
            f"at most {MAX_DROPPED_FRACTION:.0%} may be dropped; get the file again"
        )


def table_digest(table: "pd.DataFrame") -> str:
    """Return the sha256 of a table's content: names, types, order of rows and all bits of its values.

    Columns are ``float64`` or ``int64``; the digest is the same on every machine and for every file layout.
    """
    digest = hashlib.sha256()
    for name in table.columns:
        values = table[name].to_numpy()
        digest.update(f"{name}:{values.dtype.name}:{len(values)}\n".encode())
        # Adding zero makes -0.0 and 0.0 equal.
        digest.update(np.ascontiguousarray(values + 0, dtype=values.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()
