"""Archives and delimited text; every fault is one sentence."""

import gzip
import io
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

import pandas as pd

from data.errors import CorruptSource


def is_gzip(path: Path) -> bool:
    with open(path, "rb") as handle:
        return handle.read(2) == b"\x1f\x8b"


def open_plain(path: Path) -> IO[bytes] | gzip.GzipFile:
    """Open a file that may be compressed by gzip, with any name."""
    return gzip.open(path) if is_gzip(path) else open(path, "rb")


def read_member(archive: Path, member: str) -> bytes:
    """Return one file of a (compressed) tar archive, from any of its folders."""
    try:
        with tarfile.open(archive) as opened_tar:
            handle = opened_tar.extractfile(_find(opened_tar.getnames(), member, archive))
            if handle is None:
                raise CorruptSource(f"{archive.name}: {member} is not a file; get the archive again")
            return handle.read()
    except (tarfile.TarError, zlib.error, EOFError, OSError):
        raise damaged(archive) from None


@contextmanager
def open_zip_member(archive: Path, member: str) -> Iterator[BinaryIO]:
    """Open one file of a ``.zip`` as a stream; a damaged archive raises the errors of `zipfile`."""
    try:
        opened = zipfile.ZipFile(archive)
    except (zipfile.BadZipFile, EOFError):
        raise damaged(archive) from None
    with opened, opened.open(_find(opened.namelist(), member, archive)) as stream:
        yield stream  # type: ignore[misc]  # a ZipExtFile reads like any binary file


def damaged(archive: Path) -> CorruptSource:
    return CorruptSource(f"{archive.name} is a truncated or damaged archive; get it again")


def read_delimited(payload: bytes, columns: Sequence[str], *, file: str) -> pd.DataFrame:
    """Split comma-separated text without a header into a table of text; `data.fetch.tables` sets the types.

    ``file`` is the name of the file in messages.
    """
    try:
        table = pd.read_csv(
            io.BytesIO(payload),
            header=None,
            dtype=str,
            encoding="latin-1",
            keep_default_na=False,
            na_values=[""],
        )
    except pd.errors.EmptyDataError:
        raise CorruptSource(f"{file} has no rows; get the file again") from None
    except pd.errors.ParserError:
        raise CorruptSource(
            f"{file} has rows with too many columns, expected {len(columns)}; get the file again"
        ) from None
    if table.shape[1] != len(columns):
        raise CorruptSource(
            f"{file} has {table.shape[1]} columns, expected {len(columns)}; get the file again"
        )
    table.columns = pd.Index(columns)
    return table


def _find(names: list[str], member: str, archive: Path) -> str:
    for name in names:
        if PurePosixPath(name).name == PurePosixPath(member).name:
            return name
    raise CorruptSource(f"{archive.name} holds no file {PurePosixPath(member).name}; get the archive again")
