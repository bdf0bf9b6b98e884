"""The identity of data: keyed fingerprints of a table, and exact digests of columns."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from data.errors import ContentRefused, LedgerError
from data.formats.canonical import CanonicalBatch, Cells, comparable, storage_type

VERSION = "2-"
_LANES = 2  # sums of 64 bits each, with keys of their own
_NUMBER, _TEXT_BYTES = np.frombuffer(b"a number", dtype="<u8")[0], 16
Words = list[npt.NDArray[np.uint64]]


class Fingerprinter:
    """Computes the fingerprint of a table that is read piece by piece.

    Read the whole table as its owner has it, not only the columns of one request: it is the dataset that has
    a budget. Memory does not grow with the number of rows. `Ledger.fingerprinter` passes the ledger's key.

    It compares `data.formats.canonical` forms, and numbers in single precision, in any order: that protects
    an honest owner from mistakes. It cannot recognize data whose numbers were altered, however little, nor
    data with another row, column name, unit or notation of dates. ``read`` maps the columns of a
    release to their declared levels. Their digest is exact: a result is replayed for the same bits only.

    ``known`` are fingerprints of which this one must be: other columns, or another number of rows, are
    refused as soon as they are seen.
    """

    def __init__(
        self,
        key: bytes,
        *,
        read: Mapping[str, Collection[str]] | None = None,
        known: Collection[str] = (),
        dataset: str = "",
    ) -> None:
        self._key, self._read, self._known, self._dataset = key, dict(read or {}), known, dataset
        self._names: list[str] = []
        self.n_rows = 0
        # Sums of keyed hashes are equal for equal rows in any order, and need no sorting.
        self._rounded = np.zeros(_LANES, dtype=np.uint64)
        self._exact = np.zeros(_LANES, dtype=np.uint64)

    def add(self, rows: CanonicalBatch | pa.RecordBatch) -> None:
        """Read more rows; refuse columns of one name, of lists or of records."""
        cells_of = rows if isinstance(rows, CanonicalBatch) else CanonicalBatch(rows)
        batch = cells_of.rows
        self._names = sorted(batch.schema.names)
        if len(set(self._names)) != len(self._names):
            raise LedgerError("the table's columns must have different names; rename them")
        if not self.n_rows:
            self.expect(None)
        rounded: Words = []
        exact: Words = []
        # Lists and records have no canonical form; only a release that reads them is refused.
        nested = {each.name for each in batch.schema if pa.types.is_nested(storage_type(each.type))}
        compared = [name for name in self._names if name in self._read or name not in nested] or self._names
        for name in compared:
            cells = _cells(cells_of, name)
            rounded += _words(comparable(_with_truths(cells)), cells)
            if name in self._read:
                declared = cells_of.cells(name, self._read[name])
                exact += [
                    *_words(declared.numbers + 0.0, declared),
                    _lost_digits(batch.column(name), declared),
                ]
        self._rounded += self._row_hashes(rounded, b"rows")
        self._exact += self._row_hashes(exact, b"exact")
        self.n_rows += batch.num_rows

    def expect(self, n_rows: int | None) -> None:
        """Refuse the table if columns, or a number of rows, are those of none that is known."""
        parts = self._part(b"columns", self._names) if self._names else ""
        rows = "" if n_rows is None else self._part(b"n_rows", n_rows)
        alike = [each for each in self._known if parts in ("", each[2:18]) and rows in ("", each[18:34])]
        if self._known and all(each.startswith(VERSION) for each in self._known) and not alike:
            raise other_data(self._dataset)

    def fingerprint(self) -> str:
        """Return the fingerprint of the rows read so far, in any order of rows and columns."""
        if not self.n_rows or not self._names:
            raise LedgerError(
                f"the table has {self.n_rows} rows and {len(self._names)} columns and needs one of each; "
                "check the file"
            )
        return (
            VERSION
            + self._part(b"columns", self._names)
            + self._part(b"n_rows", self.n_rows)
            + self._part(b"rows", self._rounded.tolist(), 16)
        )

    def exact(self, *, of_table: bool = False) -> str:
        """Return the digest of the columns that a release reads, in any order of rows.

        ``of_table``: without names of computed columns, which depend on how a formula is spelled.
        """
        names = [name for name in sorted(self._read) if not of_table or name in self._names]
        read = {name: sorted(self._read[name]) for name in names}
        return self._part(b"exact", [read, self.n_rows, self._exact.tolist()], 32)

    def _part(self, use: bytes, content: object, n_bytes: int = 8) -> str:
        return hmac.digest(self._key, use + json.dumps(content).encode(), "sha256").hex()[: 2 * n_bytes]

    def _row_hashes(self, words: Words, use: bytes) -> npt.NDArray[np.uint64]:
        """Return the sum over rows of a keyed hash of each, (lanes,), made for all rows at once.

        The key is secret and the sum goes through another one. Therefore mixing by products suffices.
        """
        total = np.zeros(_LANES, dtype=np.uint64)
        for lane in range(_LANES):
            secret = hmac.digest(self._key, use + bytes([lane]), "sha256")
            seed, *odd = np.frombuffer(secret, dtype="<u8") | np.uint64(1)
            state = np.full(len(words[0]) if words else 0, seed)
            for word in words:
                state ^= word
                state *= odd[0]
                state ^= state >> np.uint64(32)
            for factor in odd[1:]:
                state *= factor
                state ^= state >> np.uint64(29)
            total[lane] = state.sum(dtype=np.uint64)
        return total


def other_data(dataset: str) -> ContentRefused:
    return ContentRefused(
        f"the data are not those that {dataset!r} was charged for so far; pass those. If these are "
        "data of other people, open a dataset of another name. If they belong to the same people and share "
        "the budget, add --new-content to dpcost release"
    )


def _cells(batch: CanonicalBatch, name: str) -> Cells:
    try:
        return batch.cells(name)
    except TypeError:
        raise LedgerError(
            f"column {name!r} holds lists or other values that cannot be compared; leave it out of the file"
        ) from None


def _with_truths(cells: Cells) -> npt.NDArray[np.float64]:
    """Return the numbers of a column; some programs write truth values as numbers."""
    numbers = cells.numbers
    for i, value in enumerate(cells.values):
        if value in ("true", "false"):
            numbers = np.where(cells.texts == i, float(value == "true"), numbers)
    return numbers


def _words(numbers: npt.NDArray[np.float64], cells: Cells) -> Words:
    """Return two words for each cell of a column, equal only for equal cells."""
    are_texts = (cells.texts >= 0) & np.isnan(numbers) if cells.values else np.zeros(0, dtype=bool)
    are_numbers = ~np.isnan(numbers)
    first = np.where(are_numbers, numbers, 0.0).view(np.uint64)
    second = np.where(are_numbers, _NUMBER, np.uint64(0))
    if are_texts.any():
        known = b"".join(hashlib.blake2b(v.encode(), digest_size=_TEXT_BYTES).digest() for v in cells.values)
        of_values = np.frombuffer(known, dtype="<u8").reshape(-1, 2)[cells.texts]
        first, second = (np.where(are_texts, of_values[:, k], word) for k, word in enumerate((first, second)))
    return [first, second]


def _lost_digits(column: pa.Array, cells: Cells) -> npt.NDArray[np.uint64]:
    """Return a word for the digits of whole numbers that a double does not hold: users' ids may have more."""
    if pa.types.is_integer(column.type):
        return np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64))
    is_small = np.abs(cells.numbers) < 2**53  # not where there is no number
    if pa.types.is_floating(column.type) or (is_small | np.isnan(cells.numbers)).all():
        return np.where(is_small, cells.numbers, 0.0).astype(np.int64).astype(np.uint64)
    of_value = {value: _whole(value) for value in set(column.to_pylist())}
    return np.array([of_value[value] for value in column.to_pylist()], dtype=np.uint64)


def _whole(value: object) -> int:
    try:
        return int(str(value)) % 2**64
    except ValueError:
        return 0
