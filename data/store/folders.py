"""DPCOST_HOME: its folders, owner and disk; atomic writing of files."""

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from platformdirs import user_data_path

from data.errors import StoreError

PROJECT_ROOT = Path(__file__).resolve().parents[2]  # the checkout, or the folder that a wheel installed
_CHECKOUT = (PROJECT_ROOT / "pyproject.toml").exists()
_LASTING = PROJECT_ROOT if _CHECKOUT else user_data_path("dpcost")
# Defaults.
HOME = _LASTING / (".dpcost" if _CHECKOUT else "home")
REPORTS = _LASTING / "reports" / ("out" if _CHECKOUT else "")

_LEFTOVER = re.compile(r"\..+\.[0-9a-f]{8}\.part")
_SECONDS_TO_LOCK = 2.0

_WRITE_FAULTS = {
    errno.ENOSPC: "the disk is full; free some space",
    errno.EDQUOT: "the disk quota is used up; free some space",
    errno.EFBIG: "the file is too large for this file system or the user limit; raise the limit",
    errno.EROFS: "the file system is read-only; make it writable",
    errno.EACCES: "permission is denied; make the folder writable",
    errno.EPERM: "permission is denied; make the folder writable",
    errno.EEXIST: "a file is in the place of the folder; move it",
    errno.ENOTDIR: "a file is in the place of the folder; move it",
    errno.EISDIR: "a folder has the name of the file; move it",
    errno.EIO: "the disk reports an input/output error; check the disk",
}
# Their locks may hold on one machine only or not at all, and a database file on them can be damaged.
NETWORK_TYPES = frozenset(
    (
        *("9p", "afp", "afs", "beegfs", "ceph", "cifs", "davfs", "glusterfs", "gpfs", "lustre"),
        *("nfs", "nfs3", "nfs4", "smb2", "smb3", "smbfs", "webdav"),
    )
)
LOCAL_FUSE = ("fuse.fuse-overlayfs", "fuse.overlayfs")  # what containers of ordinary users stand on


def home() -> Path:
    """Return the folder of everything permanent except reports: ``DPCOST_HOME``, or the default.

    The default is ``.dpcost`` in a checkout, elsewhere the platform's folder for user data. It need not
    exist.
    """
    chosen = os.environ.get("DPCOST_HOME")
    if not chosen:
        return HOME
    try:
        return Path(chosen).expanduser().resolve()
    except (OSError, RuntimeError):
        raise StoreError(
            f"DPCOST_HOME must be a reachable folder, got {chosen!r}; set it to an absolute path"
        ) from None


def store_dir(home: Path) -> Path:
    return home / "store"


def mirror_from_environment() -> Path | None:
    """Return ``DPCOST_DATA_MIRROR`` as an absolute path, or None if it is not set."""
    mirror = os.environ.get("DPCOST_DATA_MIRROR")
    return Path(mirror).expanduser().resolve() if mirror else None


def totals(home: Path) -> dict[str, dict[str, int]]:
    kinds = {"data": home / "store", "cache": home / "cache", "server": home / "prefect"}
    return {kind: _total(folder) for kind, folder in kinds.items()}


def _total(folder: Path) -> dict[str, int]:
    sizes = []
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # a run may have just removed it
                sizes.append(os.stat(os.path.join(parent, name)).st_size)
    return {"files": len(sizes), "bytes": sum(sizes)}


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading; raise `OSError` for a device, a pipe, a socket or a folder.

    Reading some of them never ends.
    """
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "a file's name cannot hold a null character", str(path))
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def file_identity(path: Path) -> tuple[int, int]:
    """Return device and inode of a file: the same for all its names and links."""
    about = path.stat()
    return about.st_dev, about.st_ino


def sha256_file(path: Path) -> str:
    with open_regular(path) as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def sha256_files(path: Path) -> str:
    """Return the sha256 of a file; of a folder, that of the names and checksums of its files at any depth."""
    if not path.is_dir():
        return sha256_file(path)
    files = {each.relative_to(path): each for each in sorted(path.rglob("*")) if each.is_file()}
    listed = [
        f"{name} {sha256_file(each)}"
        for name, each in files.items()
        if not any(part[0] in "._" for part in name.parts)
    ]
    return hashlib.sha256("\n".join(listed).encode()).hexdigest()


def read_small(path: Path, limit: int = 1_000_000) -> bytes:
    """Return the content of a regular file; raise `OSError` for one of more than ``limit`` bytes."""
    with open_regular(path) as handle:
        large = os.fstat(handle.fileno()).st_size > limit
        content = b"" if large else handle.read(limit + 1) or b""
    if large or len(content) > limit:  # it may grow during the read
        raise OSError(errno.EFBIG, f"it has more than {limit / 1e6:g} MB", str(path))
    return content


def read_json(path: Path) -> Any:
    """Return the JSON document in a regular file; raise `ValueError` if it is not JSON."""
    try:
        return json.loads(read_small(path, limit=100_000_000))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def private_folder(folder: Path) -> Path:
    """Create a folder that only its owner can enter, and return it; an existing folder is not changed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def closed_folder(folder: Path) -> Path:
    """Create a folder that only its owner can enter, or close an existing one to others; return it."""
    mode = private_folder(folder).stat().st_mode
    if mode & 0o077:
        try:
            folder.chmod(mode & 0o700)
        except OSError as error:
            raise StoreError(
                f"{folder} can be entered by others and cannot be closed ({error.strerror}), and private "
                "data would lie there; run chmod 700 on it, or take a folder of your own (DPCOST_HOME, --out)"
            ) from None
    return folder


