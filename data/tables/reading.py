"""Read an analyst's CSV or Parquet file in pieces; its data are private: no message holds a value or a count.

Not even the header is quoted: in a file without one, the first row of data stands there.
"""

import io
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from data.columns import PLAIN, Marks
from data.errors import DataError
from data.formats.canonical import CanonicalBatch, Cells
from data.tables.marks import NumberMarks
from data.tables.sources import SUFFIXES, Part, Source, is_address, parts_of

BLOCK_BYTES = 2**20  # and at least as long as some rows
BATCH_ROWS = 65_536
BUFFER_BYTES = 1 << 14  # of a column of Parquet: less than the processor's cache
UNNAMED = "Unnamed"  # an index: the first column of a CSV file, where it has no name

Watch = Callable[[CanonicalBatch], None]
"""Is shown every piece of a file, with all columns and plain numbers, e.g. to fingerprint it."""

Numbers = dict[str, npt.NDArray[np.float64]]


class TableBatch(CanonicalBatch):
    """Rows of a file with plain numbers, and as the file has them."""

    def __init__(self, rows: pa.RecordBatch, marks: NumberMarks | None = None) -> None:
        plain = rows
        if marks:
            plain = pa.RecordBatch.from_arrays([*map(marks.plain, rows.columns)], schema=rows.schema)
        super().__init__(plain)
        self._marks = marks
        self.as_written = CanonicalBatch(rows) if marks else self

    def plain_texts(self, texts: Sequence[str]) -> list[str]:
        """Return texts of numbers with decimal points, as those of the file have now."""
        return self._marks.plain(pa.array(texts, pa.string())).to_pylist() if self._marks else list(texts)

    def are_unclear(self, name: str) -> bool:
        return bool(self._marks and self._marks.are_unclear(self.as_written.rows.column(name)))


Batches = Iterator[TableBatch]


def cells_of(path: Source, batch: CanonicalBatch, name: str, levels: Collection[str] = ()) -> Cells:
    try:
        return batch.cells(name, levels)
    except TypeError:
        raise DataError(f"{path}: lists or records in column {name!r}; keep numbers and text only") from None


def require_columns(path: Source, names: Sequence[str], wanted: Sequence[str], advice: str) -> None:
    if absent := [repr(name) for name in wanted if name not in names]:
        raise DataError(f"{path} lacks the column {', '.join(absent)}; {advice}")


@contextmanager
def opened_table(source: Source, marks: Marks = PLAIN) -> Iterator[tuple[list[str], Batches]]:
    """Open a CSV or Parquet file, or a folder of Parquet files; yield its columns and, once, its rows."""
    first, *others = parts_of(source)
    with opened_part(first, marks) as (names, pieces):

        def batches() -> Batches:
            yield from pieces
            for part in others:
                with opened_part(part, marks, expected=names) as (_, more):
                    yield from more

        yield names, batches()


@contextmanager
def opened_part(
    part: Part, marks: Marks, columns: Collection[str] = (), expected: Collection[str] = ()
) -> Iterator[tuple[list[str], Batches]]:
    """Open one file of a table; the values that its folders state are columns, too.

    If there are ``columns``, only these are read of a Parquet file. A file whose columns are not the
    ``expected`` ones is refused.
    """
    path, suffix = part.file, PurePath(part.file).suffix.lower()
    if suffix not in SUFFIXES:
        raise DataError(f"{path} must end in {' or '.join(SUFFIXES)}, got {suffix!r}; convert the file")
    if not is_address(path) and not Path(path).is_file():
        raise DataError(f"{path} is not a file; check the path")
    try:
        with _opened(path) as handle:
            names, rows, number_marks = (
                _csv(path, handle, marks) if suffix == ".csv" else _parquet(handle, columns)
            )
            names = [*names, *(name for name, _ in part.keys)]
            counts = Counter(names)
            if twice := [n for n, name in enumerate(names, 1) if counts[name] > 1]:
                raise DataError(
                    f"{path} has columns of the same name at {', '.join(map(str, twice[:5]))}; rename one"
                )
            if expected and set(names) != set(expected):
                raise DataError(
                    f"{path} has other columns than the files before it; a folder's files must all have the "
                    "same columns: write them so, or choose the folder of one table"
                )
            yield names, (TableBatch(_with_keys(each, part), number_marks) for each in rows)
    except pa.ArrowException:
        raise DataError(
            f"{path} is not a well-formed {suffix} file (empty, damaged, rows of different lengths, or not "
            "UTF-8); correct it"
        ) from None
    except OSError as error:
        reason = f" ({error.strerror})" if error.strerror else ""
        raise DataError(f"{path} cannot be read{reason}; check that it is a {suffix} file") from None


