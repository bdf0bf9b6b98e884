"""The process and thread that were charged, and whether they may still answer."""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import dataclass

from data.store.processes import ProcessIdentity


@dataclass(frozen=True)
class Holder:
    """One thread of one process.

    Attributes
    ----------
    process : ProcessIdentity
        The process.
    thread : int
        The thread, in Python's notation.
    """

    process: ProcessIdentity
    thread: int

    @classmethod
    def here(cls) -> Holder:
        """Return the thread that asks."""
        return cls(ProcessIdentity.of(os.getpid()), threading.get_ident())

    @property
    def pid(self) -> int:
        """The process number."""
        return self.process.pid

    @property
    def is_remote(self) -> bool:
        """Whether it runs on another machine, where its state is unknown here."""
        return self.process.host != socket.gethostname()

    def is_this_process(self) -> bool:
        """Say whether it is a thread of the process that asks."""
        return self.process == ProcessIdentity.of(os.getpid())

    def may_answer(self) -> bool:
        """Return whether another thread or process may still be drawing the answer.

        The asking thread itself is not: it would not ask. Of another machine nothing is known, so: yes.
        """
        if self.is_remote:
            return True
        if self.is_this_process():
            others = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
            return self.thread in others
        return self.process.is_alive()
