"""Read the rows of a release once, rescale them as a study file declares, and convert answers back.

Declared columns are put into public units, (value − center) / scale. Categories become columns of 0 and 1,
and a regression gets an intercept. All constants are public: a row stays a row, and the guarantee is
unchanged. If the study leaves out a row for a missing value, it becomes a row of zeros, its intercept
included. Such a row adds nothing to the sums of a regression, and the number of rows stays the public one.
The release is converted to the units of the file, which is post-processing. Covariates are centered.
Therefore the intercept is the estimate where all of them are at their centers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from data.dataset import PLAIN, Column, Marks
from data.errors import DataError
from data.ledger import Fingerprinter, Ledger
from data.tables.declared import DeclaredTable, UserIds, read_declared
from data.tables.marks import FileMarks
from data.tables.reading import (
    PartitionedTable,
    StreamedTable,
    Watch,
    load_numbers,
    n_rows_stated,
    opened_table,
)
from data.tables.sources import Source, is_address, is_folder
from dpalgos.formula.design import FormulaDesign
from dpalgos.goodness import farthest
from dpalgos.typing import FloatArray
from tasks.errors import SpecError
from tasks.own_table.analyst_table import AnalystTable, require_clusters
from tasks.own_table.file_units import AT_CENTERS, FileUnits
from tasks.release.design import RowDesign, UnitColumn, canonical_declaration
from tasks.release.request import ReleaseColumns, ReleaseRequest


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleaseRows:
    """The rows of a file in public units, and how to convert an estimate back."""

    X: FloatArray | StreamedTable | PartitionedTable  # (n, k); what is streamed brings responses, too
    y: FloatArray | None = None
    users: np.ndarray | None = None  # (n,) a code per row for the user it belongs to, if they are protected
    units: FileUnits
    design: RowDesign  # how X and y are made from the file
    clipped: np.ndarray | None = None  # which cells of X and y were clipped at a bound, for `dpalgos.Sample`
    content: str = ""  # the fingerprint of the whole file
    exact: str = ""  # the digest of what the answer reads of it
    n_rows: int = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of X by name."""
        return self.units.names

    @property
    def has_intercept(self) -> bool:
        """Whether the last column of X is 1: the estimate where all covariates are at their centers."""
        return self.design.intercept

    @property
    def n_units(self) -> int:
        """How many rows or users are protected, which is public."""
        return self.n_users or self.n_rows

    @property
    def n_users(self) -> int | None:
        return None if self.users is None else int(self.users.max()) + 1


def table_as_declared(
    path: Source,
    analyst_table: AnalystTable,
    columns: ReleaseColumns,
    *,
    family: str,
    watch: Watch,
    formula: FormulaDesign | None = None,
) -> ReleaseRows:
    """Return columns as a study file declares them, in public units; refuse a file that is not as declared.

    A missing cell is refused where rows of zeros would not do: they would move a mean, or a user's. The
    responses of a generalized linear model (``family``) stay as they are.
    """
    design, units = units_as_declared(analyst_table, columns, family, formula)
    assert design.declaration is not None
    require_clusters(path, analyst_table)
    read = read_declared(path, design.declaration, watch=watch)
    if read.repairs and (not columns.y or columns.user_id):
        raise DataError(
            f"{path}: {read.repairs[0].reason}; only regressions on rows can be released without some of "
            "them, since the number of rows left is private; give the column impute = a public constant, or "
            'release means of groups by a formula such as "age ~ region"'
        )
    users = read.table[design.user_id] if design.user_id else None
    if read.persons is not None:
        return _person_periods(read, design, units, users)
    X, clipped = design.rows(read.table), _clipped_sides(read, design, read.is_complete)
    if design.response is None:
        return ReleaseRows(X=X, y=None, users=users, units=units, design=design, clipped=clipped)
    rows, y = np.zeros((len(read.is_complete), X.shape[1])), np.zeros(len(read.is_complete))
    rows[read.is_complete], y[read.is_complete] = X, design.response.values(read.table)
    return ReleaseRows(X=rows, y=y, users=users, units=units, design=design, clipped=clipped)


def _person_periods(
    read: DeclaredTable, design: RowDesign, units: FileUnits, users: np.ndarray | None
) -> ReleaseRows:
    """Return rows of person-periods; a person who was left out for a missing value has a row of zeros."""
    assert read.persons is not None
    assert design.response is not None
    left_out = np.flatnonzero(~read.is_complete)
    ids = np.flatnonzero(read.is_complete) if users is None else users
    used = np.repeat([True, False], [len(read.persons), len(left_out)])
    rows, y = np.zeros((len(used), len(design.columns) + design.intercept)), np.zeros(len(used))
    rows[used], y[used] = design.rows(read.table), design.response.values(read.table)
    return ReleaseRows(
        X=rows,
        y=y,
        users=np.concatenate([ids[read.persons], left_out]),
        units=units,
        design=design,
        clipped=_clipped_sides(read, design, used),
    )


def units_as_declared(
    analyst_table: AnalystTable, columns: ReleaseColumns, family: str, formula: FormulaDesign | None = None
) -> tuple[RowDesign, FileUnits]:
    """Return how rows are made from columns as a study file declares them, and the way back."""
    design = design_as_declared(analyst_table, columns, family)
    units = _file_units(analyst_table, columns, design, has_reach=not family)
    if formula:
        return replace(design, formula=formula.described), units.by_formula(formula)
    return design, units


