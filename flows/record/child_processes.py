"""Ends child processes with all that they started, and when whoever started them is gone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from pathlib import Path

import psutil

from data.store.folders import atomic_write
from data.store.processes import ProcessIdentity


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


def end_with_owner(timeout: float) -> None:
    """End this process, and all that it started, once the process that started it is gone, however it went.

    The owner holds the other end of standard input: the kernel closes it even after ``kill -9``.
    """

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 1):
                pass
        for _ in range(2):  # what it starts meanwhile, too
            for child in _descendants(os.getpid()):
                end(child, signal.SIGTERM, timeout)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(timeout)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="owner watch", daemon=True).start()


def environment_of(pid: int) -> dict[str, str]:
    """Return the environment that a process was started with; empty if it is gone or another user's."""
    try:
        return dict(psutil.Process(pid).environ())
    except (psutil.Error, OSError):
        return {}


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
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
    found = []
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            found.append(ProcessIdentity.of(child.pid))
    return found
