"""Tables of one's own: what a file's columns are, and its rows under the owner's public declarations.

The owner declares what is public of each column; the data never choose it. No message holds a value.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from data.errors import DataError
from data.fetch.ingest import keep_reference, stored_table
from data.formats.analyst_file import opened_table
from data.formats.canonical import NUMBER, Cells, canonical_cells
from data.store.code_digest import code_digest
from data.store.folders import atomic_write, sha256_file, store_dir
from data.store.references import DatasetRef, Repair, UserTableRef
from data.tables.declared_column import DeclaredColumn
from data.tables.user_ids import UserIds

ColumnType = Literal["number", "whole number", "text", "empty"]
Missing = Literal["refuse", "drop"]

MOST_COLUMNS = 1_000  # that a study file can declare
MOST_FAULTS = 5  # that one sentence names
_MISSING, _UNLISTED = -1.0, -2.0  # codes of cells that are no category


def table_schema(path: Path) -> tuple[dict[str, ColumnType], int]:
    """Return the type of each column of a file, and its number of rows; no value is kept or shown.

    Raises
    ------
    DataError
        The file cannot be read, has no header, or a column without a name or of lists.
    """
    with opened_table(path) as (names, batches):
        _check_header(path, names)
        found: dict[str, ColumnType] = dict.fromkeys(names, "empty")
        n_rows = 0
        for batch in batches:
            n_rows += batch.num_rows
            for name in names:
                found[name] = _wider(found[name], _type_of(_cells(path, batch, name)))
    return found, n_rows


def count_users(path: Path, user_id: str) -> int:
    """Return how many users a column of ids names; no id is kept or shown.

    Raises
    ------
    DataError
        There is no such column, or an id is missing or of another kind than the others.
    """
    ids = UserIds(path, user_id)
    with opened_table(path) as (names, batches):
        ids.check_name(names)
        for batch in batches:
            ids.add(batch)
    return int(ids.codes().max(initial=-1)) + 1


def own_table_to_parquet(
    name: str,
    path: Path,
    columns: Sequence[DeclaredColumn],
    missing: Missing,
    n_rows: int,
    *,
    user_id: str = "",
    n_users: int | None = None,
    home: Path,
) -> DatasetRef:
    """Check a file against its declarations and store it; a table stored before is reused if whole.

    Parameters
    ----------
    name : str
        What the table is called.
    path : pathlib.Path
        A CSV or Parquet file.
    columns : sequence of DeclaredColumn
    missing : {"refuse", "drop"}
        What becomes of rows with a cell that is missing and not imputed.
    n_rows : int
        The declared number of rows.
    user_id : str
        The column that says whose row it is; empty where every row is somebody else's.
    n_users : int, optional
        The declared number of users.
    home : pathlib.Path
        ``DPCOST_HOME``.

    Raises
    ------
    DataError
        The file is not as declared; the message names columns and faults, and no number of rows.
    """
    try:
        content = sha256_file(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); correct data.path") from None
    declared = json.dumps([name, missing, n_rows, user_id, n_users, [asdict(each) for each in columns]])
    digest = hashlib.sha256((declared + code_digest([__name__])).encode()).hexdigest()
    target = store_dir(home) / "parquet" / f"{name}-{content[:16]}-{digest[:8]}.parquet"
    if stored := stored_table(target):
        return replace(stored, path=str(target))
    read = read_declared(path, columns, missing, n_rows, user_id=user_id, n_users=n_users)
    if sha256_file(path) != content:
        raise DataError(f"{path} changed while it was read; run again once it is complete")
    arrow = pa.table(read.table)
    atomic_write(target, lambda handle: pq.write_table(arrow, handle))
    counted: dict[str, Any] = {"n_users": int(read.table[user_id].max()) + 1} if user_id else {}
    ref = (UserTableRef if user_id else DatasetRef)(
        name=name,
        path=str(target),
        sha256=sha256_file(target),
        source_sha256=content,
        source_url="",
        layout=path.suffix.removeprefix("."),
        origin="a file of your own",
        data_source="real",
        n_rows=arrow.num_rows,
        rows_read=len(read.kept),
        repairs=(
            *(replace(repair, reason=f"left out: {repair.reason}") for repair in read.repairs),
            *(replace(repair, reason=f"moved to the nearer bound: {repair.reason}") for repair in read.moved),
        ),
        **counted,
    )
    keep_reference(ref)
    return ref


@dataclass(frozen=True, eq=False, kw_only=True)
class DeclaredTable:
    """A file's rows as declared.

    Attributes
    ----------
    table : dict of str to (m,) array
        The columns of the rows that were kept.
    kept : (n,) bool array
        Which rows of the file those are.
    repairs : tuple of Repair
        How many were left out, and why.
    moved : tuple of Repair
        In how many rows a number beyond its bounds became the nearer one, by column.
    """

    table: dict[str, npt.NDArray[Any]]
    kept: npt.NDArray[np.bool_]
    repairs: tuple[Repair, ...]
    moved: tuple[Repair, ...]


def read_declared(
    path: Path,
    columns: Sequence[DeclaredColumn],
    missing: Missing,
    n_rows: int | None,
    *,
    user_id: str = "",
    n_users: int | None = None,
    watch: Callable[[pa.RecordBatch], None] | None = None,
) -> DeclaredTable:
    """Read a file in one pass under its declarations, as `own_table_to_parquet` stores it.

    ``watch`` is shown every piece of the file, with all columns. ``n_rows`` is None where the number of rows
    is not public and may be any: where users are protected, each with all rows.

    Raises
    ------
    DataError
        The file is not as declared.
    """
    ids = UserIds(path, user_id) if user_id else None
    values, rows_read = _values(path, columns, ids, watch)
    if n_rows is not None:
        _refuse_other_size(path, "rows", rows_read, n_rows)
    moved = _clipped(columns, values)
    _refuse_undeclared(path, columns, values)
    table, kept, repairs = _without_gaps(path, columns, values, missing)
    if ids:
        users = ids.codes()
        _refuse_other_size(path, "users", int(users.max()) + 1, n_users)
        table[user_id] = np.unique(users[kept], return_inverse=True)[1]
    return DeclaredTable(table=table, kept=kept, repairs=repairs, moved=moved)


def _refuse_other_size(path: Path, what: str, found: int, declared: int | None) -> None:
    if found != declared:
        raise DataError(
            f"{path} has another number of {what} than data.{what} = {declared}; if the file changed on "
            f"purpose, correct data.{what}, and grid.n where it is larger"
        )


def _without_gaps(
    path: Path,
    columns: Sequence[DeclaredColumn],
    values: dict[str, npt.NDArray[np.float64]],
    missing: Missing,
) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.bool_], tuple[Repair, ...]]:
    """Return the table as it is stored, which rows were kept, and how many were not."""
    n_rows = len(values[columns[0].name])
    kept, repairs = np.ones(n_rows, dtype=bool), []
    for column in columns:
        found = values[column.name]
        gap = found == _MISSING if column.categories else np.isnan(found)
        if column.impute is not None:
            found[gap] = _imputed(column)
        elif count := int((gap & kept).sum()):
            repairs.append(Repair(f"blank or NaN in column {column.name}", count))
            kept &= ~gap
    if repairs and missing == "refuse":
        raise DataError(
            f"{path}: {_listed([repair.reason for repair in repairs])}; mend those rows, "
            'take missing = "drop", or give the column impute = a public constant'
        )
    if not kept.any():
        raise DataError(
            f"{path}: every row lacks a cell of a declared column; take empty columns out of [[data.columns]]"
        )
    table: dict[str, npt.NDArray[Any]] = {}
    for column in columns:
        found = values.pop(column.name)[kept]
        if column.categories:
            for code, indicator in enumerate(column.table_columns, 1):
                table[indicator] = (found == code).astype(np.float64)
        table[column.name] = found
    return table, kept, tuple(repairs)


def _values(
    path: Path,
    columns: Sequence[DeclaredColumn],
    ids: UserIds | None,
    watch: Callable[[pa.RecordBatch], None] | None,
) -> tuple[dict[str, npt.NDArray[np.float64]], int]:
    """Return the columns as numbers, or as numbers of their categories; how many rows there are.

    Ids of users are read on the way.
    """
    pieces: dict[str, list[npt.NDArray[np.float64]]] = defaultdict(list)
    n_rows = 0
    with opened_table(path) as (names, batches):
        for column in columns:
            if column.name not in names:
                raise DataError(
                    f"{path} has no column {column.name!r} among its {len(names)}; correct [[data.columns]]"
                )
        if ids:
            ids.check_name(names)
        for batch in batches:
            n_rows += batch.num_rows
            if watch:
                watch(batch)
            if ids:
                ids.add(batch)
            for column in columns:
                cells = _cells(path, batch, column.name)
                pieces[column.name].append(_codes(cells, column) if column.categories else _numbers(cells))
    if not n_rows:
        raise DataError(f"{path} has no rows; at least one is needed, check the file")
    return {column.name: np.concatenate(pieces.pop(column.name)) for column in columns}, n_rows


def _clipped(
    columns: Sequence[DeclaredColumn], values: Mapping[str, npt.NDArray[np.float64]]
) -> tuple[Repair, ...]:
    """Move numbers beyond the bounds of columns that say so, in place; return in how many rows of each.

    By public bounds, each row by itself: a row stays a row. Infinity, which stands for text, too, is left.
    """
    moved = []
    for column in columns:
        if column.clip and not column.categories:
            found = values[column.name]
            outside = np.isfinite(found) & ((found < column.lower) | (found > column.upper))
            found[outside] = np.clip(found[outside], column.lower, column.upper)
            if count := int(outside.sum()):
                moved.append(Repair(f"column {column.name}", count))
    return tuple(moved)


def _refuse_undeclared(
    path: Path,
    columns: Sequence[DeclaredColumn],
    values: Mapping[str, npt.NDArray[np.float64]],
) -> None:
    """Refuse what no declaration allows; cells that are missing are another matter."""
    found_faults: dict[str, bool] = {}
    for column in columns:
        found = values[column.name]
        if column.categories:
            found_faults[f"column {column.name!r} has text that is none of its categories"] = bool(
                (found == _UNLISTED).any()
            )
        else:
            outside = np.isfinite(found) & ((found < column.lower) | (found > column.upper))
            found_faults[f"text or infinity in number column {column.name!r}"] = bool(np.isinf(found).any())
            found_faults[f"column {column.name!r} is outside its declared bounds"] = bool(outside.any())
    faults = [fault for fault, found in found_faults.items() if found]
    if faults:
        raise DataError(
            f"{path}: {_listed(faults)}; mend the file or [[data.columns]]"
            + " (capitals and spaces count)" * any("categories" in fault for fault in faults)
            + ', or take outside = "clip"' * any("outside" in fault for fault in faults)
        )


def _listed(faults: Sequence[str]) -> str:
    """Return what is wrong, in words; never in how many rows, which is private."""
    more = f", and {len(faults) - MOST_FAULTS} more such faults" * (len(faults) > MOST_FAULTS)
    return ", ".join(faults[:MOST_FAULTS]) + more


def _check_header(path: Path, names: Sequence[str]) -> None:
    if len(names) > MOST_COLUMNS:
        raise DataError(
            f"{path} has {len(names):,} columns, and a study declares at most {MOST_COLUMNS:,}; write "
            "a file with those that you need"
        )
    blank = next((position for position, name in enumerate(names, 1) if not name.strip()), None)
    if blank:
        raise DataError(f"{path}: column number {blank} has no name; name it in the header")
    are_numbers = pc.match_substring_regex(pa.array([name.strip().lower() for name in names]), NUMBER)
    if 2 * sum(are_numbers.to_pylist()) > len(names):
        raise DataError(
            f"{path} seems to lack a header: most of its column names are numbers; write names above the rows"
        )


def _cells(path: Path, batch: pa.RecordBatch, name: str) -> Cells:
    try:
        return canonical_cells(batch.column(name))
    except TypeError:
        raise DataError(f"{path}: lists or records in column {name!r}; keep numbers and text only") from None


def _type_of(cells: Cells) -> ColumnType:
    if (cells.texts >= 0).any():
        return "text"
    numbers = cells.numbers[np.isfinite(cells.numbers)]
    if not len(numbers):
        return "number" if np.isinf(cells.numbers).any() else "empty"
    return "whole number" if (numbers == np.rint(numbers)).all() else "number"


def _wider(one: ColumnType, other: ColumnType) -> ColumnType:
    order: tuple[ColumnType, ...] = ("empty", "whole number", "number", "text")
    return max(one, other, key=order.index)


def _numbers(cells: Cells) -> npt.NDArray[np.float64]:
    """Return numbers; NaN where missing, infinity where the cell is text."""
    return np.where(cells.texts >= 0, np.inf, cells.numbers)


def _codes(cells: Cells, column: DeclaredColumn) -> npt.NDArray[np.float64]:
    """Return the number of each cell's category, as far as it has one."""
    listed = canonical_cells(pa.array(column.categories, pa.string()))
    codes = np.where(cells.missing, _MISSING, _UNLISTED)
    position = {text: code for code, text in enumerate(cells.values)}
    for code in range(len(column.categories)):
        if listed.texts[code] >= 0:
            same = cells.texts == position.get(listed.values[listed.texts[code]], _UNLISTED)
        else:
            same = cells.numbers == listed.numbers[code]
        codes[same] = code
    return codes


def _imputed(column: DeclaredColumn) -> float:
    return float(column.categories.index(str(column.impute)) if column.categories else column.impute or 0.0)
