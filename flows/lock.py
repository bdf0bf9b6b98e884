"""The locks of a home: one command or run at a time, and one standing server."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from data.store.folders import LOCK, account, private_folder, require_local_disk, require_own_home
from flows.progress import say

_HELD: set[Path] = set()  # the homes whose lock for a run this process holds


@contextmanager
def exclusive_run(home: Path) -> Iterator[None]:
    """Hold the home's lock for a run; wait for it if another process has it. It may be nested."""
    if home.resolve() in _HELD:
        yield
        return
    waits = f"is using {home}; waiting for it to end (Ctrl-C to give up)"
    with locked(home, LOCK, lambda holder: say(f"another run (process {holder}) {waits}")):
        _HELD.add(home.resolve())
        try:
            yield
        finally:
            _HELD.discard(home.resolve())


@contextmanager
def locked(home: Path, name: str, taken: Callable[[str], object]) -> Iterator[None]:
    """Hold a file of `home` locked; where another process has it, `taken` gets its number, and then wait.

    The lock belongs to the open file, so the kernel frees it however the process ends. A home on a network
    file system, where locks are not to be trusted, or of another account is refused.
    """
    require_local_disk("DPCOST_HOME", home)
    require_own_home(home)
    private_folder(home)
    with open(home / name, "a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            taken(file.read(100).decode(errors="replace").strip() or "unknown")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(f"{os.getpid()} of {account(os.getuid())}\n".encode())
        file.flush()
        yield


def holder(home: Path) -> str:
    """Return the process and account that hold the home's lock for a run; empty if none does."""
    try:
        with open(home / LOCK, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return ""
    except BlockingIOError:
        return (home / LOCK).read_text(errors="replace").strip() or "unknown"
    except OSError:
        return ""
