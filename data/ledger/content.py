"""Which data these are: keyed fingerprints of a table's content."""

from __future__ import annotations

import hashlib
import hmac
import json

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from data.errors import LedgerError
from data.formats.canonical import canonical_cells, comparable

CELL_BYTES = 16
ROW_BYTES = 32


class Fingerprinter:
    """Computes the fingerprint of a table that is read piece by piece.

    Read the whole table as its owner has it, not only the columns of one request: it is the dataset that has
    a budget. Memory does not grow with the number of rows. `Ledger.fingerprinter` passes the ledger's key.

    It compares `data.formats.canonical` forms, and numbers in single precision, in any order: that protects
    an honest owner from mistakes. It cannot recognize data whose numbers were altered, however little, nor
    data with another row, column name, unit or notation of dates.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._names: list[str] = []
        self.n_rows = 0
        self._sum = 0  # of keyed hashes: it is equal for equal rows in any order, and needs no sorting

    def add(self, batch: pa.RecordBatch) -> None:
        """Read more rows; refuse columns of one name, of lists or of records."""
        self._names = sorted(batch.schema.names)
        if len(set(self._names)) != len(self._names):
            raise LedgerError("the table's columns must have different names; rename them")
        cells = memoryview(np.hstack([_cell_bytes(batch, name) for name in self._names]).tobytes())
        row_bytes = CELL_BYTES * len(self._names)
        digests = b"".join(
            hashlib.blake2b(cells[at : at + row_bytes], key=self._key, digest_size=ROW_BYTES).digest()
            for at in range(0, len(cells), row_bytes)
        )
        words = np.frombuffer(digests, dtype="<u4").reshape(-1, ROW_BYTES // 4).sum(axis=0, dtype=np.uint64)
        self._sum += sum(int(word) << (32 * i) for i, word in enumerate(words))
        self.n_rows += batch.num_rows

    def fingerprint(self) -> str:
        """Return the fingerprint of the rows read so far, in any order of rows and columns."""
        if not self.n_rows or not self._names:
            raise LedgerError(
                f"the table has {self.n_rows} rows and {len(self._names)} columns and needs one of each; "
                "check the file"
            )
        rows = (self._sum % 2 ** (8 * ROW_BYTES)).to_bytes(ROW_BYTES, "little")
        table = json.dumps(self._names).encode() + self.n_rows.to_bytes(8, "little") + rows
        return hmac.digest(self._key, b"content" + table, "sha256").hex()


def _cell_bytes(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.uint8]:
    """Return a row of bytes for each cell of a column, equal only for equal cells."""
    try:
        cells = canonical_cells(batch.column(name))
    except TypeError:
        raise LedgerError(
            f"column {name!r} holds lists or other values that cannot be compared; leave it out of the file"
        ) from None
    numbers = comparable(cells.numbers)
    for i, value in enumerate(cells.values):  # some programs write truth values as numbers
        if value in ("true", "false"):
            numbers[cells.texts == i] = value == "true"
    cell_bytes = np.zeros((len(numbers), CELL_BYTES), dtype=np.uint8)
    are_numbers = ~np.isnan(numbers)
    cell_bytes[are_numbers, :8] = numbers[are_numbers].astype("<f8").view(np.uint8).reshape(-1, 8)
    cell_bytes[are_numbers, 8:] = np.frombuffer(b"a number", dtype=np.uint8)
    are_texts = (cells.texts >= 0) & ~are_numbers
    if are_texts.any():
        known = b"".join(hashlib.blake2b(v.encode(), digest_size=CELL_BYTES).digest() for v in cells.values)
        of_values = np.frombuffer(known, dtype=np.uint8).reshape(-1, CELL_BYTES)
        cell_bytes[are_texts] = of_values[cells.texts[are_texts]]
    return cell_bytes
