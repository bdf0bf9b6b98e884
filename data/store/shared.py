"""The store and the cache that several machines share at one address.

With ``DPCOST_STORE=s3://bucket/folder``, or any other address that fsspec understands, prepared tables and
results are also copied there under the same name. A machine fetches missing files from there. Estimators and
parsers only read local files. A fetched table is accepted only if its sha256 is that of its reference.
Ledger, locks and the server's database stay on the machine.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from data.errors import StoreError
from data.store.folders import atomic_file, atomic_write, home

VARIABLE = "DPCOST_STORE"


class _OtherContent(Exception):
    """The file at the address differs from the one that was written."""


def shared_address() -> str:
    """Return the address of the shared store from the environment; empty if none is set."""
    return os.environ.get(VARIABLE, "").rstrip("/")


def check_shared_store() -> None:
    """Refuse an address that cannot be written and read again, before anything starts."""
    if shared_address():
        probe = f"probe-{os.getpid()}"
        write_shared(probe, b"probe")
        if read_shared(probe) != b"probe":
            raise StoreError(f"{_setting()} does not return what was written to it; choose another address")
        with _as_one_sentence():
            _folder(shared_address()).rm_file(probe)


def name_below_home(path: Path) -> str:
    """Return a file's path relative to the home, or its whole path if it is elsewhere."""
    return path.relative_to(home()).as_posix() if path.is_relative_to(home()) else str(path)


def share(path: Path) -> None:
    """Copy a file of the home to the shared store, if one is configured."""
    if shared_address() and path.is_relative_to(home()):
        name = name_below_home(path)
        with _as_one_sentence():
            folder = _folder(shared_address())
            if local := _local_path(folder, name):
                with open(path, "rb") as source, atomic_file(local) as handle:
                    shutil.copyfileobj(source, handle)
            else:
                folder.put_file(str(path), name)


def copy_shared(path: Path, sha256: str = "") -> bool:
    """Copy a file from the shared store into the home; return whether it existed with this checksum."""
    if not shared_address() or not path.is_relative_to(home()):
        return False
    try:
        with _as_one_sentence(reading=True), atomic_file(path) as handle:
            with _folder(shared_address()).open(name_below_home(path), "rb") as source:
                shutil.copyfileobj(source, handle)
            handle.flush()
            with open(handle.name, "rb") as copy:
                if sha256 and hashlib.file_digest(copy, "sha256").hexdigest() != sha256:
                    raise _OtherContent
    except (FileNotFoundError, _OtherContent):
        return False
    return True


def write_shared(name: str, content: bytes) -> None:
    with _as_one_sentence():
        folder = _folder(shared_address())
        if local := _local_path(folder, name):
            atomic_write(local, content)
        else:
            folder.pipe_file(name, content)


def read_shared(name: str) -> bytes | None:
    """Return a small file of the shared store, or None if it or the store does not exist."""
    if not shared_address():
        return None
    try:
        with _as_one_sentence(reading=True):
            return bytes(_folder(shared_address()).cat_file(name))
    except FileNotFoundError:
        return None


def shared_path(name: str) -> Path | None:
    """Return a path below the shared store if its address is a local folder."""
    return _local_path(_folder(shared_address()), name)


@cache
def _folder(address: str) -> Any:
    """Return fsspec's file system of the folder at an address."""
    import fsspec
    from fsspec.implementations.dirfs import DirFileSystem

    if not re.match(r"[a-z][a-z0-9+.-]*://", address):
        raise StoreError(
            f"{VARIABLE} must be an address such as s3://bucket/folder or file:///folder, got {address!r}"
        )
    try:
        # Another machine may have written since: no folder listing is cached.
        system, root = fsspec.core.url_to_fs(address, use_listings_cache=False)
    except ImportError as error:
        raise StoreError(
            f"{_setting()} needs a package that is not installed ({error}); for s3:// install dpcost[s3]"
        ) from None
    except ValueError as error:
        raise StoreError(f"{_setting()} is not a usable address: {error}") from None
    return DirFileSystem(root, system)


def _local_path(folder: Any, name: str) -> Path | None:
    """Return a file's path if the address is a local folder, where it is written atomically."""
    from fsspec.implementations.local import LocalFileSystem

    return Path(folder.path, name) if isinstance(folder.fs, LocalFileSystem) else None


def _setting() -> str:
    """Return the address without the part before an @, which may hold a password."""
    return f"{VARIABLE}={re.sub(r'//[^/]*@', '//', shared_address())}"


@contextmanager
def _as_one_sentence(*, reading: bool = False) -> Iterator[None]:
    """Turn errors of a file system into one sentence; for a reader, a missing file is not an error."""
    try:
        yield
    except (StoreError, _OtherContent):
        raise
    except Exception as error:
        if reading and isinstance(error, FileNotFoundError):
            raise
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise StoreError(
            f"{_setting()} cannot be used: {reason}; check the address, its credentials and the network"
        ) from None
