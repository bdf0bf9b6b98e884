"""Read an analyst's CSV or Parquet file in pieces; its data are private: no message holds a value or a count.

Not even the header is quoted: in a file without one, the first row of data stands there.
"""

import csv
import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PurePath
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from data.errors import DataError
from data.formats.canonical import Cells, canonical_cells
from data.formats.row_groups import BUFFER_BYTES, read_ahead
from data.tables.marks import FileMarks
from data.tables.sources import Source, files_of, is_address, is_folder

SUFFIXES = (".csv", ".parquet")
BLOCK_BYTES = 8 * 2**20
BATCH_ROWS = 65_536
SEPARATORS = (",", ";", "\t")
UNNAMED = "Unnamed"  # an index: the first column of a CSV file, where it has no name

Watch = Callable[[pa.RecordBatch], None]
"""Is shown every piece of a file, with all columns and as the file has them, e.g. to fingerprint it."""

Numbers = dict[str, npt.NDArray[np.float64]]


def load_numbers(path: Source, columns: Sequence[str] = (), *, watch: Watch | None = None) -> pd.DataFrame:
    """Return columns of numbers as ``float64``, and refuse a file with any fault, see `pieces_of_numbers`."""
    pieces: dict[str, list[Any]] = defaultdict(list)
    for piece in pieces_of_numbers(path, columns, watch=watch):
        for name, values in piece.items():
            pieces[name].append(values)
    # Each column's pieces are let go once they are one array.
    return pd.DataFrame({name: np.concatenate(pieces.pop(name)) for name in list(pieces)}, copy=False)


def pieces_of_numbers(
    path: Source, columns: Sequence[str] = (), *, watch: Watch | None = None, may_be_empty: bool = False
) -> Iterator[Numbers]:
    """Yield some rows after the other of a file that is opened and read once; at the end refuse its faults.

    CSV is UTF-8 with a header, separated by commas, tabs, or semicolons and then with decimal commas or
    points.
    """
    marks = FileMarks()
    with opened_table(path, marks) as (names, batches):
        require_columns(path, names, columns, "check the header and the spelling")
        chosen = list(columns) or names
        # A column that the caller did not name might be called after a value.
        shown = {
            name: repr(name) if columns else f"number {position + 1}" for position, name in enumerate(chosen)
        }
        faults: dict[str, bool] = defaultdict(bool)
        is_empty = True
        for batch in map(marks.plain, batches):
            is_empty = is_empty and not batch.num_rows
            if watch:
                watch(batch)
            piece = {}
            for name in chosen:
                cells = cells_of(path, batch, name, shown[name])
                marks.notice(name, cells)
                faults[f"text in number column {shown[name]}"] |= bool((cells.texts >= 0).any())
                faults[f"blank or NaN in column {shown[name]}"] |= bool(cells.missing.any())
                faults[f"infinity in column {shown[name]}"] |= bool(np.isinf(cells.numbers).any())
                piece[name] = cells.numbers
            yield piece
    marks.refuse_unclear(path, chosen)
    if is_empty and not may_be_empty:
        raise DataError(f"{path} has no rows; at least one is needed, check the file")
    if fault := next((fault for fault, is_there in faults.items() if is_there), None):
        raise DataError(f"{path}: {fault}; correct or remove those rows")


class StreamedTable:
    """Numbers of a Parquet file, read from its beginning whenever this object is called.

    It is what :class:`dpalgos.rows.blocks.StreamedRows` takes; with a ``response``, rows come in pairs with
    it. `check` reads the file once and refuses every fault; every later pass has to give the same numbers.
    (Inode, size and time of change can be those of another file.)
    """

    def __init__(self, path: Source, columns: Sequence[str], response: str = "") -> None:
        self.path, self._response = path, response
        self._columns = [*columns, response] if response else list(columns)
        self._checked: list[bytes] = []

    def check(self, watch: Watch, *, is_part: bool = False) -> None:
        """Read the whole file; refuse its faults, and remember its numbers by a hash of each column.

        Where it ``is_part`` of a table it may have no rows.
        """
        digests = [hashlib.blake2b() for _ in self._columns]
        for piece in pieces_of_numbers(self.path, self._columns, watch=watch, may_be_empty=is_part):
            _update(digests, piece)
        self._checked = [digest.digest() for digest in digests]

    def __call__(self) -> Iterator[Any]:
        """Yield columns (m,) by their names, or pairs of columns and responses; refuse changed numbers."""
        return read_ahead(self._blocks())

    def in_memory(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64] | None]:
        """Return the columns (n, d), and the responses (n,) if there are any, after the same comparison."""
        pieces = list(self._pieces())
        table = [np.concatenate([piece[name] for piece in pieces]) for name in self._columns]
        y = table.pop() if self._response else None
        return np.column_stack(table), y

    def _blocks(self) -> Iterator[Any]:
        for piece in self._pieces():
            yield (piece, piece.pop(self._response)) if self._response else piece

    def _pieces(self) -> Iterator[Numbers]:
        digests = [hashlib.blake2b() for _ in self._columns]
        with opened_table(self.path) as (_, batches):
            for batch in batches:
                try:
                    piece = {name: canonical_cells(batch.column(name)).numbers for name in self._columns}
                except (KeyError, TypeError):  # a column is gone, or holds lists now
                    raise self._changed() from None
                _update(digests, piece)
                yield piece
        if [digest.digest() for digest in digests] != self._checked:
            raise self._changed()

    def _changed(self) -> DataError:
        return DataError(
            f"{self.path} changed while it was read, so nothing is released of it; try again when it is at "
            "rest"
        )


