"""A table that is read from its files in every pass, and not held in memory unless it is small."""

import hashlib
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import numpy.typing as npt

from data.errors import DataError, StoreError
from data.formats.row_groups import read_ahead
from data.store.folders import home, private_folder
from data.tables.reading import Numbers, PartReader, Watch
from data.tables.sources import Part, Source, parts_of

HELD_NUMBERS = 2**22  # 32 MiB: a larger table is streamed
SPARE_BYTES = 10**9  # that stay free on the disk of the home


class StreamedTable:
    """Numbers of a table's files, for :class:`dpalgos.rows.streams.StreamedRows` or `PartitionedRows`.

    `check` reads all files once, and refuses their faults. Files that come into a folder later are no part of
    the table. ``reader`` makes a reader for each pass; with a ``response``, rows come in pairs with it.
    """

    def __init__(self, source: Source, reader: Callable[[], PartReader], response: str = "") -> None:
        self.source, self._reader, self._response = source, reader, response
        self.partitions: list[tuple[StreamedPart, int]] = []
        self._held: list[Numbers] | None = []

    def check(self, reader: PartReader, watch: Watch, most: float = 0) -> None:
        """Read all files once; hold at most so many numbers in memory."""
        size = 0
        for file in parts_of(self.source):
            part = StreamedPart(file, self._reader, self._response)
            for piece in part.check(reader, watch):
                size += sum(map(len, piece.values()))
                if size > most:
                    self._held = None
                if self._held is not None:
                    self._held.append(piece)
            if part.n_rows:
                self.partitions.append((part, part.n_rows))
        reader.refuse_faults()

    @property
    def is_held(self) -> bool:
        return self._held is not None

    def in_memory(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64] | None]:
        """Return the columns (n, d), and the responses (n,) if there are any."""
        pieces = self._held or [piece for part, _ in self.partitions for piece in part.pieces()]
        table = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
        y = table.pop(self._response) if self._response else None
        return np.column_stack(list(table.values())), y


class StreamedPart:
    """Numbers of one file, given from its beginning whenever this object is called.

    The numbers of the first pass are kept in a private file. If there is no room for it, or on another
    machine, the table's file is read again. It has to give the same numbers: they are compared by a hash of
    each column. (Inode, size and time of change can be those of another file.)
    """

    def __init__(self, part: Part, reader: Callable[[], PartReader], response: str) -> None:
        self._part, self._reader, self._response = part, reader, response
        self._digests: list[bytes] = []
        self._spool: _Spool | None = None
        self.n_rows = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_spool": None}

    def check(self, reader: PartReader, watch: Watch) -> Iterator[Numbers]:
        """Yield the numbers in a first pass, which every later one must give again."""
        digests: dict[str, Any] = defaultdict(hashlib.blake2b)
        self._spool = _Spool()
        for piece in reader.pieces(self._part, watch):
            self.n_rows += len(next(iter(piece.values())))
            if self._spool and not self._spool.write(piece):
                self._spool = None
            _update(digests, piece)
            yield piece
        self._digests = [digest.digest() for digest in digests.values()]

    def __call__(self) -> Iterator[Any]:
        """Yield columns (m,) by their names, or pairs of columns and responses; refuse changed numbers."""
        return read_ahead(self._blocks())

    def _blocks(self) -> Iterator[Any]:
        for piece in self.pieces():
            yield (piece, piece.pop(self._response)) if self._response else piece

    def pieces(self) -> Iterator[Numbers]:
        if self._spool:
            yield from self._spool.pieces()
            return
        reader, digests = self._reader(), defaultdict[str, Any](hashlib.blake2b)
        try:
            for piece in reader.pieces(self._part):
                _update(digests, piece)
                yield piece
        except DataError:  # a column is gone, or holds lists now
            raise self._changed() from None
        if [digest.digest() for digest in digests.values()] != self._digests:
            raise self._changed()

    def _changed(self) -> DataError:
        return DataError(
            f"{self._part.file} changed while it was read, so nothing is released of it; try again when it "
            "is at rest"
        )


def _update(digests: dict[str, Any], piece: Numbers) -> None:
    for name, values in piece.items():
        digests[name].update(np.ascontiguousarray(values))


class _Spool:
    """Numbers in a private file that has no name, and ends with the process."""

    def __init__(self) -> None:
        try:
            self._folder = private_folder(home())
            self._file = TemporaryFile(dir=self._folder)  # noqa: SIM115 (as long as the table)
        except OSError as error:
            raise StoreError(
                f"the folder {home()} must be writable, since numbers of a table are kept there while it is "
                f"read ({error.strerror}); allow it, or set DPCOST_HOME to another folder"
            ) from None
        self._names: list[str] = []
        self._lengths: list[int] = []

    def write(self, piece: Numbers) -> bool:
        """Append numbers, and return whether there was room."""
        block = b"".join(values.tobytes() for values in piece.values())
        if shutil.disk_usage(self._folder).free < len(block) + SPARE_BYTES:
            return False
        self._file.write(block)
        self._names = list(piece)
        self._lengths.append(len(block) // 8 // len(piece))
        return True

    def pieces(self) -> Iterator[Numbers]:
        self._file.flush()
        start, width = 0, len(self._names)
        for length in self._lengths:
            block = os.pread(self._file.fileno(), 8 * length * width, start)
            start += len(block)
            columns = np.frombuffer(block).reshape(width, length)
            yield dict(zip(self._names, columns, strict=True))
