"""Identifies a process for good, by its number and the time it was started at."""

from __future__ import annotations

import socket
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class ProcessIdentity:
    """A process, identified by its number and its start time.

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


@cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
