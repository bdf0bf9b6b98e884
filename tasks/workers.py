"""Executors of blocks: processes of this machine or of a Dask cluster, behind one executor.

Tasks wait for it in threads of the run's process. Workers know nothing of Prefect. Processes of this machine
are forked from one that has loaded what most blocks need, and end with the run's process, however that ends.
"""

import heapq
import itertools
import math
import os
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import forkserver, get_context, resource_tracker
from multiprocessing.connection import Connection
from typing import Any, NoReturn, TypeVar

import psutil

from tasks.cells import one_blas_thread
from tasks.errors import SpecError

T = TypeVar("T")
A = TypeVar("A")

_LOADED = [
    "tasks.run.compute",
    "tasks.run.collect",
    "tasks.report.write",
    "reports.pages.study",
    "dpalgos.audit.lower_bound",
]
_LONGEST_FOLDER = 70  # bytes of its name: an address has 104 on some systems, of which a socket adds 32
# Half of the machine's memory is for data.
_MEMORY = 0.5 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class WorkerKilled(SpecError):
    """A worker process was killed, as the system does where memory ends."""


def was_killed(task: Any, task_run: Any, state: Any) -> bool:
    """Say whether a task's worker was killed, perhaps for another one's memory: a condition of retries."""
    return isinstance(state.result(raise_on_failure=False), WorkerKilled)


class Workers:
    """An executor of ``count`` workers; restarted after one dies.

    Each worker has its part of the memory; a call that needs more takes the places of several. The call with
    the most work is next, of whichever study.
    """

    def __init__(self, make: Callable[[], Executor], count: int) -> None:
        self.executor, self._make, self._count = make(), make, count
        self._free, self._lock, self._renewing = count, threading.Lock(), threading.Lock()
        self.waiting, self._numbers = list[tuple[float, int, int, threading.Event]](), itertools.count()

    def call(self, function: Callable[[], T], n_bytes: float, work: float, before: Callable[[], object]) -> T:
        """Return what a function returns in a worker, once there is room for so many bytes."""
        with self._places(max(1, math.ceil(self._count * min(1.0, n_bytes / _MEMORY))), work):
            before()
            executor = self.executor
            try:
                return executor.submit(function).result()
            except (BrokenExecutor, EOFError, ConnectionError):
                let_go(executor)
                with self._renewing:
                    if self.executor is executor:
                        self.executor = self._make()
                raise WorkerKilled("a worker process was killed, probably because memory ran out") from None

    @contextmanager
    def _places(self, count: int, work: float) -> Iterator[None]:
        turn = threading.Event()
        with self._lock:
            heapq.heappush(self.waiting, (-work, next(self._numbers), count, turn))
            self._admit()
        turn.wait()
        try:
            yield
        finally:
            with self._lock:
                self._free += count
                self._admit()

    def _admit(self) -> None:
        """Give places to the calls that are next, and wake no other."""
        while self.waiting and self._free >= self.waiting[0][2]:
            *_, count, turn = heapq.heappop(self.waiting)
            self._free -= count
            turn.set()


_open: list[Workers] = []  # those of this process's run, or nothing


def compute(
    function: Callable[..., T],
    *arguments: Any,
    n_bytes: float = 0,
    work: float = math.inf,
    before: Callable[[], object] = lambda: None,
    last_try_of: str = "",
) -> T:
    """Return what a function returns, in a worker if there are any, once there is room for so many bytes.

    Calls wait for a worker, the one with the most work first. A call that others wait for states no work, and
    does not wait for them. ``before`` is called here when it is a call's turn. The last try of something runs
    while nothing else does; if its worker is killed, too, the error says what.
    """
    call = partial(function, *arguments)
    if not _open:
        before()
        return call()
    free = psutil.virtual_memory().available
    try:
        return _open[-1].call(call, math.inf if last_try_of else n_bytes, work, before)
    except WorkerKilled:
        if not last_try_of:
            raise
        size = f"its data take about {n_bytes / 1e6:,.0f} MB, and " if n_bytes else ""
        raise WorkerKilled(
            f"{last_try_of}: its worker process was killed twice, the second time while nothing else ran, "
            f"probably because memory ran out; {size}{free / 1e6:,.0f} MB were free; free some memory "
            "or choose smaller sizes, and run the same command again: finished parts are stored"
        ) from None


def compute_here(function: Callable[..., T], *arguments: Any) -> T:
    """Return what a function returns, in a worker process of this machine if there are any."""
    is_local = bool(_open) and isinstance(_open[-1].executor, ProcessPoolExecutor)
    return compute(function, *arguments) if is_local else function(*arguments)


def map_on_workers(function: Callable[[A], T], items: Sequence[A]) -> Iterator[T]:
    """Yield what a function returns for each item, in order, from workers if there are any."""
    one_blas_thread()
    if _open:
        executor = _open[-1].executor
        try:
            yield from executor.map(partial(_on_one_thread, function), items)
        except BrokenExecutor:
            let_go(executor)
            raise
    else:
        yield from map(function, items)


def _on_one_thread(function: Callable[[A], T], item: A) -> T:
    one_blas_thread()
    return function(item)


@contextmanager
def opened(workers: Workers) -> Iterator[None]:
    _open.append(workers)
    try:
        yield
    finally:
        _open.remove(workers)
        workers.executor.shutdown()


@contextmanager
def local_workers(count: int | None) -> Iterator[None]:
    """Compute in so many workers of this machine, one per core if not said.

    Nothing is opened where a cluster is.
    """
    if _open:
        yield
        return
    count = count or os.cpu_count() or 1
    one_blas_thread()
    with opened(Workers(partial(_Processes, count), count)):
        yield


def start_loading() -> None:
    """Start the process that workers are forked from; Ctrl-C is for the run's process alone.

    The process that frees what a killed run left is started first, since that lets signals through. Where the
    temporary folder's name is too long for the address of a socket in it, the socket lies in /tmp.
    """
    shown_before = os.environ.get("PYTHONWARNINGS", "")
    os.environ["PYTHONWARNINGS"] = "ignore"
    resource_tracker.ensure_running()
    before, folder = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}), tempfile.gettempdir()
    try:
        if len(os.fsencode(folder)) > _LONGEST_FOLDER:
            tempfile.tempdir = "/tmp"
        forkserver.set_forkserver_preload(_LOADED)
        forkserver.ensure_running()
    finally:
        tempfile.tempdir = folder
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.environ["PYTHONWARNINGS"] = shown_before


class _Processes(ProcessPoolExecutor):
    """Processes that end with this one, or when this one closes a pipe."""

    def __init__(self, count: int) -> None:
        start_loading()
        context = get_context("forkserver")
        ended, self.pipe = context.Pipe(duplex=False)
        super().__init__(count, context, initializer=_begin, initargs=(dict(os.environ), ended))


def let_go(executor: Executor) -> None:
    """Let a broken executor's processes end; the pool misses those that start while it ends the others."""
    if isinstance(executor, _Processes):
        executor.pipe.close()


def _begin(environment: dict[str, str], ended: Connection) -> None:
    os.environ.update(environment)
    warnings.simplefilter("ignore")
    threading.Thread(target=_end_after, args=[ended], daemon=True).start()


def _end_after(ended: Connection) -> NoReturn:
    ended.poll(None)  # nothing is ever sent
    os._exit(1)
