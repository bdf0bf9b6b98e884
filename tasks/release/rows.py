"""Read the rows of a release once, rescale them as a study file declares, and convert answers back.

Declared columns are put into public units, (value − center) / scale. Categories become columns of 0 and 1,
and a regression gets an intercept. All constants are public: a row stays a row, and the guarantee is
unchanged. If the study leaves out a row for a missing value, it becomes a row of zeros, its intercept
included. Such a row adds nothing to the sums of a regression, and the number of rows stays the public one.
The release is converted to the units of the file, which is post-processing. Covariates are centered.
Therefore the intercept is the estimate where all of them are at their centers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf
from typing import Any

import numpy as np

from data.columns import PLAIN, Column, Marks
from data.errors import DataError
from data.formats.canonical import CanonicalBatch
from data.ledger import Fingerprinter, Ledger
from data.tables.declared import DeclaredReader, DeclaredTable, read_declared
from data.tables.marks import FileMarks
from data.tables.reading import Numbers, Watch, n_rows_stated, opened_table
from data.tables.sources import Part, Source
from data.tables.streams import HELD_NUMBERS, StreamedTable
from dpalgos.formula.design import FormulaDesign
from dpalgos.typing import FloatArray
from tasks.errors import SpecError
from tasks.own_table.analyst_table import AnalystTable, require_clusters
from tasks.own_table.file_units import AT_CENTERS, FileUnits, file_units
from tasks.release.design import RowDesign
from tasks.release.request import ReleaseColumns, ReleaseRequest


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleaseRows:
    """The rows of a file in public units, and how to convert an estimate back."""

    X: FloatArray | StreamedTable  # (n, k); what is streamed brings responses, too
    y: FloatArray | None = None
    users: np.ndarray | None = None  # (n,) a code per row for the user it belongs to, if they are protected
    weights: FloatArray | None = None  # (n,)
    units: FileUnits
    design: RowDesign  # how X and y are made from the file
    clipped: "ClippedCells | np.ndarray | None" = None  # None if no cell was clipped at a bound
    content: str = ""  # the fingerprint of the whole file
    exact: str = ""  # the digest of what the answer reads of it
    n_rows: int = 0

    @property
    def n_units(self) -> int:
        """How many rows or users are protected, which is public."""
        return self.n_users or self.n_rows

    @property
    def n_users(self) -> int | None:
        return None if self.users is None else int(self.users.max()) + 1


class ClippedCells:
    """Which cells of X and y were clipped at a bound, one bit each, for `dpalgos.Sample`."""

    def __init__(self, design: RowDesign) -> None:
        more = [AT_CENTERS, design.response.name] if design.response else []
        self._columns, self._pieces = [*design.names, *more], list[np.ndarray]()

    def add(self, piece: DeclaredTable) -> None:
        cells = np.zeros((len(piece.is_complete), len(self._columns)), dtype=bool)
        for j, name in enumerate(self._columns):
            if name in piece.sides:
                cells[piece.is_complete, j] = piece.sides[name]
        self._pieces.append(np.packbits(cells, axis=1))

    @cached_property
    def _bits(self) -> np.ndarray:
        return np.concatenate(self._pieces)

    def any(self) -> bool:
        return bool(self._bits.any())

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Return the cells of some rows, (m, columns)."""
        return np.unpackbits(self._bits[rows], axis=1, count=len(self._columns)).astype(bool)


class _DesignReader(DeclaredReader):
    """Reads the columns of X and the response from a table's files, in public units."""

    def __init__(self, source: Source, design: RowDesign) -> None:
        super().__init__(source, design.declaration or design.plain_declaration)
        self._design, self.clipped_cells = design, ClippedCells(design)
        self._weights: list[FloatArray] = []

    @property
    def weights(self) -> FloatArray | None:
        """The weights of the rows (n,), 0 where a row is left out."""
        return np.concatenate(self._weights) if self._design.weights else None

    def pieces(self, part: Part, watch: Watch | None = None) -> Iterator[Numbers]:
        for piece in self.tables(part, watch):
            if watch:  # the first pass
                self.clipped_cells.add(piece)
                if name := self._design.weights:
                    self._weights.append(np.zeros(len(piece.is_complete)))
                    self._weights[-1][piece.is_complete] = piece.table[name]
            kept, responses = self._design.rows(piece.table)
            rows = np.zeros((len(piece.is_complete), kept.shape[1]), order="F")
            rows[piece.is_complete] = kept
            numbers = dict(zip((*self._design.names, AT_CENTERS), rows.T, strict=False))
            if response := self._design.response:
                numbers[response.name] = np.zeros(len(rows))
                numbers[response.name][piece.is_complete] = responses
            yield numbers


