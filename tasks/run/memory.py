"""Limits how many blocks run at once by the memory that their data need."""

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
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Wait until ``size`` bytes are free and reserve them; a larger request runs alone."""
        with self._changed:
            self._changed.wait_for(lambda: self._taken == 0 or self._taken + size <= self._capacity)
            self._taken += size
        try:
            yield
        finally:
            with self._changed:
                self._taken -= size
                self._changed.notify_all()


_ROOM = Room(int(_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))


def room_for(size: int) -> AbstractContextManager[None]:
    """Reserve memory in this process; a function, since locks cannot be sent to other processes."""
    return _ROOM.hold(size)
