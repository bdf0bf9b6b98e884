"""Runs a study's blocks in Dask's worker processes: its own, or a cluster's.

What all tasks of a run have in common, Prefect's settings and a client above all, takes a tenth of a second
to pack, unpack and make. So it is packed once per run, and unpacked once per worker.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self
from uuid import uuid4

import cloudpickle
import dask
from distributed import Client, Future
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.context import (
    ContextModel,
    FlowRunContext,
    SettingsContext,
    SyncClientContext,
    TagsContext,
    serialize_context,
)
from prefect.task_engine import run_task_sync
from prefect.utilities.annotations import quote
from prefect.utilities.engine import collect_task_run_inputs_sync
from prefect_dask.task_runners import DaskTaskRunner, PrefectDaskFuture

_CONFIG = {
    # Or workers give each freed array back to the kernel, a third of their time.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    "distributed.worker.profile.enabled": False,  # it looks at every thread 100 times a second
    "distributed.admin.tick.interval": "500ms",
    # What nobody looks at, and what need not be known ten times a second: half of what idle workers cost.
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.admin.system-monitor.disk": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.worker.memory.monitor-interval": "1s",
}


class BlockRunner(DaskTaskRunner):
    """Prefect's runner with less to do for each task; for tasks without assets that flows submit."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._packed: dict[Any, bytes] = {}

    def submit(
        self,
        task: Any,
        parameters: dict[str, Any],
        wait_for: Iterable[Any] | None = None,
        dependencies: dict[str, Any] | None = None,
    ) -> Any:
        """Give a task to the cluster, and return its future."""
        task_run_id, given = uuid4(), self._optimize_futures(parameters)
        needed = {
            name: collect_task_run_inputs_sync(value, future_cls=Future) for name, value in given.items()
        }
        for name, others in (dependencies or {}).items():
            needed[name] = needed.get(name, set()) | others
        given = {name: _Quoted(*each) if isinstance(each, quote) else each for name, each in given.items()}
        future = Client.submit(
            self.client,
            run_on_worker,
            self._common(task),
            key=f"{task.name}-{task_run_id}",
            pure=False,  # or all that a task is given is digested
            task_run_id=task_run_id,
            parameters=given,
            wait_for=self._optimize_futures(wait_for) if wait_for else None,
            dependencies=needed,
        )
        return PrefectDaskFuture(wrapped_future=future, task_run_id=task_run_id)

    def _common(self, task: Any) -> bytes:
        """Return a task and the context of its run, packed."""
        run, tags = FlowRunContext.get(), TagsContext.get()
        of = (task, run.flow_run.id if run and run.flow_run else None, frozenset(tags.current_tags))
        if of not in self._packed:
            self._packed[of] = cloudpickle.dumps((task, serialize_context()))
        return self._packed[of]


def run_on_worker(common: bytes, parameters: dict[str, Any], **given: Any) -> Any:
    """Run a task as Prefect's own client lets a worker run it, and return its final state."""
    task, context, client = _unpacked(common)
    parameters = {
        name: quote(each.value) if isinstance(each, _Quoted) else each for name, each in parameters.items()
    }
    with _OpenClient(client):
        return run_task_sync(task, context=context, parameters=parameters, return_type="state", **given)


@lru_cache(maxsize=8)
def _unpacked(common: bytes) -> tuple[Any, dict[str, Any], SyncPrefectClient]:
    """Return a task, the context of its run and a client for it, with settings that are not checked again."""
    task, context = cloudpickle.loads(common)
    with SettingsContext(**context["settings_context"]) as settings:
        client = get_client(sync_client=True).__enter__()
    ready = {"profile": settings.profile, "settings": settings.settings}
    return task, context | {"settings_context": ready}, client


class _OpenClient(SyncClientContext):
    """Lets Prefect find a client that stays open: it makes two for a task, each with all certificates."""

    def __init__(self, client: SyncPrefectClient) -> None:
        ContextModel.__init__(self, client=client)

    def __enter__(self) -> Self:
        return ContextModel.__enter__(self)

    def __exit__(self, *about: Any) -> None:
        ContextModel.__exit__(self, *about)


@dataclass(frozen=True)
class _Quoted:
    """What Prefect is not to look into, on its way: its own `quote` is a tuple, which Dask takes apart."""

    value: Any


def dask_runner(workers: int, scheduler: str | None = None) -> Any:
    """Return what runs tasks on a cluster, ``tcp://HOST:PORT``, or without one on this run's own workers."""
    if scheduler:
        return BlockRunner(address=scheduler)
    dask.config.set(_CONFIG)
    return BlockRunner(
        cluster_kwargs={"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    )
