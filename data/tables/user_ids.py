"""The users that the rows of a table belong to, as numbers, however the file writes their ids.

A user is a data subject. No message holds an id, or says how many rows or users are concerned.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from data.errors import DataError
from data.tables.reading import cells_of, require_columns

_LARGEST_ID = 2.0**53  # from it on two whole numbers may be one in double precision


class UserIds:
    """The ids of users, read piece by piece and turned into numbers 0, 1, …; no message holds one.

    Ids are compared in their canonical form (:mod:`data.formats.canonical`): ``7``, ``7.0`` and ``007`` are
    one user, and so is a name in either Unicode form: parts of a user's rows must not be protected alone.
    ``dpalgos.estimate`` applies the same rule to the ids of an array.
    """

    def __init__(self, path: Path, column: str) -> None:
        self._path, self._column = path, column
        self._pieces: list[npt.NDArray[np.float64]] = []
        self._texts: dict[str, int] = {}
        self._has_numbers = self._has_missing = self._has_odd = False

    def add(self, batch: pa.RecordBatch) -> None:
        require_columns(self._path, batch.schema.names, [self._column], "correct its name")
        cells = cells_of(self._path, batch, self._column, repr(self._column))
        known = [self._texts.setdefault(text, len(self._texts)) for text in cells.values]
        are_texts = cells.texts >= 0
        piece = cells.numbers.copy()
        piece[are_texts] = np.array([*known, 0])[cells.texts[are_texts]]
        self._pieces.append(piece)
        numbers = cells.numbers[~are_texts & ~cells.missing]
        self._has_missing |= bool(cells.missing.any())
        self._has_numbers |= bool(len(numbers))
        self._has_odd |= bool(((np.abs(numbers) >= _LARGEST_ID) | (numbers != np.rint(numbers))).any())

    def codes(self) -> npt.NDArray[np.int64]:
        """Return an integer code per row for the user it belongs to, shape (n,).

        Missing ids, and numbers mixed with text, are refused: one user might stand there under two ids.
        """
        where = f"{self._path}: the column of user ids {self._column!r}"
        if self._has_missing:
            raise DataError(
                f"{where} has rows without an id; give each row its user's id, or take those rows out of the "
                "file"
            )
        if self._has_numbers and self._texts:
            raise DataError(
                f"{where} mixes numbers with text, so that a user might have two ids; write all ids one way, "
                "e.g. with a letter before each"
            )
        if self._has_odd:
            raise DataError(
                f"{where} has fractions, or numbers from 2^53 on; ids must be whole numbers or text, so "
                "write e.g. a letter before each"
            )
        ids = np.concatenate([np.zeros(0), *self._pieces])
        return np.asarray(np.unique(ids, return_inverse=True)[1], dtype=np.int64)

    def names(self) -> list[str]:
        """Return the id of each row as canonical text, the same in every file."""
        self.codes()  # refuses what has none
        ids, texts = np.concatenate(self._pieces), list(self._texts)
        return [texts[int(each)] for each in ids] if texts else [f"{each:.0f}" for each in ids]
