"""Read an analyst's CSV or Parquet file in pieces; its data are private: no message holds a value or a count.

Not even the header is quoted: in a file without one, the first row of data stands there.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from itertools import chain
from pathlib import Path, PurePath
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from data.errors import DataError
from data.formats.canonical import CanonicalBatch, Cells, composed
from data.formats.row_groups import BUFFER_BYTES
from data.tables.marks import FileMarks
from data.tables.queries import Query, opened_query
from data.tables.sources import SUFFIXES, Part, Source, is_address, name_of, parts_of

BLOCK_BYTES = 2**20  # and at least as long as some rows
BATCH_ROWS = 65_536
UNNAMED = "Unnamed"  # an index: the first column of a CSV file, where it has no name

Watch = Callable[[CanonicalBatch], None]
"""Is shown every piece of a file, with all columns and as the file has them, e.g. to fingerprint it."""

Numbers = dict[str, npt.NDArray[np.float64]]
Batches = Iterator[pa.RecordBatch]


class PartReader:
    """Opens the files of a table one after the other, and refuses those with other columns.

    A reader of numbers yields the ``pieces`` of a file, each row by itself, and shows them to a watch. After
    all of them it refuses their faults.
    """

    pieces: Callable[..., Iterator[Numbers]]
    refuse_faults: Callable[[], None]

    def __init__(self, source: Source) -> None:
        self._source = source
        self._names: list[str] = []  # of the first file

    @contextmanager
    def opened(
        self, part: Part, marks: FileMarks, columns: Collection[str]
    ) -> Iterator[tuple[list[str], Batches]]:
        with opened_part(part, marks, columns) as (names, batches):
            self._names = self._names or names
            if set(names) != set(self._names):
                raise DataError(
                    f"{self._source}: {name_of(part.file)} has other columns than the files before it; "
                    "a folder's files must all have the same columns: write them so, or choose the folder of "
                    "one table"
                )
            yield names, batches


def cells_of(path: Source, batch: CanonicalBatch, name: str, levels: Collection[str] = ()) -> Cells:
    try:
        return batch.cells(name, levels)
    except TypeError:
        raise DataError(f"{path}: lists or records in column {name!r}; keep numbers and text only") from None


def require_columns(path: Source, names: Sequence[str], required: Sequence[str], advice: str) -> None:
    if absent := [repr(name) for name in required if name not in names]:
        raise DataError(f"{path} lacks the column{'s' * (len(absent) > 1)} {', '.join(absent)}; {advice}")


@contextmanager
def opened_table(source: Source, marks: FileMarks | None = None) -> Iterator[tuple[list[str], Batches]]:
    """Open a CSV or Parquet file, or a folder of Parquet files; yield its columns and, once, its rows.

    ``marks`` makes numbers plain, and remembers the marks of each column.
    """
    first, *others = parts_of(source)
    reader, marks = PartReader(source), marks or FileMarks()
    with reader.opened(first, marks, ()) as (names, pieces):

        def batches() -> Batches:
            yield from map(marks.plain, pieces)
            for part in others:
                with reader.opened(part, marks, ()) as (_, more):
                    for batch in map(marks.plain, more):
                        yield batch.select([name for name in names if name in batch.schema.names])

        yield names, batches()


@contextmanager
def opened_part(
    part: Part, marks: FileMarks, columns: Collection[str]
) -> Iterator[tuple[list[str], Batches]]:
    """Open one file of a table, or a query; the values that folders state are columns, too."""
    if isinstance(part.file, Query):
        with opened_query(part.file, BATCH_ROWS) as (names, batches):
            whole = list(map(composed, names))
            _refuse_twice(part.file, whole)
            renamed = (batch.rename_columns(whole) for batch in batches)
            read = [name for name in whole if name in columns] or whole
            yield whole, (batch.select(read) for batch in renamed)
        return
    path, suffix = part.file, PurePath(part.file).suffix.lower()
    if suffix not in SUFFIXES:
        raise DataError(f"{path} must end in {' or '.join(SUFFIXES)}, got {suffix!r}; convert the file")
    if not is_address(path) and not Path(path).is_file():
        raise DataError(f"{path} is not a file; check the path")
    try:
        with _opened(path) as handle:
            names, batches = (
                _csv(path, handle, marks, columns) if suffix == ".csv" else _parquet(handle, columns)
            )
            keys = [(composed(name), value) for name, value in part.keys]
            names = [*names, *(name for name, _ in keys)]
            _refuse_twice(path, names)
            yield names, (_with_keys(batch, keys) for batch in batches) if keys else batches
    except pa.ArrowException:
        raise _malformed(path) from None
    except OSError as error:
        reason = f" ({error.strerror})" if error.strerror else ""
        raise DataError(f"{path} cannot be read{reason}; check that it is a {suffix} file") from None


def _refuse_twice(source: Source, names: Sequence[str]) -> None:
    counts = Counter(names)
    if twice := [n for n, name in enumerate(names, 1) if counts[name] > 1]:
        raise DataError(
            f"{source} has columns of the same name at {', '.join(map(str, twice[:5]))}; rename one"
        )


def _with_keys(batch: pa.RecordBatch, keys: Sequence[tuple[str, str | None]]) -> pa.RecordBatch:
    for name, value in keys:
        batch = batch.append_column(name, pa.repeat(pa.scalar(value, pa.string()), batch.num_rows))
    return batch


def n_rows_stated(source: Source) -> int | None:
    """Return how many rows Parquet files say that they have; None where they must be read."""
    with suppress(OSError, pa.ArrowException):  # reading it says what is wrong
        files = (
            []
            if is_address(source) or isinstance(source, Query)
            else [part.file for part in parts_of(source)]
        )
        if files and all(str(file).lower().endswith(".parquet") for file in files):
            return sum(int(pq.read_metadata(file).num_rows) for file in files)
    return None


def _opened(path: Source) -> BinaryIO:
    if not is_address(path):
        return Path(str(path)).open("rb")
    import fsspec

    try:
        return io.BufferedReader(fsspec.open(str(path), "rb").open())
    except Exception as error:  # each file system has its own
        raise DataError(
            f"{path} cannot be read ({type(error).__name__}); check the address and its credentials"
        ) from None


def _malformed(path: Source) -> DataError:
    return DataError(
        f"{path} is not a well-formed {PurePath(str(path)).suffix} file (damaged, rows of different lengths, "
        "or not UTF-8 text with line feeds); correct it"
    )


def _parquet(handle: BinaryIO, columns: Collection[str]) -> tuple[list[str], Batches]:
    file = pq.ParquetFile(
        handle, pre_buffer=False, buffer_size=BUFFER_BYTES, coerce_int96_timestamp_unit="us"
    )
    # The order in which pandas once held the rows is no part of the data.
    names = [name for name in file.schema_arrow.names if not name.startswith("__index_level_")]
    read = [name for name in names if composed(name) in columns] or names
    batches = file.iter_batches(BATCH_ROWS, columns=read, use_threads=False)
    return list(map(composed, names)), (each.rename_columns(list(map(composed, read))) for each in batches)


def _csv(
    path: Source, handle: BinaryIO, marks: FileMarks, columns: Collection[str]
) -> tuple[list[str], Batches]:
    """Return the header and the rows, all cells as text (see `data.formats.canonical`).

    The header says what separates cells, unless the owner does. A first column without a name is an index.
    """
    first = handle.readline()
    try:
        if not (mark := marks.separator or _only_separator(first.decode("utf-8-sig"))):
            raise DataError(
                f"{path} has a header that several marks may separate; declare one of , ; | or tab, e.g. "
                'separator = ";" below [data] (dpcost init --separator)'
            )
        marks.set_separator(mark)
        # A quoted name may go on in the next line.
        lines = (line.decode("utf-8-sig") for line in chain([first], iter(handle.readline, b"")))
        names = list(map(composed, next(csv.reader(lines, delimiter=mark), [])))
        if any("\0" in name for name in names):  # UTF-16
            raise _malformed(path)
    except (UnicodeDecodeError, csv.Error):
        raise _malformed(path) from None
    if not "".join(names).strip() or names[0].lower().startswith("sep="):
        raise DataError(f"{path} must begin with the names of its columns; write them into its first line")
    following: bytes = handle.peek(1)  # type: ignore[attr-defined]
    second = following.split(b"\n")[0].rstrip(b"\r").decode(errors="replace")
    cells = next(csv.reader([second], delimiter=mark), [])
    if len(names) > 1 and (not names[-1] or (len(cells) > len(names) and not cells[-1])):
        raise DataError(f"{path} has a separator at the end of its lines; take it off every line")
    if not names[0] and UNNAMED not in names:
        names[0] = UNNAMED
    if not following:
        return names, iter(())
    read = [name for name in names if name in columns] or names
    batches = arrow_csv.open_csv(
        handle,
        read_options=arrow_csv.ReadOptions(
            column_names=names,
            block_size=max(BLOCK_BYTES, 16 * max(len(first), len(following))),
            use_threads=False,
        ),
        parse_options=arrow_csv.ParseOptions(
            delimiter=mark,
            newlines_in_values=True,
            ignore_empty_lines=len(names) > 1,  # of one column, a blank line is a missing cell
        ),
        convert_options=arrow_csv.ConvertOptions(
            # A column that is not read may hold text in another encoding.
            column_types={name: pa.string() if name in read else pa.binary() for name in names},
            strings_can_be_null=False,
        ),
    )
    return names, (_whole_rows(path, batch, mark).select(read) for batch in batches)


def _whole_rows(path: Source, batch: pa.RecordBatch, mark: str) -> pa.RecordBatch:
    """Return rows; refuse one if two of its lines each hold the separators of a whole row.

    The second of two cells that begin with a quotation mark, in different rows, is read as the end of the
    first. All between them is then one cell.
    """
    contents = [bytes(column.buffers()[2] or b"") for column in batch.columns]
    if not any(end in content for content in contents for end in (b"\r", b"\n")):
        return batch
    has_break = [pc.match_substring_regex(column, r"[\r\n]") for column in batch.columns]
    cells = [column.cast(pa.binary()) for column in batch.filter(reduce(pc.or_, has_break)).columns]
    for row in zip(*(column.to_pylist() for column in cells), strict=True):
        lines = re.split(rb"\r\n?|\n", mark.encode().join(row))
        if sum(line.count(mark.encode()) >= len(row) - 1 for line in lines) > 1:
            raise DataError(
                f"{path} has a quotation mark that may join rows: a cell that begins with it ends in another "
                "line; remove the mark, or convert the file to Parquet"
            )
    return batch


def _only_separator(header: str) -> str:
    """Return the mark that separates the names of a header; "" if that is not clear."""
    outside = "".join(header.split('"')[::2])
    marks = [mark for mark in (",", ";", "\t") if mark in outside]
    return "" if len(marks) > 1 or (not marks and "|" in outside) else (marks or [","])[0]
