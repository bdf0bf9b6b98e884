"""Compressed files and archives; every fault is one sentence."""

import gzip
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from data.errors import CorruptSource


def open_plain(path: Path) -> IO[bytes] | gzip.GzipFile:
    """Open a file that may be compressed by gzip, with any name."""
    with open(path, "rb") as handle:
        is_gzip = handle.read(2) == b"\x1f\x8b"
    return gzip.open(path) if is_gzip else open(path, "rb")


@contextmanager
def open_zip_member(archive: Path, member: str) -> Iterator[BinaryIO]:
    """Open one file of a ``.zip``, from any of its folders; a damaged one raises the errors of `zipfile`."""
    try:
        opened = zipfile.ZipFile(archive)
    except (zipfile.BadZipFile, EOFError):
        raise damaged(archive) from None
    name = PurePosixPath(member).name
    found = [each for each in opened.namelist() if PurePosixPath(each).name == name]
    if not found:
        raise CorruptSource(f"{archive.name} holds no file {name}; get the archive again")
    with opened, opened.open(found[0]) as stream:
        yield stream  # type: ignore[misc]  # a ZipExtFile reads like any binary file


def damaged(archive: Path) -> CorruptSource:
    return CorruptSource(f"{archive.name} is a truncated or damaged archive; get it again")