def design_as_declared(analyst_table: AnalystTable, asked: ReleaseColumns, family: str) -> RowDesign:
    """Return how rows are made from columns as a study file declares them."""
    known = {column.name: column for column in analyst_table.columns}
    if (asked.user_id or "") != analyst_table.user_id:
        raise SpecError(
            f"columns.user_id must be the study file's, {analyst_table.user_id or 'none'!r}, got "
            f"{asked.user_id or 'none'!r}; correct it"
        )
    used = analyst_table.needed(known[name] for name in asked.xy)
    declaration = canonical_declaration(analyst_table.declaration(used))
    if asked.user_id:
        declaration = replace(declaration, n_rows=None)  # how many rows users have is private
    columns = {column.name: column for one in used for column in one.columns}
    names = (name for each in asked.x for name in known[each].declared.table_columns)
    response = None
    if asked.y:
        one = asked.y if family == "multinomial" else _single(known[asked.y].declared.table_columns, asked.y)
        response = UnitColumn(name=one) if family else _in_units(columns[one])
    return RowDesign(
        columns=tuple(_in_units(columns[name]) for name in names),
        response=response,
        user_id=analyst_table.user_id,
        intercept=response is not None,
        declaration=declaration,
    )


def _in_units(column: Column) -> UnitColumn:
    assert column.center is not None
    assert column.scale is not None
    return UnitColumn(name=column.name, center=column.center, scale=column.scale)


def _file_units(
    analyst_table: AnalystTable, asked: ReleaseColumns, design: RowDesign, *, has_reach: bool
) -> FileUnits:
    """Return how an estimate is converted to the units of the file."""
    scales, response = np.array([column.scale for column in design.columns]), design.response
    if response is None:
        centers = np.array([column.center for column in design.columns])
        return FileUnits(names=design.names, factor=scales, offset=centers)
    known = {column.name: column for column in analyst_table.columns}
    columns = {column.name: column for one in analyst_table.columns for column in one.columns}
    reach = None
    if has_reach:
        of_columns = farthest(columns[name] for name in design.names)
        reach = (*of_columns, 1.0, *farthest([columns[response.name]]))
    return FileUnits(
        names=(*design.names, AT_CENTERS),
        factor=np.append(response.scale / scales, response.scale),
        offset=np.append(np.zeros(len(scales)), response.center),
        groups={each: tuple(known[each].declared.table_columns) for each in asked.x},
        columns=asked.xy,
        reach=reach,
    )


def _clipped_sides(read: DeclaredTable, design: RowDesign, used: np.ndarray) -> np.ndarray | None:
    """Return which cells of X and y were clipped to a bound, (n, …), or None if none was."""
    more = [AT_CENTERS, design.response.name] if design.response else []
    columns = [*design.names, *more]
    if not set(columns) & set(read.sides):
        return None
    clipped = np.zeros((len(used), len(columns)), dtype=np.int8)
    for j, name in enumerate(columns):
        clipped[used, j] = read.sides.get(name, 0)
    return clipped


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
    source = data if is_address(data) else Path(data)
    ids = UserIds(source, user_id) if user_id and not analyst_table else None
    reader.expect(n_rows_stated(data))

    def watch(batch: pa.RecordBatch) -> None:
        reader.add(batch)
        if ids:
            ids.add(batch)
        if progress and not user_id:  # how many rows users have is private
            progress(reader.n_rows)

    if analyst_table:
        model: dict[str, Any] = {"family": request.family, "formula": request.by_formula}
        rows = table_as_declared(source, analyst_table, columns, watch=watch, **model)
        return _identified(rows, reader)
    design = RowDesign(
        columns=tuple(UnitColumn(name=name) for name in x),
        response=UnitColumn(name=y) if y else None,
        user_id=user_id or "",
    )
    units = FileUnits.unchanged(design.names)
    is_parquet = str(data).lower().endswith(".parquet") and Path(data).is_file()
    if (is_folder(data) or is_parquet) and not user_id:
        stream = (PartitionedTable if is_folder(data) else StreamedTable)(data, design.names, y or "")
        stream.check(watch)
        return _identified(ReleaseRows(X=stream, units=units, design=design), reader)
    numbers = load_numbers(data, columns.xy, watch=watch)
    rows = ReleaseRows(
        X=design.rows(numbers),
        y=design.response.values(numbers) if design.response else None,
        users=ids.codes() if ids else None,
        units=units,
        design=design,
    )
    return _identified(rows, reader)


def _identified(rows: ReleaseRows, reader: Fingerprinter) -> ReleaseRows:
    """Return rows with what the reader knows of their file."""
    return replace(
        rows,
        content=reader.fingerprint(),
        exact=reader.exact(),
        n_rows=reader.n_rows,
    )


def columns_read(request: ReleaseRequest) -> dict[str, tuple[str, ...]]:
    """Return the columns of the file that determine the estimate, with the declared levels of each."""
    columns, analyst_table = request.columns, request.table
    names = {*columns.xy, *filter(None, [columns.user_id])}
    levels: dict[str, tuple[str, ...]] = dict.fromkeys(names, ())
    if analyst_table:
        used = analyst_table.needed(each for each in analyst_table.columns if each.name in names)
        levels |= {each.name: each.categories for each in used}
    return levels


def known_as(ledger: Ledger, data: Source, declared: Marks = PLAIN) -> str:
    """Return the name under which the ledger has charged these rows, or "": no value of them is kept."""
    known = ledger.contents()
    if not known:
        return ""
    reader = ledger.fingerprinter(known)
    marks = FileMarks(declared)
    with opened_table(data, marks) as (_, batches):
        for batch in map(marks.plain, batches):
            reader.add(batch)
    return known.get(reader.fingerprint(), "") if reader.n_rows else ""
