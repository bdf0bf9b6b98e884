"""Read the rows of a release once, rescale them as a study file declares, and convert answers back.

Declared columns are put into public units, (value − center) / scale, categories become columns of 0 and 1,
and a regression gets an intercept: all by public constants, so that a row stays a row and the guarantee is
untouched. A row that the study leaves out for a missing cell becomes a row of zeros, its intercept included:
it adds nothing to a regression's sums, and the number of rows stays the public one. What is released is
brought back into the units of the file, which is post-processing. Covariates are centered, so that the
intercept is the answer where all of them are at their centers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from data.dataset import Column
from data.errors import DataError
from data.formats.canonical import MISSING
from data.ledger import Fingerprinter, Ledger
from data.tables.declared import DeclaredTable, UserIds, read_declared
from data.tables.reading import (
    PartitionedTable,
    Source,
    StreamedTable,
    Watch,
    alike,
    files_of,
    is_folder,
    load_numbers,
    n_rows_stated,
    opened_table,
)
from dpalgos.goodness import farthest
from dpalgos.typing import FloatArray
from tasks.errors import SpecError
from tasks.own_table.analyst_table import AnalystColumn, AnalystTable
from tasks.own_table.file_units import AT_CENTERS, FileUnits
from tasks.release.request import ReleaseColumns, ReleaseRequest


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleaseRows:
    """The rows of a file in public units, and how to convert an answer back."""

    X: FloatArray | StreamedTable | PartitionedTable  # (n, k); what is streamed brings responses, too
    y: FloatArray | None = None
    users: np.ndarray | None = None  # (n,) a code per row for the user it belongs to, if they are protected
    units: FileUnits
    moved: np.ndarray | None = None  # which cells of X and y were moved to a bound, for `dpalgos.Sample`
    content: str = ""  # the fingerprint of the whole file
    exact: str = ""  # the digest of what the answer reads of it
    former_content: str = ""  # the fingerprint of version 1.1, where the ledger has some
    n_rows: int = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of X by name."""
        return self.units.names

    @property
    def has_intercept(self) -> bool:
        """Whether the last column of X is 1: the answer where all covariates are at their centers."""
        return self.columns[-1] == AT_CENTERS

    @property
    def n_units(self) -> int:
        """How many rows or users are protected, which is public."""
        return self.n_users or self.n_rows

    @property
    def n_users(self) -> int | None:
        return None if self.users is None else int(self.users.max()) + 1


def table_as_declared(
    path: Path,
    analyst_table: AnalystTable,
    asked: ReleaseColumns,
    *,
    family: str,
    watch: Watch,
) -> ReleaseRows:
    """Return columns as a study file declares them, in public units; refuse a file that is not as declared.

    A missing cell is refused where rows of zeros would not do: they would move a mean, or a user's. The
    responses of a generalized linear model (``family``) stay as they are.
    """
    x, y, user_id = asked.x, asked.y, asked.user_id
    known = {column.name: column for column in analyst_table.columns}
    if (user_id or "") != analyst_table.user_id:
        raise SpecError(
            f"columns.user_id must be the study file's, {analyst_table.user_id or 'none'!r}, got "
            f"{user_id or 'none'!r}; correct it"
        )
    used = analyst_table.needed(known[name] for name in asked.xy)
    declaration = analyst_table.declaration(used)
    if user_id:
        declaration = replace(declaration, n_rows=None)  # how many rows users have is private
    read = read_declared(path, declaration, watch=watch)
    if read.repairs and (not y or user_id):
        raise DataError(
            f"{path}: {read.repairs[0].reason}; only regressions on rows can be released without some of "
            "them, so give the column impute = a public constant"
        )
    table = read.table
    columns = {column.name: column for one in used for column in one.columns}
    names = [name for each in x for name in known[each].declared.table_columns]
    units = [_unit(columns[name]) for name in names]
    X = np.column_stack([(table[name] - c) / s for name, (c, s) in zip(names, units, strict=True)])
    users = table[analyst_table.user_id] if analyst_table.user_id else None
    declared = _declared(analyst_table, used, dict(zip(names, map(list, units), strict=True)))
    scales = np.array([s for _, s in units])
    if not y:
        back = FileUnits(
            names=tuple(names), factor=scales, offset=np.array([c for c, _ in units]), declared=declared
        )
        return ReleaseRows(X=X, y=None, users=users, units=back, moved=_moved(read, names, []))
    response = y if family == "multinomial" else _single(known[y].declared.table_columns, y)
    center, scale = (0.0, 1.0) if family else _unit(columns[response])
    back = FileUnits(
        names=(*names, AT_CENTERS),
        factor=np.append(scale / scales, scale),
        offset=np.append(np.zeros(len(names)), center),
        groups={each: tuple(known[each].declared.table_columns) for each in x},
        columns=(*x, y),
        declared={
            **declared,
            "response": [center, scale],
            **({"response_transform": known[y].transform} if known[y].transform else {}),
        },
        reach=None
        if family
        else (*farthest(columns[name] for name in names), 1.0, *farthest([columns[response]])),
    )
    rows, y_declared = np.zeros((len(read.kept), X.shape[1] + 1)), np.zeros(len(read.kept))
    rows[read.kept] = np.column_stack([X, np.ones(len(X))])
    y_declared[read.kept] = (table[response] - center) / scale
    moved = _moved(read, names, [AT_CENTERS, response])
    return ReleaseRows(X=rows, y=y_declared, users=users, units=back, moved=moved)


