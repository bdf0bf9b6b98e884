"""A Dask cluster that somebody else runs: whether its workers would compute what this run means."""

import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dpalgos
from data.errors import StoreError
from data.store.code_digest import code_digest
from data.store.folders import atomic_write, close_home, home
from data.store.shared import VARIABLE, check_shared_store, shared_address
from flows.server.supervision import Say, ServerError, watched
from tasks.faults import MENDABLE, SpecError

_TIMEOUT = 10


def check_workers(scheduler: str) -> None:
    """Refuse a cluster without workers, or with one that has other code or cannot share this run's results.

    Every block is checked again where it runs, for workers may come later.

    Parameters
    ----------
    scheduler : str
        ``tcp://HOST:PORT``.

    Raises
    ------
    SpecError
        If so, naming the first such worker and what to do.
    """
    marker = home() / f".cluster-{os.getpid()}-{secrets.token_hex(4)}"
    atomic_write(marker, b"")
    try:
        with _connected(scheduler) as client:
            found = client.run(about_this_worker, marker.name, on_error="return")
    except OSError:
        raise SpecError(f"the Dask scheduler at {scheduler} does not answer; start it again") from None
    finally:
        marker.unlink()
    if not found:
        raise SpecError(
            f"the Dask scheduler at {scheduler} has no workers; start some with: dask worker {scheduler}"
        )
    own = about_this_worker(marker.name)
    for worker, about in sorted(found.items()):
        if problem := _problem(about, own):
            raise SpecError(f"the Dask worker {worker} {problem}")


@contextmanager
def watched_scheduler(scheduler: str, when_lost: Say) -> Iterator[None]:
    """Call `when_lost` if the scheduler is gone, or another has taken its place, which knows no block.

    Dask's own client may wait for it, or for blocks that nobody computes, for good; or give up.

    Raises
    ------
    ServerError
        If the body failed because of that.
    """
    first = _identity(scheduler)
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # it prints tracebacks

    def lives() -> bool:
        return _identity(scheduler) == first

    with watched(f"the Dask scheduler at {scheduler}", lives, when_lost, after=30.0):
        try:
            yield
        except MENDABLE:
            raise
        except Exception:
            if not lives():
                raise ServerError(
                    f"the Dask scheduler at {scheduler} is gone; finished blocks are stored, start it and "
                    "run the same command again to go on"
                ) from None
            raise


def _identity(scheduler: str) -> str:
    """Return what tells one scheduler from the next at its address; empty if none answers."""
    try:
        with _connected(scheduler) as client:
            return str(client.scheduler_info()["id"])
    except (OSError, RuntimeError):
        return ""


def _connected(scheduler: str) -> Any:
    import distributed

    connect: Any = distributed.Client  # without types
    return connect(scheduler, timeout=_TIMEOUT, set_as_default=False)


def about_this_worker(marker: str) -> dict[str, Any]:
    """Return what a worker has to have in common with a run; runs on the worker, and closes its home."""
    estimators = {dpalgos.get_estimator(entry.name).function.__module__ for entry in dpalgos.catalog()}
    problem = ""
    try:
        close_home()
        check_shared_store()
    except StoreError as fault:
        problem = str(fault)
    return {
        "code": code_digest(["tasks.run.run_block", "tasks.run.audit_cell", *estimators]),
        "store": shared_address(),
        "problem": problem,
        "same_home": Path(home() / marker).exists(),
    }


def _problem(about: Any, own: dict[str, Any]) -> str:
    if not isinstance(about, dict):
        return (
            f"cannot run this project ({type(about).__name__}); install it there in the same version, and "
            "start the worker again"
        )
    if about["code"] != own["code"]:
        return (
            "has another version of the code, or of a library that computes; install the same there, and "
            "start the worker again"
        )
    if about["store"] != own["store"] or not (about["store"] or about["same_home"]):
        return (
            f"cannot share results with this run: {VARIABLE} is {about['store'] or 'not set'} there and "
            f"{own['store'] or 'not set'} here, and the homes are not one folder; set {VARIABLE} to one "
            "address that all can reach"
        )
    return f"cannot use its home or the shared store: {about['problem']}" if about["problem"] else ""
