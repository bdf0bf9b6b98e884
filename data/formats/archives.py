"""Compressed files and archives; every fault is one sentence."""

import gzip
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from data.errors import CorruptSource, DamagedFile


def read_bytes(path: Path) -> bytes:
    """Return a file's bytes, decompressed if it is a gzip file with any name."""
    with open_unpacked(path) as stream:
        return stream.read()


@contextmanager
def open_unpacked(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading; a gzip file, with any name, is decompressed on the way."""
    try:
        with path.open("rb") as stream:
            is_packed = stream.read(2) == b"\x1f\x8b"
            stream.seek(0)
            yield gzip.GzipFile(fileobj=stream) if is_packed else stream  # type: ignore[misc]
    except (EOFError, OSError, zlib.error):
        raise damaged(path) from None


@contextmanager
def open_zip_member(archive: Path, member: str) -> Iterator[BinaryIO]:
    """Open one file of a ``.zip``, from any of its folders; a damaged one raises the errors of `zipfile`."""
    name = PurePosixPath(member).name
    with zipfile.ZipFile(archive) as opened:
        members = [each for each in opened.namelist() if PurePosixPath(each).name == name]
        if not members:
            raise CorruptSource(f"{archive.name} holds no file {name}; get the archive again")
        with opened.open(members[0]) as stream:
            yield stream  # type: ignore[misc]  # a ZipExtFile reads like any binary file


def damaged(archive: Path) -> DamagedFile:
    return DamagedFile(f"{archive.name} is a truncated or damaged file or archive; get it again")