def _moved(read: DeclaredTable, names: Sequence[str], more: Sequence[str]) -> np.ndarray | None:
    """Return which cells of some columns were moved to a bound, (n, …), or None where none was."""
    columns = [*names, *more]
    if not set(columns) & set(read.sides):
        return None
    moved = np.zeros((len(read.kept), len(columns)), dtype=np.int8)
    for j, name in enumerate(columns):
        moved[read.kept, j] = read.sides.get(name, 0)
    return moved


def _declared(
    analyst_table: AnalystTable, used: Sequence[AnalystColumn], units: dict[str, list[float]]
) -> dict[str, Any]:
    """Return what the ledger's question says of the columns: other declarations give another answer."""
    declared: dict[str, Any] = {"units": units}
    declared["categories"] = {column.name: list(column.categories) for column in used if column.categories}
    if others := {column.name: column.others for column in used if column.others}:
        declared["others"] = others
    if spelled := [
        one.name for one in used if any(each.strip().lower() in MISSING for each in one.categories)
    ]:
        declared["levels_before_markers"] = spelled  # other rows are left out than in version 1.0.0
    if markers := {column.name: list(column.missing) for column in used if column.missing}:
        declared["markers"] = markers
    if spellings := {
        one.name: sorted(map(list, one.declared.spellings)) for one in used if one.declared.spellings
    }:
        declared["spellings"] = spellings
    if analyst_table.missing != "refuse":
        declared["missing"] = analyst_table.missing
    if analyst_table.outside == "clip":
        bounds = {column.name: [column.lower, column.upper] for column in used if not column.categories}
        declared |= {"outside": "clip", "column_bounds": bounds}
    if imputed := {column.name: column.impute for column in used if column.impute is not None}:
        declared["imputed"] = imputed
    return declared


def _unit(column: Column) -> tuple[float, float]:
    assert column.center is not None
    assert column.scale is not None
    return column.center, column.scale


def _single(columns: Sequence[str], name: str) -> str:
    if len(columns) > 1:
        raise SpecError(
            f"columns.y must be a column of numbers or of two categories, got {name!r}; choose another, or "
            "params.family = 'multinomial'"
        )
    return columns[0]


def read_rows(
    reader: Fingerprinter,
    data: Source,
    request: ReleaseRequest,
    progress: Callable[[int], None] | None = None,
) -> ReleaseRows:
    """Read and check the file once; of a Parquet file without users keep no number."""
    columns, analyst_table = request.columns, request.table
    x, y, user_id = columns.x, columns.y, columns.user_id
    if is_folder(data) and (user_id or analyst_table):
        raise SpecError(
            "--data must be one file where users are protected or a study file declares the columns, got "
            f"the folder {data}; write its rows into one"
        )
    ids = UserIds(Path(data), user_id) if user_id and not analyst_table else None
    reader.expect(n_rows_stated(data))

    def watch(batch: pa.RecordBatch) -> None:
        reader.add(batch)
        if ids:
            ids.add(batch)
        if progress and not user_id:  # how many rows users have is private
            progress(reader.n_rows)

    if analyst_table:
        rows = table_as_declared(Path(data), analyst_table, columns, family=request.family, watch=watch)
        if request.by_formula:
            rows = replace(rows, units=rows.units.by_formula(request.by_formula))
    elif is_folder(data) or (str(data).lower().endswith(".parquet") and Path(data).is_file() and not user_id):
        stream = (PartitionedTable if is_folder(data) else StreamedTable)(data, x, y or "")
        stream.check(watch)
        rows = ReleaseRows(X=stream, units=FileUnits.unchanged(x))
    else:
        numbers = load_numbers(data, columns.xy, watch=watch)
        response = numbers.pop(y).to_numpy() if y else None
        rows = ReleaseRows(
            X=numbers.to_numpy(),
            y=response,
            users=ids.codes() if ids else None,
            units=FileUnits.unchanged(x),
        )
    return replace(
        rows,
        content=reader.fingerprint(),
        exact=reader.exact(),
        former_content=reader.former_fingerprint(),
        n_rows=reader.n_rows,
    )


def columns_read(request: ReleaseRequest) -> dict[str, tuple[str, ...]]:
    """Return the columns of the file that decide the answer, with the levels that are declared of each."""
    columns, analyst_table = request.columns, request.table
    wanted = {*columns.xy, *filter(None, [columns.user_id])}
    levels: dict[str, tuple[str, ...]] = dict.fromkeys(wanted, ())
    if analyst_table:
        used = analyst_table.needed(each for each in analyst_table.columns if each.name in wanted)
        levels |= {each.name: each.categories for each in used}
    return levels


def known_as(ledger: Ledger, data: Source) -> str:
    """Return the name under which the ledger has charged these rows, or "": no value of them is kept."""
    known = ledger.contents()
    if not known:
        return ""
    reader = ledger.fingerprinter(known)
    of_all_files = alike(reader.add)
    for file in files_of(data) if is_folder(data) else [data]:
        with opened_table(file) as (_, batches):
            for batch in batches:
                of_all_files(batch)
    found = (reader.fingerprint(), reader.former_fingerprint()) if reader.n_rows else ()
    return next((known[each] for each in found if each in known), "")
