"""Archives and delimited text: limits on what unpacks without end, and every fault one sentence."""

import gzip
import io
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO

import pandas as pd

from data.errors import CorruptSource

WHOLE_BYTES = 2**28  # of what is read into memory in one piece
STREAM_BYTES = 2**34  # of what is read piece by piece
LINE_BYTES = 2**26
_CHUNK_BYTES = 2**20


def read_whole(stream: IO[bytes] | gzip.GzipFile, file: str) -> bytes:
    """Return all that a stream holds, or refuse more than `WHOLE_BYTES`."""
    content = stream.read(WHOLE_BYTES + 1)
    if len(content) > WHOLE_BYTES:
        raise CorruptSource(_too_large(file, "more", WHOLE_BYTES))
    return content


def read_line(stream: IO[bytes] | gzip.GzipFile, file: str) -> bytes:
    """Return the next line of a stream, empty at its end, or refuse one longer than `LINE_BYTES`."""
    line = stream.readline(LINE_BYTES + 1)
    if len(line) > LINE_BYTES:
        raise CorruptSource(_too_large(file, "a line of more", LINE_BYTES))
    return line


def is_gzip(path: Path) -> bool:
    return _first_bytes(path) == b"\x1f\x8b"


def open_plain(path: Path) -> IO[bytes] | gzip.GzipFile:
    """Open a file that gzip may have compressed, whatever its name."""
    return gzip.open(path) if is_gzip(path) else open(path, "rb")


def check_archive(path: Path) -> str:
    """Unpack a zip or gzip file without storing it and return a description of its fault, or ``""``.

    Raises what `zipfile` and `gzip` do about a damaged one; any other file passes.
    """
    if is_gzip(path):
        with gzip.open(path) as opened:
            size = 0
            while size <= STREAM_BYTES and (chunk := opened.read(_CHUNK_BYTES)):
                size += len(chunk)
    elif _first_bytes(path) == b"PK":
        with zipfile.ZipFile(path) as opened_zip:
            size = sum(info.file_size for info in opened_zip.infolist())
            if size <= STREAM_BYTES:  # no member yields more than it declares
                return "" if opened_zip.testzip() is None else "a truncated or damaged archive"
    else:
        return ""
    return _too_large("an archive that", "more", STREAM_BYTES) if size > STREAM_BYTES else ""


def read_member(archive: Path, member: str) -> bytes:
    """Return one file, in whatever folder, of a ``.zip`` or (compressed) tar archive."""
    try:
        if zipfile.is_zipfile(archive):
            with open_zip_member(archive, member) as stream:
                return read_whole(stream, archive.name)
        with tarfile.open(archive) as opened_tar:
            handle = opened_tar.extractfile(_find(opened_tar.getnames(), member, archive))
            if handle is None:
                raise CorruptSource(f"{archive.name}: {member} is not a file; get the archive again")
            return read_whole(handle, archive.name)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError):
        raise damaged(archive) from None


@contextmanager
def open_zip_member(archive: Path, member: str) -> Iterator[BinaryIO]:
    """Open one file of a ``.zip`` as a stream; reading a damaged one raises the errors of `zipfile`."""
    try:
        opened = zipfile.ZipFile(archive)
    except (zipfile.BadZipFile, EOFError):
        raise damaged(archive) from None
    with opened, opened.open(_find(opened.namelist(), member, archive)) as stream:
        yield stream  # type: ignore[misc]  # a ZipExtFile reads like any binary file


def damaged(archive: Path) -> CorruptSource:
    return CorruptSource(f"{archive.name} is a truncated or damaged archive; get it again")


def read_delimited(payload: bytes, columns: Sequence[str], *, separator: str, file: str) -> pd.DataFrame:
    r"""Split headerless text into a table of text; `data.fetch.tables` types it.

    ``separator`` is one character, or ``r"\s+"``; ``file`` is what messages call the file.
    """
    try:
        table = pd.read_csv(
            io.BytesIO(payload),
            header=None,
            sep=separator,
            dtype=str,
            encoding="latin-1",
            keep_default_na=False,
            na_values=[""],
        )
    except pd.errors.EmptyDataError:
        raise CorruptSource(f"{file} has no rows; get the file again") from None
    except pd.errors.ParserError:
        raise CorruptSource(
            f"{file} has rows with too many columns, {len(columns)} are expected; get the file again"
        ) from None
    if table.shape[1] != len(columns):
        raise CorruptSource(
            f"{file} has {table.shape[1]} columns, {len(columns)} are expected; get the file again"
        )
    table.columns = pd.Index(columns)
    return table


def _first_bytes(path: Path) -> bytes:
    with open(path, "rb") as handle:
        return handle.read(2)


def _find(names: list[str], member: str, archive: Path) -> str:
    for name in names:
        if name == member or name.rsplit("/", 1)[-1] == member:
            return name
    raise CorruptSource(f"{archive.name} holds no file {member}; get the archive again")


def _too_large(file: str, what: str, limit: int) -> str:
    return f"{file} unpacks to {what} than {limit // 2**20:,} MiB, beyond anything published; get it again"
