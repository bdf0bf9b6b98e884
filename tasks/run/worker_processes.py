"""Worker processes of this machine: what computes in threads of one process waits for Python's lock.

They are forked from a process that has loaded what most blocks need, take one call at a time, and end with
the process that asked for them, however that one ends.
"""

import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NoReturn, ParamSpec, TypeVar

from tasks.errors import SpecError
from tasks.run.resources import listeners, on_processes, told, use_threads
from tasks.turns import SECONDS_TO_STOP, STOPPED

P = ParamSpec("P")
T = TypeVar("T")

_LOADED = ["tasks.run.block", "tasks.run.headline", "tasks.ingest", "dpalgos.audit.lower_bound"]
_DIED = (
    "a worker process was killed, as happens where memory ends; finished blocks are stored: free some memory "
    "or take fewer --workers, and run the same command again"
)


@contextmanager
def worker_processes(count: int) -> Iterator[int]:
    """Compute blocks in so many processes, and what is no block in one more; give the number.

    Workers start when they are needed. Where fewer calls are under way than cores, each may use several.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(_LOADED)
    ended, alive = context.Pipe(duplex=False)
    heard, shares = context.Pipe(duplex=False)
    under_way = context.Value("i", 0)
    threads = partial(_idle_cores, count, under_way)
    given = (ended, shares, context.Lock(), threads, dict(os.environ), list(warnings.filters))
    pool = ProcessPoolExecutor(count + 1, context, initializer=_begin, initargs=given)
    shown: dict[Any, int] = {}  # the warnings of all workers

    def call(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        _add(under_way, 1)
        try:
            future = pool.submit(_called, partial(function, *args, **kwargs))
            while not wait([future], timeout=SECONDS_TO_STOP).done:
                if STOPPED.is_set():
                    alive.close()  # nobody waits for what is under way
            result, said = future.result()
        except BrokenProcessPool:
            if STOPPED.is_set():
                raise KeyboardInterrupt from None
            raise SpecError(_DIED) from None
        finally:
            _add(under_way, -1)
        for message, category, file, line in said:
            warnings.warn_explicit(message, category, file, line, registry=shown)
        return result

    def listen() -> None:
        while True:
            try:
                share = heard.recv()
            except (EOFError, OSError):  # no process can write any more, maybe since one died half-way
                heard.close()
                return
            told(*share)

    threading.Thread(target=listen, name="shares of workers", daemon=True).start()
    try:
        with on_processes(call):
            yield count
    finally:
        alive.close()
        pool.shutdown(cancel_futures=True)
        shares.close()  # workers have ended, so that this ends the thread


def _add(number: Any, more: int) -> None:
    with number.get_lock():
        number.value += more


def _idle_cores(count: int, under_way: Any) -> int:
    return max(1, count // max(1, int(under_way.value)))


def _begin(
    ended: Connection,
    shares: Connection,
    one_at_a_time: Any,
    threads: Callable[[], int],
    environment: dict[str, str],
    filters: list[Any],
) -> None:
    """Make this process a worker: signals are for the one that asked, and so are shares of blocks."""
    for action, message, category, module, line in reversed(filters):
        patterns = (getattr(each, "pattern", "") for each in (message, module))
        warnings.filterwarnings(action, next(patterns), category, next(patterns), line)
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    os.environ.update(environment)
    threading.Thread(target=_end_with, args=(ended,), daemon=True).start()
    use_threads(threads)

    def tell(*share: Any) -> None:
        with one_at_a_time:
            shares.send(share)

    listeners.append(tell)


def _called(function: Callable[[], T]) -> tuple[T, list[Any]]:
    """Return what a function returns, and the warnings on the way."""
    with warnings.catch_warnings(record=True) as said:
        result = function()
    return result, [(each.message, each.category, each.filename, each.lineno) for each in said]


def _end_with(ended: Connection) -> NoReturn:
    ended.poll(None)  # until the other end is closed, as it is when its process is gone
    os._exit(1)
