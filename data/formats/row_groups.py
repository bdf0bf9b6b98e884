"""Rows of a Parquet file in pieces, for designs that do not fit into memory."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from data.errors import DataError

# Numbers per piece, and the minimum number of rows: Python's overhead per piece is then negligible.
_PIECE_NUMBERS, _FEWEST_ROWS = 1 << 18, 1024
BUFFER_BYTES = 1 << 14  # of a column that is read: less than the processor's cache

Columns = dict[str, npt.NDArray[np.generic]]
T = TypeVar("T")


class RowBlocks:
    """A reader that yields blocks of rows of some columns of a file, from the start on each call.

    :class:`dpalgos.Sample` takes it in place of an array. If there is a second core, a thread reads and
    decodes the next piece during the computation with the current one. Two pieces are in memory at a time.
    With a response column, each block is a pair of rows and responses.
    """

    def __init__(self, path: Path, columns: Sequence[str], response: str = "") -> None:
        self._path, self._response = path, response
        self._read_columns = [*columns, *filter(None, [response])]
        try:
            self._footer = pq.read_metadata(path)
        except (pa.ArrowInvalid, OSError):
            raise DataError(f"path must be one Parquet file, got {path}; convert the table first") from None
        self.n_rows = self._footer.num_rows
        for name in self._read_columns:
            if name not in self._footer.schema.names or self._read_columns.count(name) > 1:
                raise DataError(f"columns must be columns of {path.name}, each once, got {name!r}")

    def __call__(self) -> Iterator[Columns | tuple[Columns, npt.NDArray[np.generic]]]:
        """Yield columns (m,) by name, or pairs of columns and responses (m,), without a copy."""
        return read_ahead(self._pieces())

    def _pieces(self) -> Iterator[Columns | tuple[Columns, npt.NDArray[np.generic]]]:
        size = max(_FEWEST_ROWS, 1 << (_PIECE_NUMBERS // len(self._read_columns)).bit_length() - 1)
        with pq.ParquetFile(
            self._path, metadata=self._footer, pre_buffer=False, buffer_size=BUFFER_BYTES
        ) as file:
            for batch in file.iter_batches(size, columns=self._read_columns, use_threads=False):
                columns = {
                    name: batch.column(name).to_numpy(zero_copy_only=False) for name in self._read_columns
                }
                yield (columns, columns.pop(self._response)) if self._response else columns


def read_ahead(pieces: Iterator[T]) -> Iterator[T]:
    """Yield pieces; if there is a second core, a thread reads the next piece at the same time."""
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_cores < 2:
        yield from pieces
        return
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as pool:
        coming = pool.submit(next, pieces, end)
        while (piece := coming.result()) is not end:
            coming = pool.submit(next, pieces, end)
            yield piece  # type: ignore[misc]