def read_rows(
    reader: Fingerprinter,
    data: Source,
    request: ReleaseRequest,
    progress: Callable[[int], None] | None = None,
) -> ReleaseRows:
    """Read and check the file once; of a large file without users keep no number."""
    columns, analyst_table = request.columns, request.table
    reader.expect(n_rows_stated(data))

    def watch(batch: CanonicalBatch) -> None:
        reader.add(batch)
        if progress and not columns.user_id:  # how many rows users have is private
            progress(reader.n_rows)

    if analyst_table:
        model: dict[str, Any] = {"family": request.family, "formula": request.by_formula}
        rows = table_as_declared(data, analyst_table, columns, watch=watch, **model)
    else:
        design = RowDesign(
            columns=tuple(map(Column.in_units, columns.x)),
            response=Column.in_units(columns.y) if columns.y else None,
            user_id=columns.user_id or "",
            weights=columns.weights or "",
        )
        rows = _rows_of(data, design, FileUnits.unchanged(design.names), watch)
    return replace(rows, content=reader.fingerprint(), exact=reader.exact(), n_rows=reader.n_rows)


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

    The responses of a generalized linear model (``family``) stay as they are.
    """
    design, units = units_as_declared(analyst_table, columns, family, formula)
    require_clusters(path, analyst_table)
    if formula and formula.times:
        return _person_periods(path, design, units, watch)
    counts_none = columns.y or analyst_table.group_numbers_of(columns.x)  # a row of zeros
    return _rows_of(path, design, units, watch, drops=bool(counts_none) and not columns.user_id)


def _rows_of(
    path: Source, design: RowDesign, units: FileUnits, watch: Watch, *, drops: bool = False
) -> ReleaseRows:
    """Return the rows of a design.

    A missing cell is refused where rows of zeros would not do (``drops`` is false): they would move a mean,
    or a user's.
    """
    make = partial(_DesignReader, path, design)
    reader = make()
    table = StreamedTable(path, make, design.response.name if design.response else "")
    table.check(reader, watch, inf if reader.ids else HELD_NUMBERS)
    if reader.repairs and not drops:
        raise DataError(
            f"{path}: {reader.repairs[0].reason}; only regressions on rows can be released without some of "
            "them, since the number of rows left is private; give the column impute = a public constant, or "
            'release means of groups by a formula such as "age ~ region"'
        )
    X, y = table.in_memory() if table.is_held else (table, None)
    return ReleaseRows(
        X=X,
        y=y,
        users=reader.ids.codes() if reader.ids else None,
        weights=reader.weights,
        units=units,
        design=design,
        clipped=reader.clipped_cells if reader.clipped_cells.any() else None,
    )


def _person_periods(path: Source, design: RowDesign, units: FileUnits, watch: Watch) -> ReleaseRows:
    """Return rows of person-periods; a person who is left out for a missing value has a row of zeros."""
    assert design.declaration is not None
    assert design.response is not None
    read = read_declared(path, design.declaration, watch=watch)
    assert read.persons is not None
    if read.repairs and design.user_id:
        raise DataError(
            f"{path}: {read.repairs[0].reason}; persons with several rows cannot be released without some of "
            "them; give the column impute = a public constant"
        )
    left_out = np.flatnonzero(~read.is_complete)
    ids = read.table[design.user_id] if design.user_id else np.flatnonzero(read.is_complete)
    used = np.repeat([True, False], [len(read.persons), len(left_out)])
    rows, y = np.zeros((len(used), len(design.columns) + design.intercept)), np.zeros(len(used))
    rows[used], y[used] = design.rows(read.table)
    names = [*design.names, AT_CENTERS, design.response.name]
    clipped = np.zeros((len(used), len(names)), dtype=bool)
    for j, name in enumerate(names):
        clipped[used, j] = read.sides.get(name, 0)
    weights = np.zeros(len(used)) if design.weights else None
    if weights is not None:
        weights[used] = read.table[design.weights][read.persons]
    return ReleaseRows(
        X=rows,
        y=y,
        users=np.concatenate([ids[read.persons], left_out]),
        weights=weights,
        units=units,
        design=design,
        clipped=clipped if clipped.any() else None,
    )


def units_as_declared(
    analyst_table: AnalystTable, asked: ReleaseColumns, family: str, formula: FormulaDesign | None = None
) -> tuple[RowDesign, FileUnits]:
    """Return how rows are made from columns as a study file declares them, and the way back."""
    known = {column.name: column for column in analyst_table.columns}
    for key in ("user_id", "weights"):
        stated, declared = getattr(asked, key) or "none", getattr(analyst_table, key) or "none"
        if stated != declared:
            raise SpecError(
                f"columns.{key} must be the study file's, {declared!r}, got {stated!r}; correct it"
            )
    declaration = analyst_table.declaration(known[name] for name in asked.xy)
    columns, groups = {column.name: column for column in analyst_table.fitted}, {}
    for name in asked.x:
        groups[name] = known[name].table_columns
    response = None
    if asked.y:
        one = asked.y if family == "multinomial" else _single(known[asked.y].table_columns, asked.y)
        response = Column.in_units(one) if family else columns[one]
    design = RowDesign(
        columns=tuple(columns[name] for group in groups.values() for name in group),
        response=response,
        user_id=analyst_table.user_id,
        weights=analyst_table.weights,
        intercept=response is not None,
        declaration=declaration,
        formula=formula.described if formula else None,
    )
    units = file_units(design.columns, response)
    if response is not None:
        units = replace(units, groups=groups, columns=asked.xy)
    return design, units.by_formula(formula) if formula else units


def _single(columns: Sequence[str], name: str) -> str:
    if len(columns) > 1:
        raise SpecError(
            f"columns.y must be a column of numbers or of two categories, got {name!r}; choose another, or "
            "params.family = 'multinomial'"
        )
    return columns[0]


def columns_read(request: ReleaseRequest) -> dict[str, tuple[str, ...]]:
    """Return the columns of the file that determine the estimate, with the declared levels of each."""
    columns, analyst_table = request.columns, request.table
    names = {*columns.all_numbers, *filter(None, [columns.user_id])}
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
    with opened_table(data, FileMarks(declared)) as (_, batches):
        for batch in batches:
            reader.add(batch)
    return known.get(reader.fingerprint(), "") if reader.n_rows else ""
