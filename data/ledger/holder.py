"""Who was charged: told apart from a later process with the same number, and from a dead one."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Holder:
    """One thread of one process.

    Attributes
    ----------
    pid : int
        The process number.
    start_time, boot_id : str
        When the process started, in the system's notation, and in which boot of the machine; only compared.
    host : str
        The machine's name.
    thread : int
        The thread, in Python's notation.
    """

    pid: int
    start_time: str
    boot_id: str
    host: str
    thread: int

    @classmethod
    def here(cls) -> Holder:
        """Return the thread that asks."""
        pid = os.getpid()
        return cls(pid, _start_time(pid) or "", _boot_id(), socket.gethostname(), threading.get_ident())

    @property
    def is_remote(self) -> bool:
        """Whether it runs on another machine, so that nobody here can tell if it lives."""
        return self.host != socket.gethostname()

    def is_this_process(self) -> bool:
        """Say whether it is a thread of the process that asks."""
        return self._process == Holder.here()._process

    def may_answer(self) -> bool:
        """Say whether somebody other than the asking thread may still be working on the answer.

        The asking thread itself is not: it would not ask. Of another machine nothing is known, so: yes.
        """
        if self.is_remote:
            return True
        if self.is_this_process():
            others = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
            return self.thread in others
        return self.boot_id == _boot_id() and self.start_time == _start_time(self.pid)

    @property
    def _process(self) -> tuple[int, str, str, str]:
        return self.pid, self.start_time, self.boot_id, self.host


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
