"""Helpers for the parsers: open an archive, split delimited text; every fault one sentence."""

import io
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pandas as pd

from data.errors import CorruptSource
from data.formats.unpacking import read_whole


def read_member(archive: Path, member: str) -> bytes:
    """Return one file out of a ``.zip`` or (compressed) tar archive.

    Parameters
    ----------
    archive : pathlib.Path
    member : str
        The file's path inside the archive; a name without a folder is found in any folder.

    Raises
    ------
    CorruptSource
        The archive is truncated or damaged, holds no such file, or too large a one.
    """
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
    """Open one file of a ``.zip`` as a stream; reading a damaged one raises the errors of `zipfile`.

    Raises
    ------
    CorruptSource
        The archive has no directory of its files, or holds no such file.
    """
    try:
        opened = zipfile.ZipFile(archive)
    except (zipfile.BadZipFile, EOFError):
        raise damaged(archive) from None
    with opened, opened.open(_find(opened.namelist(), member, archive)) as stream:
        yield stream  # type: ignore[misc]  # a ZipExtFile reads like any binary file


def damaged(archive: Path) -> CorruptSource:
    """Return the error about an archive that cannot be read to its end."""
    return CorruptSource(f"{archive.name} is a truncated or damaged archive; get it again")


def read_delimited(payload: bytes, columns: Sequence[str], *, separator: str, file: str) -> pd.DataFrame:
    r"""Split headerless text into a table of text; typing it is `data.formats.table.typed`'s part.

    Parameters
    ----------
    payload : bytes
    columns : sequence of str
        Names, in the file's order.
    separator : str
        One character, or ``r"\s+"``.
    file : str
        What messages call the file.

    Returns
    -------
    pandas.DataFrame
        Text; a blank or absent field is missing.

    Raises
    ------
    CorruptSource
        No rows, or not as many columns as there are names.
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


def _find(names: list[str], member: str, archive: Path) -> str:
    for name in names:
        if name == member or name.rsplit("/", 1)[-1] == member:
            return name
    raise CorruptSource(f"{archive.name} holds no file {member}; get the archive again")
