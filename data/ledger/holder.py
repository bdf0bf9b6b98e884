"""The holder of a charge: which thread of which process was charged, and whether it may still answer."""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Holder:
    """The thread of a process that was charged, and alone may store the answer.

    The number of a process is used again; together with its start time and the boot of the machine it is not.
    """

    pid: int
    start_time: str  # in the system's own notation
    boot_id: str
    host: str
    thread: int

    @classmethod
    def here(cls) -> Holder:
        pid, thread = os.getpid(), threading.get_ident()
        return cls(
            pid=pid, start_time=start_time(pid), boot_id=_boot_id(), host=socket.gethostname(), thread=thread
        )

    @classmethod
    def of(cls, written: dict[str, Any]) -> Holder:
        return cls(**written["process"], thread=written["thread"])

    @property
    def written(self) -> dict[str, Any]:
        """The holder as a charge's row has it."""
        process = asdict(self)
        return {"thread": process.pop("thread"), "process": process}

    @property
    def is_remote(self) -> bool:
        """Whether it runs on another machine, where its state is unknown here."""
        return self.host != socket.gethostname()

    @property
    def is_this_process(self) -> bool:
        return replace(Holder.here(), thread=self.thread) == self

    def may_answer(self) -> bool:
        """Return whether another thread or process may still be drawing the answer.

        The asking thread itself is not: it would not ask. Of another machine nothing is known, so: yes.
        """
        if self.is_remote:
            return True
        if self.is_this_process:
            others = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
            return self.thread in others
        return self.boot_id == _boot_id() and self.start_time == start_time(self.pid)


def start_time(pid: int) -> str:
    """Return when a process started; empty if it is gone or has exited and waits to be collected."""
    try:
        # The command name, in brackets, may itself hold blanks and brackets.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


@cache
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
