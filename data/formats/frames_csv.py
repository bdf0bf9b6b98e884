"""Wide tables of numbers as text, read as a stream; faults are named by row and column, never by value."""

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv

from data.errors import CorruptSource
from data.formats.unpacking import LINE_BYTES, read_line

PIECE_BYTES = 1 << 23

Matrix = npt.NDArray[np.float32]

_MISSING = ["", "NaN", "nan"]


def read_csv(stream: BinaryIO, names: tuple[str, ...], *, file: str) -> Iterator[Matrix]:
    """Read numbers as float32, piece by piece.

    Parameters
    ----------
    stream : binary file
        Comma-separated, with a header; blanks around names and numbers are allowed.
    names : tuple of str
        What the header must be.
    file : str
        What messages call the file.

    Yields
    ------
    (columns, rows) array
        NaN where a field is blank.

    Raises
    ------
    CorruptSource
        The header is another one, a row is too long or too short, or a field is not a number: row (the first
        after the header is 1) and column are named.
    """
    _check_header(read_line(stream, file), names, file)
    convert = pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.float32()), null_values=_MISSING)
    read = pa_csv.ReadOptions(column_names=list(names), block_size=PIECE_BYTES)
    rows = 0
    for piece in _whole_lines(stream, file):
        try:
            table = pa_csv.read_csv(pa.BufferReader(piece), read, convert_options=convert)
        except pa.ArrowInvalid:
            raise _fault(piece, rows, names, file) from None
        block = np.empty((len(names), len(table)), dtype=np.float32)
        for row, column in zip(block, table.itercolumns(), strict=True):
            row[:] = column.to_numpy()
        rows += len(table)
        yield block
    if not rows:
        raise CorruptSource(f"{file} has no rows; get the file again")


def _check_header(line: bytes, names: tuple[str, ...], file: str) -> None:
    found = [name.strip().strip('"').strip() for name in line.decode("utf-8-sig", "replace").split(",")]
    if len(found) != len(names):
        raise CorruptSource(
            f"{file} has another layout: {len(found):,} columns, {len(names):,} are expected; "
            "get the published file"
        )
    for place, (name, expected) in enumerate(zip(found, names, strict=True), start=1):
        if name != expected:
            # What stands there may be data, if the file has no header.
            raise CorruptSource(
                f"{file} has another layout: column {place:,} is not headed {expected!r}; "
                "get the published file"
            )


def _whole_lines(stream: BinaryIO, file: str) -> Iterator[bytes]:
    rest = b""
    while piece := stream.read(PIECE_BYTES):
        end = piece.rfind(b"\n") + 1
        if whole := rest + piece[:end] if end else b"":
            rest = piece[end:]
            yield whole
        else:
            rest += piece
            if len(rest) > LINE_BYTES:
                raise CorruptSource(
                    f"{file} has a line of more than {LINE_BYTES:,} bytes; get the file again"
                )
    if rest.strip():
        yield rest


def _fault(piece: bytes, rows: int, names: tuple[str, ...], file: str) -> CorruptSource:
    """Find the first faulty field of a piece that follows so many rows."""
    for line in piece.decode("utf-8", "replace").splitlines():
        if not line.strip():
            continue
        rows += 1
        fields = line.split(",")
        if len(fields) != len(names):
            return CorruptSource(
                f"{file}: row {rows:,} has {len(fields):,} fields, {len(names):,} are expected; "
                "get the file again"
            )
        for name, field in zip(names, fields, strict=True):
            if field.strip() not in _MISSING and not _is_number(field):
                where = f"row {rows:,}, column {name!r}"
                return CorruptSource(f"{file}: {where} holds text instead of a number; get the file again")
    return CorruptSource(f"{file} cannot be read as numbers after row {rows:,}; get the file again")


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
