"""Dask workers as the place where blocks are computed: a run's own, or those of a standing cluster."""

import logging
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dask
import distributed

import dpalgos
from data.errors import StoreError
from data.store.code_digest import code_digest
from data.store.folders import atomic_write, close_home, home
from data.store.shared import VARIABLE, check_shared_store, shared_address
from flows import ServerError
from flows.local_server import watched
from tasks.errors import MENDABLE, SpecError
from tasks.run.resources import on_cluster

_distributed: Any = distributed  # without types
_CONNECT_SECONDS = 10

_CONFIG = {
    # Or workers give each freed array back to the kernel, a third of their time.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
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
def own_workers(count: int) -> Iterator[int]:
    """Compute on so many worker processes of this machine; give how many blocks to have under way."""
    # Errors arrive here with their blocks; workers need not log them, too.
    options = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": logging.CRITICAL}
    # What a killed worker leaves lies in the home, and Dask deletes it when the next ones start.
    workspace = {"temporary-directory": str(home() / "workspace")}
    with (
        dask.config.set(_CONFIG | workspace),
        _distributed.LocalCluster(n_workers=count, **options) as cluster,
        _distributed.Client(cluster, set_as_default=False) as client,
        on_cluster(client),
    ):
        yield count


@contextmanager
def standing_cluster(scheduler: str, when_lost: Callable[[str], object]) -> Iterator[int]:
    """Compute on the workers of a cluster, ``tcp://HOST:PORT``; give how many blocks to have under way.

    Dask's own client may wait for good for a scheduler that is gone, or for blocks that nobody computes: then
    `when_lost` gets one sentence, in another thread, and a body that failed of it raises ServerError.
    """
    first = _identity(scheduler)
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # it prints tracebacks

    def lives() -> bool:
        return _identity(scheduler) == first  # one that took its place knows no block

    with (
        watched(f"the Dask scheduler at {scheduler}", lives, when_lost, after=30.0),
        _connected(scheduler) as client,
        on_cluster(client),
    ):
        try:
            # A block waits at each worker while another is computed there; workers may come later.
            yield max(32, 2 * sum(client.nthreads().values()))
        except MENDABLE:
            raise
        except Exception:
            if not lives():
                raise ServerError(
                    f"the Dask scheduler at {scheduler} is gone; finished blocks are stored, start it and "
                    "run the same command again to go on"
                ) from None
            raise


def check_workers(scheduler: str) -> None:
    """Refuse a cluster without workers, or with one of other code or that cannot share results."""
    marker = home() / f".cluster-{os.getpid()}-{secrets.token_hex(4)}"
    atomic_write(marker, b"")
    try:
        with _connected(scheduler) as client:
            arguments = (_code(), shared_address(), marker.name)
            problems = client.run(check_worker, *arguments, on_error="return")
            if not any(problems.values()):
                problems = client.run(close_worker_home, on_error="return")
    except (OSError, OverflowError, ValueError):
        raise SpecError(
            f"--engine must name a Dask scheduler that answers, got {scheduler}; start one with `dask "
            "scheduler`, or use --engine dask"
        ) from None
    finally:
        marker.unlink()
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


def check_worker(code: str, store: str, marker: str) -> str:
    """Return what keeps this worker from sharing a run's work; empty if nothing does."""
    if _code() != code:
        return "has another version of the code, or of a library that computes; install the same there"
    if shared_address() != store or not (store or (home() / marker).exists()):
        return (
            f"cannot share results with this run: {VARIABLE} is {shared_address() or 'not set'} there and "
            f"{store or 'not set'} here, and the homes are not one folder; set {VARIABLE} to one address "
            "that all can reach"
        )
    try:
        check_shared_store()
    except StoreError as fault:
        return f"cannot use the shared store: {fault}"
    return ""


def close_worker_home() -> str:
    """Close this worker's home to other accounts; return why that fails, or nothing."""
    try:
        close_home()
    except StoreError as fault:
        return f"cannot use its home: {fault}"
    return ""


def _code() -> str:
    estimators = {dpalgos.get_estimator(entry.name).function.__module__ for entry in dpalgos.catalog()}
    return code_digest(["tasks.run.block", "tasks.run.headline", *estimators])


def _identity(scheduler: str) -> str:
    """Return the identity of the scheduler at an address; empty if none answers."""
    try:
        with _connected(scheduler) as client:
            return str(client.scheduler_info()["id"])
    except (OSError, RuntimeError):
        return ""


def _connected(scheduler: str) -> Any:
    return _distributed.Client(scheduler, timeout=_CONNECT_SECONDS, set_as_default=False)