def _update(digests: list[Any], piece: Numbers) -> None:
    for digest, values in zip(digests, piece.values(), strict=True):
        digest.update(values.tobytes())


def cells_of(
    path: Source, batch: pa.RecordBatch, name: str, shown: str, levels: Collection[str] = ()
) -> Cells:
    try:
        return canonical_cells(batch.column(name), levels)
    except TypeError:
        raise DataError(f"{path}: lists or records in column {shown}; keep numbers and text only") from None


def require_columns(path: Source, names: Sequence[str], wanted: Sequence[str], advice: str) -> None:
    if absent := [repr(name) for name in wanted if name not in names]:
        raise DataError(f"{path} lacks the column {', '.join(absent)}; {advice}")


@contextmanager
def opened_table(
    path: Source, marks: FileMarks | None = None
) -> Iterator[tuple[list[str], Iterator[pa.RecordBatch]]]:
    """Open a CSV or Parquet file, or a folder of Parquet files; yield its columns and, once, its rows.

    Cells are as the file has them; ``marks`` makes them plain.
    """
    suffix = PurePath(path).suffix.lower()
    if is_folder(path) and not (is_address(path) and suffix in SUFFIXES):
        yield _folder(path)
        return
    if suffix not in SUFFIXES:
        raise DataError(f"{path} must end in {' or '.join(SUFFIXES)}, got {suffix!r}; convert the file")
    if not is_address(path) and not Path(path).is_file():
        raise DataError(f"{path} is not a file; check the path")
    try:
        with _opened(path) as handle:
            names, batches = (
                _csv(path, handle, marks or FileMarks()) if suffix == ".csv" else _parquet(handle)
            )
            if twice := [n for n, name in enumerate(names, 1) if names.count(name) > 1]:
                raise DataError(
                    f"{path} has columns of the same name at {', '.join(map(str, twice[:5]))}; rename one"
                )
            yield names, batches
    except pa.ArrowException:
        raise _malformed(path) from None
    except OSError as error:
        reason = f" ({error.strerror})" if error.strerror else ""
        raise DataError(f"{path} cannot be read{reason}; check that it is a {suffix} file") from None


def _folder(path: Source) -> tuple[list[str], Iterator[pa.RecordBatch]]:
    """Return the columns of a folder's first file, and the rows of all of its files."""
    files = files_of(path)
    with opened_table(files[0]) as (names, _):
        pass

    def batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            with opened_table(file) as (file_columns, pieces):
                _require_alike(file, set(file_columns), set(names))
                for batch in pieces:
                    yield batch.select(names)

    return names, batches()


def _require_alike(file: Source, columns: set[str], others: set[str]) -> None:
    if columns != others:
        raise DataError(
            f"{file} has other columns than the files before it; a folder's files must all have the "
            "same columns: write them so, or choose the folder of one table"
        )


def n_rows_stated(source: Source) -> int | None:
    """Return how many rows Parquet files say that they have; None where they must be read."""
    if is_address(source) or not (is_folder(source) or str(source).lower().endswith(".parquet")):
        return None
    try:
        files = files_of(source) if is_folder(source) else [source]
        return sum(int(pq.read_metadata(each).num_rows) for each in files)
    except (OSError, pa.ArrowException):
        return None  # reading it says what is wrong


def _opened(path: Source) -> AbstractContextManager[BinaryIO]:
    if not is_address(path):
        return Path(path).open("rb")
    import fsspec

    try:
        opened: AbstractContextManager[BinaryIO] = fsspec.open(str(path), "rb").open()
    except Exception as error:  # each file system has its own
        raise DataError(
            f"{path} cannot be read ({type(error).__name__}); check the address and its credentials"
        ) from None
    return opened


def _malformed(path: Source) -> DataError:
    return DataError(
        f"{path} is not a well-formed {PurePath(path).suffix} file (damaged, rows of different lengths, "
        "or not UTF-8); correct it"
    )


