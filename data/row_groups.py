"""Rows of a Parquet file, one piece after another: for designs that do not fit into memory."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from data.data_errors import DataError

# Numbers of a piece, and the fewest rows: pieces are long enough that Python does not count.
_PIECE_NUMBERS, _FEWEST_ROWS = 1 << 18, 1024
BUFFER_BYTES = 1 << 20  # of a column that is read: less than a whole row group of it

Block = npt.NDArray[np.floating]
T = TypeVar("T")


class RowBlocks:
    """What reads some columns of a file from its beginning, as blocks of rows, whenever it is called.

    It is what :class:`dpalgos.Sample` takes in the place of an array. The next piece is read and decoded in a
    thread while the present one is computed with; two pieces are in memory at a time.

    Parameters
    ----------
    path : Path
    columns : sequence of str
        In the order of the design's columns.
    response : str
        The column of responses, which come in pairs with the rows; empty if there is none.

    Attributes
    ----------
    n_rows : int

    Raises
    ------
    DataError
        If a column is not there.
    """

    def __init__(self, path: Path, columns: Sequence[str], response: str = "") -> None:
        self._path, self._columns, self._response = path, list(columns), response
        self._read_columns = [*columns, response] if response else list(columns)
        with pq.ParquetFile(path, pre_buffer=False) as file:
            schema, self.n_rows = file.schema_arrow, file.metadata.num_rows
        for name in self._read_columns:
            if name not in schema.names:
                raise DataError(f"columns must be columns of {path.name}, got {name!r}")
        single = all(schema.field(name).type == pa.float32() for name in self._read_columns)
        self._dtype = np.dtype(np.float32 if single else np.float64)

    def __call__(self) -> Iterator[Block | tuple[Block, Block]]:
        """Yield blocks (m, d), or pairs of a block and responses (m,), each valid until the next one."""
        return read_ahead(self._blocks())

    def _blocks(self) -> Iterator[Block | tuple[Block, Block]]:
        n_columns = len(self._read_columns)
        size = max(_FEWEST_ROWS, 1 << (_PIECE_NUMBERS // n_columns).bit_length() - 1)
        # One is filled while the other is computed with.
        buffers = cycle([np.empty((size, n_columns), dtype=self._dtype, order="F") for _ in range(2)])
        with pq.ParquetFile(self._path, pre_buffer=False, buffer_size=BUFFER_BYTES) as file:
            for batch in file.iter_batches(size, columns=self._read_columns, use_threads=False):
                block = next(buffers)[: batch.num_rows]
                for j, name in enumerate(self._read_columns):
                    block[:, j] = batch.column(name).to_numpy(zero_copy_only=False)
                yield (block[:, :-1], block[:, -1]) if self._response else block


def read_ahead(pieces: Iterator[T]) -> Iterator[T]:
    """Yield pieces; while one is used, the next is made in a thread."""
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as pool:
        coming = pool.submit(next, pieces, end)
        while (piece := coming.result()) is not end:
            coming = pool.submit(next, pieces, end)
            yield piece  # type: ignore[misc]
