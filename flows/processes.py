"""Processes: told apart from later ones of the same number, and ended with all that they started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from data.store import atomic_write


@dataclass(frozen=True, kw_only=True)
class ProcessIdentity:
    """One process, told apart from a later one that got the same number.

    Attributes
    ----------
    pid : int
        The process number.
    start_time : str
        When the process started, in the system's own notation; compared, never interpreted.
    boot_id : str
        Which boot of the machine the two above belong to.
    host : str
        The machine's name.
    """

    pid: int
    start_time: str
    boot_id: str
    host: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """Return the identity of the process that has this number now.

        Raises
        ------
        ProcessLookupError
            If there is no such process, or it has exited.
        """
        start_time = _start_time(pid)
        if start_time is None:
            raise ProcessLookupError(f"no process has the number {pid}")
        return cls(pid=pid, start_time=start_time, boot_id=_boot_id(), host=socket.gethostname())

    def is_alive(self) -> bool:
        """Say whether this very process is still there; one on another machine is taken to be alive."""
        if self.host != socket.gethostname():
            return True
        return self.boot_id == _boot_id() and self.start_time == _start_time(self.pid)


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


def _start_time(pid: int) -> str | None:
    """Return when a process started; ``None`` if it is gone or has exited and waits to be collected."""
    if Path("/proc/self/stat").exists():
        try:
            # The command name, in brackets, may itself hold blanks and brackets.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]
    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, started = answer.stdout.strip().partition(" ")
    return None if not started or state.startswith("Z") else started.strip()


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
