"""The rows of a release, read from the analyst's file once, while the ledger fingerprints them.

A row that is left out for a missing cell stays as a row without effect: the number of rows is public.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from math import inf
from typing import Any

import numpy as np

from data.columns import Column
from data.errors import DataError
from data.formats.canonical import CanonicalBatch
from data.ledger import Fingerprinter
from data.tables.declared import DeclaredReader, DeclaredTable
from data.tables.queries import Query
from data.tables.reading import Numbers, Watch, n_rows_stated
from data.tables.sources import Part, Source, is_folder
from data.tables.streams import HELD_NUMBERS, StreamedTable
from dpalgos import Sample
from dpalgos.formula.columns import CategoryColumn
from dpalgos.formula.design import FormulaDesign
from dpalgos.hardened_release import release_plan
from dpalgos.rows.streams import PartitionedRows, StreamedRows, StreamRefused
from dpalgos.typing import FloatArray
from tasks.errors import SpecError
from tasks.own_table.analyst_table import require_clusters
from tasks.own_table.file_units import AT_CENTERS
from tasks.own_table.row_design import RowDesign
from tasks.release.request import ReleaseRequest
from tasks.workers import map_on_workers


class ClippedCells:
    """Which cells of X and y were clipped at a bound, one bit each, for `dpalgos.Sample`."""

    def __init__(self, design: RowDesign) -> None:
        more = [AT_CENTERS, design.response.name] if design.response else []
        self._columns, self._pieces = [*design.names, *more], list[np.ndarray]()

    def add(self, piece: DeclaredTable) -> None:
        cells = np.zeros((len(piece.is_complete), len(self._columns)), dtype=bool)
        for j, name in enumerate(self._columns):
            cells[piece.is_complete, j] = piece.sides.get(name, 0)
        self._pieces.append(np.packbits(cells, axis=1))

    def add_unclipped(self, n_rows: int) -> None:
        self._pieces.append(np.packbits(np.zeros((n_rows, len(self._columns)), dtype=bool), axis=1))

    @cached_property
    def _bits(self) -> np.ndarray:
        return np.concatenate(self._pieces)

    def any(self) -> bool:
        return bool(self._bits.any())

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Return the cells of some rows, (m, columns)."""
        return np.unpackbits(self._bits[rows], axis=1, count=len(self._columns)).astype(bool)


class _DesignReader(DeclaredReader):
    """Reads the columns of X and the response from a table's files, in public units.

    A row that is left out for a missing cell becomes a row of zeros. If sums are released (``of_sums``), the
    file may have fewer users than declared.
    """

    def __init__(self, source: Source, design: RowDesign, of_sums: bool = False) -> None:
        # No refusal may depend on codes that the analyst chooses: a coded id is one user.
        declaration = design.declaration or design.plain_declaration
        super().__init__(source, replace(declaration, missing_codes=()))
        self._design, self.clipped_cells, self._of_sums = design, ClippedCells(design), of_sums
        self._n_declared = declaration.n_users or 0
        self._weights: list[FloatArray] = []

    @property
    def weights(self) -> FloatArray | None:
        """The weights of the rows (n,), 0 where a row is left out."""
        return np.concatenate(self._weights) if self._design.weights else None

    @property
    def users(self) -> np.ndarray | None:
        """A code per row (n,) for the user it belongs to, if they are protected."""
        return self.ids.codes() if self.ids else None

    @property
    def without_rows(self) -> range:
        """The codes of declared users who have no row."""
        n_users = int(self.ids.codes().max()) + 1 if self.ids else 0
        return range(n_users, max(n_users, self._n_declared))

    def _other_users(self, counted: int) -> list[str]:
        return [] if self._of_sums and counted < self._n_declared else super()._other_users(counted)

    def pieces(self, part: Part, watch: Watch | None = None) -> Iterator[Numbers]:
        for piece in self.tables(part, watch):
            at = piece.is_complete
            if watch:  # the first pass
                self.clipped_cells.add(piece)
                self._add_weights(piece)
            complete_rows, responses = self._design.rows(piece.table)
            rows = np.zeros((len(at), complete_rows.shape[1]), order="F")
            rows[at] = complete_rows
            numbers = dict(zip((*self._design.names, AT_CENTERS), rows.T, strict=False))
            if response := self._design.response:
                numbers[response.name] = np.zeros(len(rows))
                numbers[response.name][at] = responses
            yield numbers

    def _add_weights(self, piece: DeclaredTable) -> None:
        if name := self._design.weights:
            self._weights.append(np.zeros(len(piece.is_complete)))
            self._weights[-1][piece.is_complete] = piece.table[name]


class _PersonReader(_DesignReader):
    """Reads the declared columns of a time to an event, with categories as codes.

    A row that is left out for a missing cell has public values, and is known by ``is_complete``.
    """

    def __init__(self, source: Source, design: RowDesign, formula: FormulaDesign) -> None:
        super().__init__(source, design)
        self._formula = formula
        self.is_complete: list[np.ndarray] = []
        self.is_clipped: list[np.ndarray] = []  # whether a covariate was clipped

    @property
    def categories(self) -> tuple[Column, ...]:
        """The columns that it reads as codes."""
        return tuple(each for each in self._columns if each.categories and each.name in self._formula.uses)

    def pieces(self, part: Part, watch: Watch | None = None) -> Iterator[Numbers]:
        for piece in self.tables(part, watch):
            at, sides = piece.is_complete, piece.sides
            if watch:  # the first pass
                self._add_weights(piece)
                self.is_complete.append(at)
                self.is_clipped.append(np.zeros(len(at), dtype=bool))
                for name in sides.keys() & set(self._formula.uses) - set(self._formula.times):
                    self.is_clipped[-1][at] |= sides[name] != 0
            numbers = {name: np.full(len(at), float(self._public(name))) for name in self._formula.uses}
            for name, values in numbers.items():
                values[at] = piece.table[name]
            yield numbers

    def _public(self, name: str) -> float:
        column, time = self._formula.source[name], self._formula.survival
        if isinstance(column, CategoryColumn):
            return 0.0
        return time.periods[0] if time and name in self._formula.times else column.lower


