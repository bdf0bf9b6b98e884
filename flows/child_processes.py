"""Processes: told apart from later ones of the same number, and ended with all that they started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from data.processes import ProcessIdentity
from data.store import atomic_write


def end(process: ProcessIdentity, stop_signal: int, timeout: float, *, whole_tree: bool = False) -> None:
    """Ask a process to end, wait, and kill what is left of it and of everything it started.

    Parameters
    ----------
    process : ProcessIdentity
        The process; nothing happens if it is gone.
    stop_signal : int
        The signal that asks.
    timeout : float
        Seconds to wait before killing.
    whole_tree : bool
        Whether everything it started is asked, too.
    """
    family = [process, *_descendants(process.pid)]
    for each in family if whole_tree else family[:1]:
        _send(each, stop_signal)
    deadline = time.monotonic() + timeout
    while any(each.is_alive() for each in family) and time.monotonic() < deadline:
        time.sleep(0.02)
    for each in {*family, *_descendants(process.pid)}:
        _send(each, signal.SIGKILL)


def command_line(pid: int) -> list[str]:
    """Return a process's command line; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        answer = subprocess.run(
            ["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        return answer.stdout.split()


def last_lines(text: str, count: int = 5) -> str:
    """Return the last lines of a program's output on one line."""
    return " / ".join([line.strip() for line in text.splitlines() if line.strip()][-count:])


def write_json(path: Path, content: object) -> None:
    """Write a small JSON file so that a reader sees the old one or the new one, whole."""
    atomic_write(path, json.dumps(content, indent=1).encode())


def _send(process: ProcessIdentity, number: int) -> None:
    if process.is_alive():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def _descendants(pid: int) -> list[ProcessIdentity]:
    """Return every process that `pid` started, directly or not; sessions and groups do not matter."""
    children: dict[int, list[int]] = {}
    for each, parent in _parents():
        children.setdefault(parent, []).append(each)
    found: list[ProcessIdentity] = []
    waiting = list(children.get(pid, []))
    while waiting:
        each = waiting.pop()
        waiting += children.get(each, [])
        with contextlib.suppress(ProcessLookupError):
            found.append(ProcessIdentity.of(each))
    return found


def _parents() -> Iterator[tuple[int, int]]:
    """Yield every process number with its parent's."""
    if not Path("/proc/self/stat").exists():
        table = subprocess.run(
            ["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=False
        ).stdout
        for line in table.splitlines():
            pid, parent = line.split()
            yield int(pid), int(parent)
        return
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            yield int(path.parent.name), int(path.read_text().rpartition(")")[2].split()[1])
