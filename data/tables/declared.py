"""An analyst's table under the public declarations of its owner, which the data never choose.

No message holds a value or an id, or says how many rows or users are concerned: a server records messages.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from data.columns import MOST_FAULTS, PLAIN, Column, Declaration, Marks
from data.errors import DataError, numbered
from data.formats.canonical import LARGEST_WHOLE, CanonicalBatch, Cells, composed, meanings, written_text
from data.store.references import Repair
from data.tables.marks import FileMarks
from data.tables.reading import PartReader, Watch, cells_of, opened_table, require_columns
from data.tables.sources import Part, Source, parts_of

_EXPONENT = r"^\s*[+-]?[\d.]+[eE][+-]?\d+\s*$"  # 10E1 and 1E2 may be two users
_MISSING, _UNLISTED = -1.0, -2.0  # codes of cells that are no category


class UserIds:
    """The ids of users, read piece by piece and turned into numbers 0, 1, …; no message holds one.

    Ids are compared in their canonical form (:mod:`data.formats.canonical`): ``7``, ``7.0`` and ``007`` are
    one user, and so is a name in either Unicode form. Otherwise parts of a user's rows would be protected
    alone. ``dpalgos.estimate`` applies the same rule to the ids of an array.
    """

    def __init__(self, path: Source, column: str, missing: Sequence[str] = ()) -> None:
        self._path, self._column, self._missing_codes = path, composed(column), missing
        self._pieces: list[npt.NDArray[np.float64]] = []
        self._texts: dict[str, int] = {}
        self._has_numbers = self._has_missing = self._has_odd = False

    def add(self, batch: CanonicalBatch) -> None:
        require_columns(self._path, batch.rows.schema.names, [self._column], "correct its name")
        cells = cells_of(self._path, batch, self._column)
        text = written_text(batch.rows.column(self._column))
        self._has_odd |= text is not None and bool(pc.any(pc.match_substring_regex(text, _EXPONENT)).as_py())
        known = [self._texts.setdefault(text, len(self._texts)) for text in cells.values]
        are_texts = cells.texts >= 0
        piece = cells.numbers.copy()
        piece[are_texts] = np.array([*known, 0])[cells.texts[are_texts]]
        self._pieces.append(piece)
        numbers = cells.numbers[~are_texts & ~cells.missing]
        self._has_missing |= any(map(np.any, [cells.missing, *_each_of(self._missing_codes, cells)]))
        self._has_numbers |= bool(len(numbers))
        self._has_odd |= bool(((np.abs(numbers) >= LARGEST_WHOLE) | (numbers != np.rint(numbers))).any())

    def codes(self) -> npt.NDArray[np.int64]:
        """Return an integer code per row for the user it belongs to, shape (n,).

        Missing ids, and numbers mixed with text, are refused: one user might stand there under two ids.
        """
        where = f"{self._path}: the column of user ids {self._column!r}"
        if self._has_missing:
            raise DataError(
                f"{where} has rows without an id; give each row its user's id, or take those rows out of the "
                "file"
            )
        if self._has_numbers and self._texts:
            raise DataError(
                f"{where} mixes numbers with text, and a user might have two ids; write all ids one way, "
                "e.g. with a letter before each"
            )
        if self._has_odd:
            raise DataError(
                f"{where} has fractions, exponents or numbers of 2^53 or more; ids must be whole "
                "numbers or text; write e.g. a letter before each"
            )
        ids = np.concatenate([np.zeros(0), *self._pieces])
        return np.asarray(np.unique(ids, return_inverse=True)[1], dtype=np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class DeclaredTable:
    """Rows of a file as declared: all of them, or a piece."""

    table: dict[str, npt.NDArray[Any]]  # the columns of the rows that were kept
    is_complete: npt.NDArray[np.bool_]  # (n,): whether a row of the file is in the table
    # −1 or 1 if clipped at the lower or upper bound, else 0; of a piece
    sides: dict[str, npt.NDArray[np.int8]] = field(default_factory=dict)
    repairs: tuple[Repair, ...] = ()  # how many were left out, and why
    clipped: tuple[Repair, ...] = ()  # rows with a clipped number, by column


def count_users(path: Source, user_id: str, marks: Marks = PLAIN) -> int:
    """Return how many users a column of ids names; no id is kept or shown."""
    ids = UserIds(path, user_id)
    with opened_table(path, FileMarks(marks)) as (_, batches):
        for batch in batches:
            ids.add(CanonicalBatch(batch))
    return int(ids.codes().max(initial=-1)) + 1


def read_declared(source: Source, declaration: Declaration, *, watch: Watch | None = None) -> DeclaredTable:
    """Read a table in one pass under its declaration, as `declared_to_parquet` stores it."""
    reader, user_id = DeclaredReader(source, declaration), declaration.user_id
    pieces = [piece for part in parts_of(source) for piece in reader.tables(part, watch)]
    reader.refuse_faults()
    is_complete = np.concatenate([piece.is_complete for piece in pieces])
    if not is_complete.any():
        raise DataError(
            f"{source}: every row lacks a cell of a declared column; remove empty columns from "
            "[[data.columns]]"
        )
    table = {name: np.concatenate([piece.table[name] for piece in pieces]) for name in pieces[0].table}
    if reader.ids:
        table[user_id] = np.unique(reader.ids.codes()[is_complete], return_inverse=True)[1]
    return DeclaredTable(table=table, is_complete=is_complete, repairs=reader.repairs, clipped=reader.clipped)


class DeclaredReader(PartReader):
    """Reads a table's files under their declaration: a row is checked, clipped and filled by itself."""

    def __init__(self, source: Source, declaration: Declaration) -> None:
        super().__init__(source)
        self._declaration = declaration
        self._columns = tuple(column for column in declaration.columns if column.derived is None)
        user_id, codes = declaration.user_id, declaration.missing_codes
        self.ids = UserIds(source, user_id, codes) if user_id else None
        self._faults: dict[str, None] = {}  # cells that no declaration allows, in order
        self._clipped, self._missing = Counter[str](), Counter[str]()
        self._n_rows = 0
        derived = [each.derived for each in declaration.columns if each.derived]
        self._times = {time for each in derived for time in each.times}
        self._counted_missing = {name for each in derived for name in each.counts_missing}

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """How many rows lack a cell, by the first such column."""
        return self._counted("blank or NaN in column", self._missing)

    @property
    def clipped(self) -> tuple[Repair, ...]:
        """How many rows have a clipped number, by column."""
        return self._counted("column", self._clipped)

    def _counted(self, reason: str, counts: Counter[str]) -> tuple[Repair, ...]:
        names = (column.name for column in self._columns)
        return tuple(Repair(f"{reason} {name}", counts[name]) for name in names if counts[name])

    def tables(self, part: Part, watch: Watch | None = None) -> Iterator[DeclaredTable]:
        """Yield the rows of a file as declared, piece by piece, until one has a fault."""
        for values in self._values(part, watch):
            self._n_rows += len(values[self._columns[0].name])
            if piece := self._piece(values):
                yield piece

    def refuse_faults(self) -> None:
        """Refuse all faults of the rows that were read."""
        declaration, path = self._declaration, self._source
        if not self._n_rows:
            raise DataError(f"{path} has no rows; at least one is needed, check the file")
        faults = _other_size("rows", self._n_rows, declaration.n_rows)
        if self._faults:
            faults.append(
                f"{_listed(list(self._faults))}; correct the file or [[data.columns]]; levels = {{ … }} "
                'merges spellings (capitals count), missing = ["99", "."] names texts of a missing cell, '
                'categories = ["1", "2"] allows other codes than 0 and 1'
            )
        if self._lacks_cells:
            faults.append(
                f"{_listed([repair.reason for repair in self.repairs])}; correct those rows. A study file "
                "may state impute = a public constant below the column's name. For its runs and for releases "
                'of regressions, it may state missing = "drop" (grid.n then counts the rows that are left)'
            )
        if self.ids:
            faults += self._other_users(int(self.ids.codes().max()) + 1)
        if faults:
            raise DataError(f"{path}: {numbered(faults)}")

    def _other_users(self, counted: int) -> list[str]:
        """Return the fault of another number of users than the declared one."""
        return _other_size("users", counted, self._declaration.n_users)

    @property
    def _lacks_cells(self) -> bool:
        return self._declaration.missing == "refuse" and self._missing.total() > 0

    def _values(self, part: Part, watch: Watch | None) -> Iterator[dict[str, npt.NDArray[np.float64]]]:
        """Yield columns as numbers, or as numbers of their categories; users' ids are read on the way."""
        path, columns, file_marks = part.file, self._columns, FileMarks(self._declaration.marks)
        read = [column.name for column in columns] if not (watch or self.ids) else []
        with self.opened(part, file_marks, read) as (names, batches):
            named = [column.name for column in columns]
            require_columns(path, names, named, "check the header and the spelling")
            numbers = [column.name for column in columns if not column.categories]
            missing = {column.name: column.missing for column in columns}
            missing |= {name: tuple(file_marks.plain_codes(path, name, missing[name])) for name in numbers}
            for rows in batches:
                plain = CanonicalBatch(file_marks.plain(rows))
                batch = plain if plain.rows is rows else CanonicalBatch(rows)
                if watch:
                    watch(plain)
                if self.ids:
                    self.ids.add(plain)
                values: dict[str, npt.NDArray[np.float64]] = {}
                for column in columns:
                    as_read = batch if column.categories else plain
                    cells = cells_of(path, as_read, column.name, column.spellings)
                    codes = _codes(cells, column) if column.categories else _numbers(cells)
                    for marked in _each_of(missing[column.name], cells, bool(column.categories)):
                        codes[marked] = _MISSING if column.categories else np.nan
                    if not column.categories:
                        file_marks.notice(column.name, cells)
                    values[column.name] = codes
                yield values
        file_marks.refuse_unclear(path, numbers)

    def _piece(self, values: dict[str, npt.NDArray[np.float64]]) -> DeclaredTable | None:
        """Return rows as declared; None once a fault was found."""
        times = {name: values[name].copy() for name in self._times}
        sides = self._clip(values)
        for column in self._columns:
            self._faults |= dict.fromkeys(_faults_of(column, values[column.name]))
        is_complete = self._fill(values)
        if self._faults or self._lacks_cells:
            return None
        sides = {name: side[is_complete] for name, side in sides.items()}
        values = {name: each[is_complete] for name, each in values.items()}
        times = {name: each[is_complete] for name, each in times.items()}
        table: dict[str, npt.NDArray[Any]] = {}
        for column in self._columns:
            column_values = values[column.name]
            if column.categories:
                for code, indicator in enumerate(column.table_columns, 1):
                    table[indicator] = (column_values == code).astype(np.float64)
                table[column.name] = column_values
            else:
                table[column.table_columns[0]] = np.log(column_values) if column.transform else column_values
        _derive(self._declaration, values, times, table, sides)
        return DeclaredTable(table=table, is_complete=is_complete, sides=sides)

    def _clip(self, values: Mapping[str, npt.NDArray[np.float64]]) -> dict[str, npt.NDArray[np.int8]]:
        """Clip numbers at the public bounds of columns, in place; return the sides by column.

        Infinity is not clipped, since it also stands for text.
        """
        sides = {}
        for column in self._columns:
            numbers = values[column.name]
            if self._declaration.clips(column) and (outside := _outside(column, numbers)).any():
                sides[column.name] = (outside * np.where(numbers > column.upper, 1, -1)).astype(np.int8)
                numbers[outside] = np.clip(numbers[outside], column.lower, column.upper)
                self._clipped[column.name] += int(outside.sum())
        return sides

    def _fill(self, values: Mapping[str, npt.NDArray[np.float64]]) -> npt.NDArray[np.bool_]:
        """Impute missing cells in place; return which rows lack none now, except those that are counted."""
        is_complete = np.ones(len(next(iter(values.values()))), dtype=bool)
        for column in self._columns:
            if column.name in self._counted_missing:
                continue
            numbers = values[column.name]
            gap = numbers == _MISSING if column.categories else np.isnan(numbers)
            if column.impute is not None:
                numbers[gap] = column.imputed
            else:
                self._missing[column.name] += int((gap & is_complete).sum())
                is_complete &= ~gap
        return is_complete