def close_home() -> None:
    """Make a home's tables and non-private results readable by its owner only."""
    for folder in (store_dir(home()), home() / "cache"):
        closed_folder(folder)


def atomic_write(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write a file atomically and durably, see `atomic_file`."""
    with atomic_file(path, private=private) as handle:
        handle.write(content)


@contextmanager
def atomic_file(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """Write a file atomically and durably: readers see the old or the new content, even after a power cut.

    The bytes go to a hidden file in the same folder. This file is flushed to the disk and renamed, and the
    folder is flushed too. After an error, the hidden file is deleted and `path` is unchanged. Only its owner
    can read a private file. A path that is not a regular file is refused.
    """
    check_replaceable(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o600 if private else 0o666
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)  # shows that a process still writes it, see `remove_leftovers`
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
        flush_folder(path.parent)
    except OSError as error:
        if error.errno in _WRITE_FAULTS:
            raise StoreError(
                f"cannot write {path}: {_WRITE_FAULTS[error.errno]}, or choose another folder"
            ) from None
        raise
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def check_replaceable(path: Path) -> None:
    if not path.name or "\0" in str(path):
        raise StoreError(f"the path of a file is needed, got {str(path)!r}; add the file's name")
    with suppress(OSError):  # there is nothing yet
        if not stat.S_ISREG(path.lstat().st_mode):
            raise StoreError(
                f"cannot write {path}: it is a link, folder, pipe or device; choose another name"
            )


def remove_leftovers(folder: Path) -> int:
    """Delete temporary files of killed writers, up to two folders below; return the freed bytes.

    A process that still writes a file holds its lock. A new file may not be locked yet.
    """
    freed = 0
    for pattern in (".*.part", "*/.*.part", "*/*/.*.part"):
        for path in folder.glob(pattern):
            with suppress(OSError):
                about = path.lstat()
                if not _LEFTOVER.fullmatch(path.name) or time.time() - about.st_mtime < _SECONDS_TO_LOCK:
                    continue
                with open(path, "rb") as handle:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()
                freed += about.st_size
    return freed


def flush_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_in_memory(folder: Path) -> bool:
    """Return whether a restart of the machine, or of its container, empties a folder."""
    return _file_system(folder) in ("tmpfs", "ramfs")


def _file_system(folder: Path) -> str:
    """Return the kind of file system that a folder is on, or will be; "" if it is not known."""
    import psutil  # imported here, because every command imports this module

    path = folder.resolve()
    mounts = [each for each in psutil.disk_partitions(all=True) if path.is_relative_to(each.mountpoint)]
    if not mounts:
        return ""
    # The later of two mounts at one place covers the earlier one.
    return str(max(reversed(mounts), key=lambda mount: len(mount.mountpoint)).fstype).lower()


def require_local_disk(what: str, folder: Path) -> None:
    """Refuse a folder on a network file system; it need not exist. ``what`` names it in the message."""
    kind = _file_system(folder)
    if kind in NETWORK_TYPES or (kind.startswith("fuse.") and kind not in LOCAL_FUSE):
        raise StoreError(
            f"{what} must lie on a disk of this machine, got {folder} on {kind}: locks there do not "
            "keep machines apart, and databases can be damaged; set DPCOST_HOME to a local folder, and share "
            f"prepared data and results with DPCOST_STORE=file://{folder}"
        )