def _parquet(handle: BinaryIO) -> tuple[list[str], Iterator[pa.RecordBatch]]:
    file = pq.ParquetFile(
        handle, pre_buffer=False, buffer_size=BUFFER_BYTES, coerce_int96_timestamp_unit="us"
    )
    # The order in which pandas once held the rows is no part of the data.
    names = [name for name in file.schema_arrow.names if not name.startswith("__index_level_")]
    return names, file.iter_batches(BATCH_ROWS, columns=names, use_threads=False)


def _csv(path: Source, handle: BinaryIO, marks: FileMarks) -> tuple[list[str], Iterator[pa.RecordBatch]]:
    """Return the header and the rows, all cells as text (see `data.formats.canonical`).

    The header says what separates cells. A first column without a name is an index.
    """
    first = handle.readline()
    if fault := _first_line_fault(first):
        raise DataError(f"{path} {fault}")
    try:
        mark = _separator(first.decode("utf-8-sig"))
        marks.set_separator(mark)
        lines = (line.decode("utf-8-sig") for line in (first, *_rest_of_header(first, handle)))
        names = next(csv.reader(lines, delimiter=mark), [])
    except (UnicodeDecodeError, csv.Error):
        raise _malformed(path) from None
    if not names:
        raise DataError(f"{path} is empty; it needs a header and at least one row")
    following: bytes = handle.peek(1)  # type: ignore[attr-defined]
    second = following.split(b"\n")[0].rstrip(b"\r").decode(errors="replace")
    if (len(names) > 1 and not names[-1]) or (second.count(mark) == len(names) > 1 and second.endswith(mark)):
        raise DataError(f"{path} has a separator at the end of its lines; take it off every line")
    if not names[0] and UNNAMED not in names:
        names[0] = UNNAMED
    if not following:
        return names, iter(())
    batches = arrow_csv.open_csv(
        handle,
        read_options=arrow_csv.ReadOptions(column_names=names, block_size=BLOCK_BYTES),
        parse_options=arrow_csv.ParseOptions(
            delimiter=mark,
            newlines_in_values=True,
            ignore_empty_lines=len(names) > 1,  # of one column, a blank line is a missing cell
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        ),
    )
    return names, batches


def _first_line_fault(line: bytes) -> str:
    """Say what is wrong with a file that begins with such a line; "" if nothing is."""
    start = line.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t")
    if line[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in line:
        return "is UTF-16 text, or holds null characters; save it as UTF-8"
    if start in (b"\n", b"\r\n"):
        return "begins with a blank line; remove it"
    if start[:4].lower() == b"sep=":
        return "begins with a line sep=… for a spreadsheet program; remove it"
    if b"\r" in line.rstrip(b"\r\n") and b'"' not in line:
        return "ends its lines with carriage returns alone; save it with line feeds"
    return ""


def _separator(header: str) -> str:
    """Return the separator of a header: the mark that is most frequent outside quotes."""
    outside = "".join(header.split('"')[::2])
    return max(SEPARATORS, key=outside.count)


def _rest_of_header(first: bytes, handle: BinaryIO) -> Iterator[bytes]:
    """Yield the lines that belong to the header because a quoted name goes on there."""
    quotes = first.count(b'"')
    while quotes % 2 and (line := handle.readline()):
        quotes += line.count(b'"')
        yield line


class PartitionedTable:
    """Columns of numbers of a folder's files, in the order of their names.

    `check` reads all files once; each is then a :class:`StreamedTable`, which refuses other numbers wherever
    it is read. Files that come into the folder later are no part of the table.
    """

    def __init__(self, folder: Source, columns: Sequence[str], response: str = "") -> None:
        self._parts = [StreamedTable(file, columns, response) for file in files_of(folder)]
        self.partitions: list[tuple[StreamedTable, int]] = []

    def check(self, watch: Watch) -> None:
        """Read every file; refuse its faults, and columns that differ from file to file."""
        n_rows = 0
        of_all_files = alike(watch)

        def counted(batch: pa.RecordBatch) -> None:
            nonlocal n_rows
            n_rows += batch.num_rows
            of_all_files(part.path, batch)

        for part in self._parts:
            n_rows = 0
            part.check(counted, is_part=True)
            if n_rows:
                self.partitions.append((part, n_rows))
        if not self.partitions:
            raise DataError("the files of the folder have no rows; at least one is needed, check the folder")


def alike(watch: Callable[[pa.RecordBatch], None]) -> Callable[[Source, pa.RecordBatch], None]:
    """Return a watch that refuses pieces with other columns than the first one's."""
    columns: set[str] = set()

    def checked(source: Source, batch: pa.RecordBatch) -> None:
        nonlocal columns
        columns = columns or set(batch.schema.names)
        _require_alike(source, set(batch.schema.names), columns)
        watch(batch)

    return checked