def _with_keys(batch: pa.RecordBatch, part: Part) -> pa.RecordBatch:
    for name, value in part.keys:
        batch = batch.append_column(name, pa.repeat(pa.scalar(value, pa.string()), batch.num_rows))
    return batch


def n_rows_stated(source: Source) -> int | None:
    """Return how many rows Parquet files say that they have; None where they must be read."""
    if is_address(source):
        return None
    try:
        files = [part.file for part in parts_of(source)]
        if all(str(file).lower().endswith(".parquet") for file in files):
            return sum(int(pq.read_metadata(file).num_rows) for file in files)
    except (OSError, pa.ArrowException):
        pass  # reading it says what is wrong
    return None


def _opened(path: Source) -> BinaryIO:
    if not is_address(path):
        return Path(path).open("rb")
    import fsspec

    try:
        return io.BufferedReader(fsspec.open(str(path), "rb").open())
    except Exception as error:  # each file system has its own
        raise DataError(
            f"{path} cannot be read ({type(error).__name__}); check the address and its credentials"
        ) from None


Rows = tuple[list[str], Iterator[pa.RecordBatch], NumberMarks | None]


def _parquet(handle: BinaryIO, columns: Collection[str]) -> Rows:
    file = pq.ParquetFile(
        handle, pre_buffer=False, buffer_size=BUFFER_BYTES, coerce_int96_timestamp_unit="us"
    )
    # The order in which pandas once held the rows is no part of the data.
    names = [name for name in file.schema_arrow.names if not name.startswith("__index_level_")]
    read = [name for name in names if name in columns] or names
    return names, file.iter_batches(BATCH_ROWS, columns=read, use_threads=False), None


def _csv(path: Source, handle: BinaryIO, marks: Marks) -> Rows:
    """Return the header and the rows, all cells as text (see `data.formats.canonical`).

    The header says what separates cells, unless the owner does. A first column without a name is an index.
    """
    first = handle.readline()
    separator = marks.separator or _only_separator(first.decode("utf-8-sig", "replace"))
    if not separator:
        raise DataError(
            f"{path} has a header that several marks may separate; declare one of , ; | or tab, e.g. "
            'separator = ";" below [data] (dpcost init --separator)'
        )
    handle.seek(0)
    reader = arrow_csv.open_csv(
        handle,
        read_options=arrow_csv.ReadOptions(block_size=max(BLOCK_BYTES, 16 * len(first)), use_threads=False),
        parse_options=arrow_csv.ParseOptions(
            delimiter=separator,
            newlines_in_values=True,
            ignore_empty_lines=separator.encode() in first,  # of one column, a blank line is a missing cell
        ),
        convert_options=arrow_csv.ConvertOptions(default_column_type=pa.string(), strings_can_be_null=False),
    )
    names = list(reader.schema.names)
    if not names[0] and UNNAMED not in names:
        names[0] = UNNAMED
    is_plain = separator != ";" and marks.decimal in ("", ".") and not marks.thousands
    number_marks = None if is_plain else NumberMarks(marks, separator)
    return names, (batch.rename_columns(names) for batch in reader), number_marks


def _only_separator(header: str) -> str:
    """Return the mark that separates the names of a header; "" if that is not clear."""
    outside = "".join(header.split('"')[::2])
    marks = [mark for mark in (",", ";", "\t") if mark in outside]
    return "" if len(marks) > 1 or (not marks and "|" in outside) else (marks or [","])[0]
