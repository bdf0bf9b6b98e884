"""Compressed files and archives; every fault is one sentence."""

import gzip
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from data.errors import CorruptSource


def read_bytes(path: Path) -> bytes:
    """Return a file's bytes, decompressed if it is a gzip file with any name."""
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    except (EOFError, OSError, zlib.error):
        raise damaged(path) from None


@contextmanager
def open_zip_member(archive: Path, member: str) -> Iterator[BinaryIO]:
    """Open one file of a ``.zip``, from any of its folders; a damaged one raises the errors of `zipfile`."""
    name = PurePosixPath(member).name
    with zipfile.ZipFile(archive) as opened:
        found = [each for each in opened.namelist() if PurePosixPath(each).name == name]
        if not found:
            raise CorruptSource(f"{archive.name} holds no file {name}; get the archive again")
        with opened.open(found[0]) as stream:
            yield stream  # type: ignore[misc]  # a ZipExtFile reads like any binary file


def damaged(archive: Path) -> CorruptSource:
    return CorruptSource(f"{archive.name} is a truncated or damaged file or archive; get it again")
