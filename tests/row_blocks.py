"""Rows of a Parquet file in pieces, as a library's user may stream them."""

import pyarrow.parquet as pq

from data.tables.reading import BUFFER_BYTES
from data.tables.streams import read_ahead


class RowBlocks:
    """Yields blocks of rows of some columns of a file, or pairs of rows and responses, on each call."""

    def __init__(self, path, columns, response=""):
        self._path, self._response = path, response
        self._read_columns = [*columns, response] if response else list(columns)
        self.n_rows = pq.read_metadata(path).num_rows

    def __call__(self):
        return read_ahead(self._pieces())

    def _pieces(self):
        size = max(1024, 1 << ((1 << 18) // len(self._read_columns)).bit_length() - 1)
        with pq.ParquetFile(self._path, pre_buffer=False, buffer_size=BUFFER_BYTES) as file:
            for batch in file.iter_batches(size, columns=self._read_columns, use_threads=False):
                columns = {
                    name: batch.column(name).to_numpy(zero_copy_only=False) for name in self._read_columns
                }
                yield (columns, columns.pop(self._response)) if self._response else columns
