"""Rows of a wide Parquet file, one row group after another: for designs that do not fit into memory."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from data.data_errors import DataError

Block = npt.NDArray[np.float32]


def row_blocks(path: Path, columns: Sequence[str]) -> Callable[[], Iterator[Block]]:
    """Return what reads some columns of a file from its beginning, as blocks of rows (m, d) in float32.

    It can be called again and again, and is what :class:`dpalgos.Sample` takes in the place of an array. At
    most one row group is in memory at a time.

    Parameters
    ----------
    path : Path
    columns : sequence of str
        In the order of the design's columns.

    Raises
    ------
    DataError
        If a column is not there.
    """
    names = set(pq.ParquetFile(path).schema_arrow.names)
    for name in columns:
        if name not in names:
            raise DataError(f"columns must be columns of {path.name}, got {name!r}")

    def read() -> Iterator[Block]:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for group in range(file.num_row_groups):
                yield _block(file.read_row_group(group, columns=list(columns), use_threads=False), columns)

    return read


def _block(table: pa.Table, columns: Sequence[str]) -> Block:
    block = np.empty((table.num_rows, len(columns)), dtype=np.float32)
    for j, name in enumerate(columns):
        block[:, j] = table.column(name).to_numpy()
    return block
