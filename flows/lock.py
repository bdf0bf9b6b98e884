"""The locks of DPCOST_HOME: one command or run at a time, and one permanent server."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from data.store.folders import private_folder, require_local_disk
from flows.progress import log_in_run, say, start_clock

LOCK = "run.lock"
_HELD: set[Path] = set()  # homes whose run lock this process holds


@contextmanager
def exclusive_run(home: Path) -> Iterator[None]:
    """Hold the home's run lock; wait if another process has it. It may be nested."""
    if home.resolve() in _HELD:
        yield
        return
    start_clock()
    waits = f"is using {home}; waiting for it to end"

    def tell(holder: str) -> None:
        say(f"another run (process {holder}) {waits} (Ctrl-C to give up)")
        log_in_run(f"Another run (process {holder}) {waits}.")

    with locked(home, LOCK, tell):
        _HELD.add(home.resolve())
        try:
            yield
        finally:
            _HELD.discard(home.resolve())


@contextmanager
def locked(home: Path, name: str, taken: Callable[[str], object]) -> Iterator[None]:
    """Lock a file of `home`; if another process has it, call `taken` with its number, then wait.

    The lock belongs to the open file, and the kernel always frees it with the process. A home on a network
    file system, whose locks are unreliable, is refused.
    """
    require_local_disk("DPCOST_HOME", home)
    private_folder(home)
    with open(home / name, "a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            taken(file.read(100).decode(errors="replace").strip() or "unknown")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(f"{os.getpid()} of {psutil.Process().username()}\n".encode())
        file.flush()
        yield


def holder(home: Path) -> str:
    """Return the process and account that hold the home's run lock, or an empty string."""
    try:
        with open(home / LOCK, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return ""
    except BlockingIOError:
        return (home / LOCK).read_text(errors="replace").strip() or "unknown"
    except OSError:
        return ""
