"""Limits how many blocks run at once by the memory that their data need."""

import math
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

_SHARE = 0.5  # of the machine's memory, for data


class Room:
    """Memory for the data of blocks that run in threads of one process.

    Parameters
    ----------
    capacity : int
        Bytes.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity, self._taken = capacity, 0
        self._running, self.most = 0, math.inf
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Wait until ``size`` bytes are free and reserve them; a larger request runs alone."""
        with self._changed:
            self._changed.wait_for(lambda: self._fits(size))
            self._taken += size
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._taken -= size
                self._running -= 1
                self._changed.notify_all()

    def _fits(self, size: int) -> bool:
        enough = self._taken == 0 or self._taken + size <= self._capacity
        return enough and self._running < self.most


_ROOM = Room(int(_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))


def room_for(size: int) -> AbstractContextManager[None]:
    """Reserve memory in this process; a function, since locks cannot be sent to other processes."""
    return _ROOM.hold(size)


def run_at_most(count: int | None) -> None:
    """Let this process compute at most so many blocks at a time; without a number as many as it has
    threads."""
    _ROOM.most = count or math.inf
