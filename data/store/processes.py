"""The identity of a process: its number and when it was started."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil


@dataclass(frozen=True, kw_only=True)
class ProcessIdentity:
    """A process, identified by its number and its start time in the system's own notation."""

    pid: int
    start_time: str
    boot_id: str  # which boot of the machine the two above belong to
    host: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """Return the identity of the process that has this number now; refuse one that has exited."""
        start_time = _start_time(pid)
        if start_time is None:
            raise ProcessLookupError(f"no process has the number {pid}")
        return cls(pid=pid, start_time=start_time, boot_id=_boot_id(), host=socket.gethostname())

    def is_alive(self) -> bool:
        """Say whether this very process is still there; one on another machine is taken to be alive."""
        if self.host != socket.gethostname():
            return True
        return self.boot_id == _boot_id() and self.start_time == _start_time(self.pid)


def _start_time(pid: int) -> str | None:
    """Return when a process started; ``None`` if it is gone or has exited and waits to be collected."""
    if Path("/proc/self/stat").exists():
        try:
            # The command name, in brackets, may itself hold blanks and brackets.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else str(process.create_time())
    except psutil.Error:
        return None


@cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
