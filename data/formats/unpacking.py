"""Limits on the unpacked size of compressed files."""

import gzip
import zipfile
from pathlib import Path
from typing import IO

from data.errors import CorruptSource

WHOLE_BYTES = 2**28  # of what is read into memory in one piece
STREAM_BYTES = 2**34  # of what is read piece by piece
LINE_BYTES = 2**26
_CHUNK_BYTES = 2**20


def read_whole(stream: IO[bytes] | gzip.GzipFile, file: str) -> bytes:
    """Return all that a stream holds.

    Raises
    ------
    CorruptSource
        It holds more than `WHOLE_BYTES`.
    """
    content = stream.read(WHOLE_BYTES + 1)
    if len(content) > WHOLE_BYTES:
        raise CorruptSource(_too_large(file, "more", WHOLE_BYTES))
    return content


def read_line(stream: IO[bytes] | gzip.GzipFile, file: str) -> bytes:
    """Return the next line of a stream, empty at its end.

    Raises
    ------
    CorruptSource
        The line is longer than `LINE_BYTES`.
    """
    line = stream.readline(LINE_BYTES + 1)
    if len(line) > LINE_BYTES:
        raise CorruptSource(_too_large(file, "a line of more", LINE_BYTES))
    return line


def check_archive(path: Path) -> str:
    """Unpack a zip or gzip file without storing it and return a description of its fault, or ``""``.

    Raises what `zipfile` and `gzip` do about a damaged one; any other file passes.
    """
    with open(path, "rb") as handle:
        start = handle.read(2)
    if start == b"PK":
        with zipfile.ZipFile(path) as opened_zip:
            size = sum(info.file_size for info in opened_zip.infolist())
            if size <= STREAM_BYTES:  # no member yields more than it declares
                return "" if opened_zip.testzip() is None else "a truncated or damaged archive"
    elif start == b"\x1f\x8b":
        with gzip.open(path) as opened:
            size = 0
            while size <= STREAM_BYTES and (chunk := opened.read(_CHUNK_BYTES)):
                size += len(chunk)
    else:
        return ""
    return _too_large("an archive that", "more", STREAM_BYTES) if size > STREAM_BYTES else ""


def _too_large(file: str, what: str, limit: int) -> str:
    return f"{file} unpacks to {what} than {limit // 2**20:,} MiB, beyond anything published; get it again"
