"""Which data these are: keyed fingerprints of a table's content."""

from __future__ import annotations

import hashlib
import hmac
import json
import numbers
from dataclasses import dataclass
from typing import TYPE_CHECKING

from data.ledger.ledger_errors import LedgerError

if TYPE_CHECKING:  # imported when needed: most uses of the ledger see no data, and pandas takes a second
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

CHUNK_BYTES = 64 * 2**20
TEXT_BYTES = 16
NUMBER_BYTES = 8


@dataclass(frozen=True)
class Fingerprint:
    """What the ledger keeps of a table.

    Attributes
    ----------
    content : str
        The same for the same rows in any order, with the columns in any order; 64 hexadecimal digits.
    order : str
        The same only if the rows stand in the same order, too.
    """

    content: str
    order: str


def fingerprint(frame: pd.DataFrame, key: bytes) -> Fingerprint:
    """Return what tells this table from others.

    Pass the whole table as its owner has it, not only the columns of one request: it is the dataset that has
    a budget.

    It sees through a renamed file, sorted rows, moved columns and another file format or number type.
    It does *not* see that data are related: a changed cell, a dropped or added row, a subset, a renamed
    column or a change of units is other content. Who asks for a second budget for such data spends more
    than the first one allows, and the ledger cannot know; the owner is responsible.

    Parameters
    ----------
    frame : pandas.DataFrame
        At least one row; columns with different names. Its index is no part of the content.
    key : bytes
        Without it nobody can test guesses about the data against the fingerprint; `Ledger.fingerprint`
        passes the ledger's.

    Raises
    ------
    LedgerError
        If the table is empty, or has column names or cells that cannot be compared.
    """
    names = sorted(frame.columns, key=str)
    if not frame.shape[0] or not names:
        raise LedgerError(f"the table has shape {frame.shape} and needs a row and a column; check the file")
    if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise LedgerError("the table's columns must have different names that are text; rename them")
    frame = frame[names]
    are_numbers = [_is_numeric(frame[name]) for name in names]
    header = json.dumps(list(zip(names, are_numbers, strict=True))).encode()

    row_bytes = sum(NUMBER_BYTES if number else TEXT_BYTES for number in are_numbers)
    step = max(1, CHUNK_BYTES // row_bytes)
    digests: list[bytes] = []
    for start in range(0, len(frame), step):
        cells = memoryview(_cells(frame.iloc[start : start + step], are_numbers).tobytes())
        digests += (
            hashlib.blake2b(cells[at : at + row_bytes], key=key, digest_size=32).digest()
            for at in range(0, len(cells), row_bytes)
        )
    order = hmac.digest(key, b"order" + header + b"".join(digests), "sha256")
    digests.sort()
    content = hmac.digest(key, b"content" + header + b"".join(digests), "sha256")
    return Fingerprint(content.hex(), order.hex())


def _is_numeric(column: pd.Series) -> bool:
    """Say whether every value of the column is exactly a float, so that files agree on it."""
    import numpy as np
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_complex_dtype(column):
        return False
    if not pd.api.types.is_integer_dtype(column):
        return True
    values = column.dropna().to_numpy()
    return not values.size or bool(np.max(values) <= 2**53 and np.min(values) >= -(2**53))


def _cells(frame: pd.DataFrame, are_numbers: list[bool]) -> npt.NDArray[np.uint8]:
    """Return a row of bytes for each row, equal only for equal rows."""
    import numpy as np

    if all(are_numbers):
        return _number_bytes(frame.to_numpy(dtype=np.float64, na_value=np.nan))
    blocks = [
        _number_bytes(frame.iloc[:, [i]].to_numpy(dtype=np.float64, na_value=np.nan))
        if number
        else _text_bytes(frame.iloc[:, i])
        for i, number in enumerate(are_numbers)
    ]
    return np.hstack(blocks)


def _number_bytes(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    import numpy as np

    values = values + 0.0  # a copy, in which -0 has become 0
    values[np.isnan(values)] = np.nan  # one bit pattern of many
    return np.ascontiguousarray(values, dtype="<f8").view(np.uint8)


def _text_bytes(column: pd.Series) -> npt.NDArray[np.uint8]:
    import numpy as np
    import pandas as pd

    try:
        codes, values = pd.factorize(column.astype(object))
    except TypeError:
        raise LedgerError(
            f"column {column.name!r} holds lists or other values that cannot be compared; "
            "leave it out of the file"
        ) from None
    known = [hashlib.blake2b(_text(value), digest_size=TEXT_BYTES).digest() for value in values]
    missing = bytes(TEXT_BYTES)  # the code of a missing value is -1: the last row
    table = np.frombuffer(b"".join([*known, missing]), dtype=np.uint8).reshape(-1, TEXT_BYTES)
    return table[codes]


def _text(value: object) -> bytes:
    if isinstance(value, str):
        return b"text " + value.encode("utf-8", "surrogatepass")
    if isinstance(value, numbers.Real):
        number = int(value) if isinstance(value, numbers.Integral) else float(value)
        return f"number {float(number) if abs(number) <= 2**53 else number}".encode()
    return f"{type(value).__name__} {value}".encode("utf-8", "surrogatepass")
