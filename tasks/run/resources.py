"""What a block may use: this process, a worker process of this machine, or one of the run's Dask cluster.

Prefect's tasks stay in threads of the run's process, which wait for the workers: these know nothing of
Prefect, so that a standing cluster serves any number of runs.
"""

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

from tasks.turns import STOPPED, TURN, end_if_stopped

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")

_SHARE = 0.5  # of the machine's memory, for data


def one_blas_thread() -> None:
    """Limit this process's matrix products to one thread each, so that results don't depend on the machine.

    The number of threads decides in which order BLAS adds, so the last bits depend on it. The limit is the
    process's, not the thread's: one that ended with a block would be lifted while others still compute.
    """
    threadpool_limits(1)


_count_threads: Callable[[], int] | None = None


def use_threads(count: Callable[[], int]) -> None:
    """Let blocks in this process use as many threads as ``count`` says whenever they ask."""
    global _count_threads
    _count_threads = count


def threads_now() -> int:
    """Return how many threads a block may use now: those of the run that no other block uses, or one."""
    return _count_threads() if _count_threads else 1


class Room:
    """Memory, of ``capacity`` bytes, for the data of blocks that run at the same time on one machine."""

    def __init__(self, capacity: int) -> None:
        self._capacity, self._taken = capacity, 0
        self._running, self.most = 0, math.inf
        self._waiting: list[int] = []  # the turns of those who wait
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Wait until ``size`` bytes are free and reserve them; a larger request runs alone.

        The lowest turn goes first. Nobody is let in any more when the command ends early.
        """
        turn = TURN.get()
        with self._changed:
            self._waiting.append(turn)
            self._changed.wait_for(
                lambda: STOPPED.is_set() or (turn == min(self._waiting) and self._fits(size))
            )
            self._waiting.remove(turn)
            self._changed.notify_all()
            end_if_stopped()
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


def run_at_most(count: int | None) -> None:
    """Let this process compute at most so many blocks at a time; None: as many as it has cores."""
    _ROOM.most = count or os.cpu_count() or 1


_clusters: list[Any] = []  # the distributed.Client of this process's run, or nothing
_processes: list[Callable[..., Any]] = []  # what calls a function in a worker process, or nothing
listeners: list[Callable[[str, float], None]] = []  # to the shares of blocks that are done
_SHARES = "dpcost: shares of blocks"


@contextmanager
def on_cluster(client: Any) -> Iterator[None]:
    """Let `computed` use a cluster, named by its `distributed.Client`."""
    _clusters.append(client)
    client.subscribe_topic(_SHARES, lambda event: told(*event[1]))
    try:
        yield
    finally:
        _clusters.remove(client)


@contextmanager
def listening(listener: Callable[[str, float], None]) -> Iterator[None]:
    """Let a listener know which share of which piece of work is done, wherever it is computed."""
    listeners.append(listener)
    try:
        yield
    finally:
        listeners.remove(listener)


def shares_of(name: str, every: float = 2.0) -> Callable[[float], None]:
    """Return a function that tells the run's listeners which share of a work is done, every few seconds."""
    last = time.monotonic()

    def tell(share: float) -> None:
        nonlocal last
        if time.monotonic() - last < every:
            return
        last = time.monotonic()
        if "distributed" in sys.modules:
            from distributed import get_worker

            with suppress(ValueError):  # this is no worker's thread
                get_worker().log_event(_SHARES, [name, share])
        told(name, share)

    return tell


def told(name: str, share: float) -> None:
    """Let the listeners know which share of which piece of work is done."""
    for listener in tuple(listeners):
        listener(name, share)


def map_on_cluster(function: Callable[[A], T], items: Sequence[A]) -> Iterator[T]:
    """Yield what a function returns for each item, in order; any of the cluster's workers may compute it.

    What a worker had under way when it died is computed by another one. Results have no key of their content,
    so that one pass's are never taken for another's.
    """
    one_blas_thread()
    if not _clusters:
        yield from map(function, items)
        return
    futures = _clusters[-1].map(partial(_on_one_thread, function), items, pure=False)
    try:
        while futures:
            yield futures[0].result()
            futures.pop(0).release()
    finally:
        _clusters[-1].cancel(futures)


def _on_one_thread(function: Callable[[A], T], item: A) -> T:
    one_blas_thread()
    return function(item)


@contextmanager
def on_processes(call: Callable[..., Any]) -> Iterator[None]:
    """Let `computed` and `in_process` call functions by ``call``, which does it in another process."""
    _processes.append(call)
    try:
        yield
    finally:
        _processes.remove(call)


def computed(size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that needs ``size`` bytes, where there is room for them; return what it returns."""
    if _clusters:
        result: T = _clusters[-1].submit(_in_room, size, function, *args, pure=False, **kwargs).result()
        return result
    with _ROOM.hold(size):
        return in_process(function, *args, **kwargs)


def _in_room(size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    with _ROOM.hold(size):
        return function(*args, **kwargs)


def in_process(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a worker process of this machine, if there are any, and return what it returns."""
    call = _processes[-1] if _processes else None
    result: T = call(function, *args, **kwargs) if call else function(*args, **kwargs)
    return result
