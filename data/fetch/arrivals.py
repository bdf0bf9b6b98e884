"""Files on their way into the store: each is verified, and a set of them arrives whole or not at all.

A file waits under a temporary name, see `data.store.folders`, until its set is complete.
"""

import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from data.dataset import Source
from data.errors import CorruptSource
from data.formats.archives import check_archive
from data.store.folders import atomic_file, sha256_file

MAX_BYTES = 4 * 10**9  # of a raw file; nothing that is longer is copied to its end


class _Incomplete(Exception):
    """The rest of a file's set did not arrive."""


class Arrivals(ExitStack):
    """Verified files that wait under temporary names for the rest of their set.

    On leaving, the files of a complete set get their names, and all others are removed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.complete: set[Path] = set()

    def add(self, write: Callable[[BinaryIO], object], source: Source, target: Path, origin: str) -> str:
        """Write and verify a file, and return its checksum; what is refused is removed at once."""
        with ExitStack() as refused:
            handle = refused.enter_context(self._waiting(target))
            write(_Bounded(handle, origin))  # type: ignore[arg-type]  # as far as it is used
            handle.flush()
            os.fsync(handle.fileno())  # a full disk is noticed before a file of the set is renamed
            sha256 = verified(Path(handle.name), source, origin)
            self.push(refused.pop_all())
        return sha256

    @contextmanager
    def _waiting(self, target: Path) -> Iterator[BinaryIO]:
        with suppress(_Incomplete), atomic_file(target) as handle:
            yield handle
            if target not in self.complete:
                raise _Incomplete


class _Bounded:
    """A file that takes no more than `MAX_BYTES`."""

    def __init__(self, handle: BinaryIO, origin: str) -> None:
        self._handle, self._origin = handle, origin

    def write(self, chunk: bytes) -> int:
        if self.tell() + len(chunk) > MAX_BYTES:
            raise CorruptSource(
                f"{self._origin} holds more than {MAX_BYTES:,} bytes, and no published file does"
            )
        return self._handle.write(chunk)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)


def verified(path: Path, source: Source, origin: str) -> str:
    """Return the checksum of a file; refuse one that is not the published one, naming its origin."""
    sha256 = sha256_file(path)
    fault = ""
    if not source.matches(sha256):
        other = f"another file: its sha256 begins {sha256[:8]}, expected {source.expected_checksum}"
        fault = _visible_fault(path) or other
    elif source.checksum_is_unknown:
        fault = _visible_fault(path)
    if fault:
        raise CorruptSource(f"{origin} holds {fault}")
    return sha256


def _visible_fault(path: Path) -> str:
    """Return a phrase that describes a visible fault of a file, ``""`` if there is none."""
    with open(path, "rb") as handle:
        start = handle.read(512).lstrip().lower()
    if not start:
        return "an empty file"
    if start.startswith((b"<!doctype html", b"<html", b"<?xml", b"<head", b"<body")):
        return "an HTML page (an error or log-in page?) instead of data"
    try:
        return check_archive(path)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError):
        return "a truncated or damaged archive"