def _other_size(what: str, counted: int, declared: int | None) -> list[str]:
    if declared in (None, counted):
        return []
    return [
        f"it has another number of {what} than data.{what} = {declared}; if the file changed on "
        f"purpose, correct data.{what}, and grid.n where it is larger"
    ]


def _faults_of(column: Column, numbers: npt.NDArray[np.float64]) -> Iterator[str]:
    """Yield what no declaration allows; cells that are missing are another matter."""
    if column.categories:
        if (numbers == _UNLISTED).any():
            yield f"column {column.name!r} has text outside its categories"
        return
    if np.isinf(numbers).any():
        yield f"text, a truth value or infinity in number column {column.name!r}"
    outside = numbers[_outside(column, numbers)]
    for side, is_outside in (("below", outside < column.lower), ("above", outside > column.upper)):
        if is_outside.any():
            codes = column.cut_codes(below=side == "below", above=side == "above")
            question = f" (is one of {codes} a code for missing?)" if codes else ""
            yield f"column {column.name!r} is {side} its declared bounds{question}"


def _outside(column: Column, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    return np.isfinite(numbers) & ((numbers < column.lower) | (numbers > column.upper))


def _derive(
    declaration: Declaration,
    values: Mapping[str, npt.NDArray[np.float64]],
    times: Mapping[str, npt.NDArray[np.float64]],
    table: dict[str, npt.NDArray[Any]],
    sides: dict[str, npt.NDArray[np.int8]],
) -> None:
    """Add the columns that are computed from others; one of a moved number counts as moved.

    ``times`` are unclipped: public cut points limit them, and a clipped entry or event would happen in
    another period. If rows of persons are joined, the table keeps these times, and nothing is computed yet.
    """
    # The code of a missing cell is −1: it is the last text, which no category can have.
    levels = {each.name: np.array([*each.categories, ""]) for each in declaration.columns if each.categories}
    for derived in {id(each.derived): each.derived for each in declaration.columns if each.derived}.values():
        used = {name: values[name] for name in derived.uses if name in values}
        rows = {
            name: levels[name][each.astype(int)] if name in levels else each for name, each in used.items()
        }
        for time in set(derived.times) & set(sides):  # a person is followed to the first or last cut point
            rows[time] = np.where(sides[time] != 0, times[time], rows[time])
        if derived.joins_rows:
            table |= {time: rows[time] for time in derived.times}
            continue
        table.update(derived.values(rows))
        for column, sources in derived.sources.items():
            if is_clipped := [sides[name] != 0 for name in sources if name in sides]:
                sides[column] = np.any(is_clipped, axis=0).astype(np.int8)


def _listed(faults: Sequence[str]) -> str:
    more = f", and {len(faults) - MOST_FAULTS} more such faults" * (len(faults) > MOST_FAULTS)
    return ", ".join(faults[:MOST_FAULTS]) + more


def _numbers(cells: Cells) -> npt.NDArray[np.float64]:
    """Return numbers; NaN where missing, infinity where the cell is text."""
    return np.where(cells.texts >= 0, np.inf, cells.numbers)


def _codes(cells: Cells, column: Column) -> npt.NDArray[np.float64]:
    """Return the number of each cell's category, as far as it has one."""
    unlisted = column.categories.index(column.others) if column.others else _UNLISTED
    codes = np.where(cells.missing, _MISSING, unlisted)
    spelling = column.spellings
    for level, same in zip(spelling, _each_of(list(spelling), cells, True), strict=True):
        codes[same] = column.categories.index(spelling[level])
    return codes


def _each_of(
    declared: Sequence[str], cells: Cells, has_codes: bool = False
) -> Iterator[npt.NDArray[np.bool_]]:
    """Yield for each declared text which cells mean the same; ``has_codes`` in a column of categories."""
    position = {text: code for code, text in enumerate(cells.values)}
    for meaning in meanings(declared, has_codes=has_codes):
        if isinstance(meaning, str):
            yield cells.texts == position.get(meaning, _UNLISTED)
        else:
            yield cells.numbers == meaning