def read_rows(
    reader: Fingerprinter,
    data: Source,
    request: ReleaseRequest,
    progress: Callable[[int], None] | None = None,
) -> Sample:
    """Read and check the file once; of a large file without users keep no number."""
    columns, design, formula = request.columns, request.design, request.by_formula
    if isinstance(data, Query) and columns.user_id and not data.is_ordered:
        raise SpecError(
            f"{data} must state the order of its rows, since at most max_rows of a user's rows are used; add "
            "ORDER BY with columns that no two rows of a user share"
        )
    reader.expect(n_rows_stated(data))

    def watch(batch: CanonicalBatch) -> None:
        reader.add(batch)
        if progress and not columns.user_id:  # how many rows users have is private
            progress(reader.n_rows)

    if request.table:
        require_clusters(data, request.table)
    if formula and formula.joins_rows:
        return _person_rows(data, design, formula, watch)
    return rows_of(data, design, watch, drops=request.is_sum, streams=partial(_takes_streams, request))


def _takes_streams(request: ReleaseRequest, n_rows: int) -> bool:
    """Return whether the estimator reads so many rows in passes over a file."""
    try:
        shape = n_rows, request.design.n_columns
        release_plan(request.estimator.name, *shape, request.keywords, streamed=True)
    except StreamRefused:
        return False
    return True


def _person_rows(path: Source, design: RowDesign, formula: FormulaDesign, watch: Watch) -> Sample:
    """Return the person-periods of a time to an event, as `dpalgos.formula.phreg` makes them of a frame."""
    from dpalgos.formula.person_rows import person_sample  # loaded if a response is a time

    make = partial(_PersonReader, path, design, formula)
    reader, table = make(), StreamedTable(path, make)
    table.check(reader, watch, inf)
    numbers, _ = table.in_memory()
    rows: dict[str, Any] = dict(zip(formula.uses, numbers.T, strict=True))
    for column in reader.categories:
        rows[column.name] = np.array(column.categories)[rows[column.name].astype(int)]
    is_complete, is_clipped = map(np.concatenate, (reader.is_complete, reader.is_clipped))
    return Sample(
        **person_sample(
            formula,
            rows,
            np.arange(len(numbers)) if reader.users is None else reader.users,
            is_clipped=is_clipped if is_clipped.any() else None,
            row_weights=reader.weights,
            is_complete=None if is_complete.all() else is_complete,
        )
    )


def rows_of(
    path: Source,
    design: RowDesign,
    watch: Watch,
    *,
    drops: bool,
    streams: Callable[[int], bool] = lambda _: False,
) -> Sample:
    """Return the rows of a design. Many rows without users are streamed if ``streams`` allows their number.

    A missing cell is refused where rows of zeros would not do (``drops`` is false): they would move a mean.
    A declared user without a row gets a row of zeros. Workers of a cluster make the partial sums of a
    folder's files.
    """
    make = partial(_DesignReader, path, design, drops)
    reader = make()
    table = StreamedTable(path, make, design.response.name if design.response else "")
    table.check(reader, watch, inf if reader.ids else HELD_NUMBERS)
    if reader.repairs and not drops:
        raise DataError(
            f"{path}: {reader.repairs[0].reason}; only regressions can be released without some rows, "
            "since the number of rows left is private; give the column impute = a public constant, or "
            'release means of groups by a formula such as "age ~ region"'
        )
    more = reader.without_rows
    reader.clipped_cells.add_unclipped(len(more))
    clipped = reader.clipped_cells if reader.clipped_cells.any() else None
    parts = table.partitions
    if not table.is_held and streams(sum(n_rows for _, n_rows in parts)):
        rows = PartitionedRows(parts, map_on_workers) if is_folder(path) else StreamedRows(*parts[0])
        return Sample(rows, moved=clipped, row_weights=reader.weights)
    X, y, weights = (_with_zeros(each, len(more)) for each in (*table.in_memory(), reader.weights))
    users = None if reader.users is None else np.append(reader.users, np.array(more, dtype=int))
    return Sample(X, y, user_ids=users, row_weights=weights, moved=clipped)


def _with_zeros(values: FloatArray | None, count: int) -> FloatArray | None:
    """Return numbers with so many more rows of zeros."""
    if values is None or not count:
        return values
    return np.concatenate([values, np.zeros((count, *values.shape[1:]))])


def columns_read(request: ReleaseRequest) -> dict[str, tuple[str, ...]]:
    """Return the columns of the file that determine the estimate, with the declared levels of each."""
    columns, analyst_table = request.columns, request.table
    names = {*columns.all_numbers, *filter(None, [columns.user_id])}
    levels: dict[str, tuple[str, ...]] = dict.fromkeys(names, ())
    if analyst_table:
        used = analyst_table.needed(each for each in analyst_table.columns if each.name in names)
        levels |= {each.name: each.categories for each in used}
    return levels
