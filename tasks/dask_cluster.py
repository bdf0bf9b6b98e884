"""Dask workers as the place where blocks are computed: a run's own, or those of a standing cluster."""

import logging
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import dask
import distributed

import dpalgos
from data.errors import StoreError
from data.store.code_digest import code_digest
from data.store.folders import close_home, home
from data.store.shared import VARIABLE, check_shared_store, shared_address
from tasks.errors import SpecError
from tasks.run.watch import watched
from tasks.workers import Workers, opened

T = TypeVar("T")
_distributed: Any = distributed  # without types
_CONNECT_SECONDS = 10
_LOST_AFTER = 30.0  # seconds without an answer of the scheduler, or of a worker
AT_LEAST = 32  # blocks that are under way; workers may come later

_CONFIG = {
    # Or workers give each freed array back to the kernel, a third of their time.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    "distributed.nanny.pre-spawn-environ.PYTHONWARNINGS": "ignore",  # as in the processes of engine local
    # Partial sums show what the rows are; own workers never write them to a disk.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    # What nobody looks at, and what need not be known ten times a second: half of what idle workers cost.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.admin.system-monitor.disk": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.worker.memory.monitor-interval": "1s",
}


@contextmanager
def own_cluster(count: int) -> Iterator[None]:
    """Compute on so many worker processes of this machine."""
    # Errors arrive here with their blocks; workers need not log them, too.
    options = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": logging.CRITICAL}
    # What a killed worker leaves lies in the home, and Dask deletes it when the next ones start.
    workspace = {"temporary-directory": str(home() / "workspace")}
    with (
        dask.config.set(_CONFIG | workspace),
        _distributed.LocalCluster(n_workers=count, **options) as cluster,
        _distributed.Client(cluster, set_as_default=False) as client,
        opened(workers_of(client, count)),
        silence_noted(client),
    ):
        yield


@contextmanager
def standing_cluster(scheduler: str, when_lost: Callable[[str], object]) -> Iterator[None]:
    """Compute on the workers of a cluster, ``tcp://HOST:PORT``.

    Dask's own client may wait forever for a scheduler that is gone, or cancel all blocks: then `when_lost`
    gets one sentence, perhaps in another thread.
    """
    check_workers(scheduler)
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # it prints tracebacks
    name = f"the Dask scheduler at {scheduler}"
    try:
        with (
            watched(name, lambda: _answers(scheduler), when_lost, after=_LOST_AFTER),
            _connected(scheduler) as client,
        ):
            count = max(AT_LEAST, 2 * sum(client.nthreads().values()))
            with opened(workers_of(client, count)), silence_noted(client):
                yield
    except Exception:
        if not _answers(scheduler):
            when_lost(f"{name} is gone")
        raise


def workers_of(client: Any, count: int) -> Workers:
    return Workers(lambda: client.get_executor(pure=False), count)


@contextmanager
def silence_noted(client: Any, after: float = _LOST_AFTER, every: float = 5.0) -> Iterator[None]:
    """Warn once of each worker that sends no heartbeat: Dask gives its blocks to others minutes later."""
    over, known = threading.Event(), set[str]()

    def watch() -> None:
        while not over.wait(every):
            with suppress(Exception):  # `watched` tells of the scheduler
                for worker in silent_workers(client, after):
                    if worker not in known:
                        known.add(worker)
                        warnings.warn(
                            f"{_hung(worker, after)}, or wait: Dask gives its blocks to others", stacklevel=2
                        )

    threading.Thread(target=watch, name="silent workers", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def silent_workers(client: Any, seconds: float) -> list[str]:
    """Return the workers that have sent no heartbeat for so many seconds."""

    def silences(dask_scheduler: Any) -> dict[str, float]:  # a scheduler need not have this module
        import time

        return {name: time.time() - each.last_seen for name, each in dask_scheduler.workers.items()}

    return sorted(name for name, silence in client.run_on_scheduler(silences).items() if silence > seconds)


def _hung(worker: str, seconds: float) -> str:
    return f"the Dask worker {worker} has not answered for {seconds:.0f} s; start it again"


def _within(seconds: float, function: Callable[[], T]) -> T | None:
    """Return what a function returns within so many seconds; None if it takes longer, and goes on alone."""
    future: Future[T] = Future()

    def call() -> None:
        try:
            future.set_result(function())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    return future.result() if wait([future], seconds).done else None


def _answers(scheduler: str) -> bool:
    host, _, port = scheduler.removeprefix("tcp://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def check_workers(scheduler: str) -> None:
    """Refuse a cluster without workers, or with one of other code or that cannot share results."""
    try:
        with _connected(scheduler) as client:
            ask = partial(client.run, check_worker, _code(), _results_at(), on_error="return")
            problems, hung = _within(_LOST_AFTER, ask), list[str]()
            if problems is None:
                hung = silent_workers(client, _LOST_AFTER / 2) or ["that it names"]
    except (OSError, OverflowError, ValueError):
        raise SpecError(
            f"--engine must name a Dask scheduler that answers, got {scheduler}; start one with `dask "
            "scheduler`, or use --engine dask"
        ) from None
    if hung:
        raise SpecError(_hung(", ".join(hung), _LOST_AFTER))
    if not problems:
        raise SpecError(
            f"the Dask scheduler at {scheduler} has no workers; start some with: dask worker {scheduler}"
        )
    for worker, problem in sorted(problems.items()):
        if isinstance(problem, Exception):
            problem = (
                f"cannot run this project ({type(problem).__name__}); install it there, and start it again"
            )
        if problem:
            raise SpecError(f"the Dask worker {worker} {problem}")


def check_worker(code: str, results_at: str) -> str:
    """Return what keeps this worker from sharing a run's work; empty if nothing does."""
    if _code() != code:
        return "runs another version of the code or of a numerical library; install the same versions there"
    if _results_at() != results_at:
        return (
            f"cannot share results with this run: {VARIABLE} is {shared_address() or 'not set'} there, and "
            f"the run's results are at {results_at}; set {VARIABLE} to one address that all can reach"
        )
    try:
        check_shared_store()
        close_home()
    except StoreError as fault:
        return f"cannot use the shared store or its home: {fault}"
    return ""


def _results_at() -> str:
    """Return where a process's results are found by others: a shared store, or a home on one machine."""
    return shared_address() or f"{home()} on {socket.gethostname()}"


def _code() -> str:
    estimators = {dpalgos.get_estimator(entry.name).module for entry in dpalgos.catalog()}
    return code_digest(["tasks.run.compute", "tasks.run.compute", *estimators])


def _connected(scheduler: str) -> Any:
    return _distributed.Client(scheduler, timeout=_CONNECT_SECONDS, set_as_default=False)
