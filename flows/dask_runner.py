"""Runs a study's blocks in Dask's worker processes: its own, or a cluster's."""

from collections.abc import Iterable
from typing import Any

import dask
from prefect_dask.task_runners import DaskTaskRunner, PrefectDaskFuture

_CONFIG = {
    # Or workers give each freed array back to the kernel, a third of their time.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    "distributed.worker.profile.enabled": False,  # it looks at every thread 100 times a second
    "distributed.admin.tick.interval": "500ms",
}


class BlockRunner(DaskTaskRunner):
    """Prefect's runner, but without a digest of all that a task is given, which it never uses."""

    def submit(
        self,
        task: Any,
        parameters: dict[str, Any],
        wait_for: Iterable[Any] | None = None,
        dependencies: dict[str, Any] | None = None,
    ) -> Any:
        """Give a task to the cluster, and return its future."""
        client: Any = self.client  # without types
        future = client.submit(
            task,
            parameters=self._optimize_futures(parameters),
            wait_for=self._optimize_futures(wait_for) if wait_for else None,
            dependencies=dependencies,
            return_type="state",
            pure=False,
        )
        return PrefectDaskFuture(wrapped_future=future, task_run_id=future.task_run_id)


def dask_runner(workers: int, scheduler: str | None = None) -> Any:
    """Return what runs tasks on a cluster, ``tcp://HOST:PORT``, or without one on this run's own workers."""
    if scheduler:
        return BlockRunner(address=scheduler)
    dask.config.set(_CONFIG)
    return BlockRunner(
        cluster_kwargs={"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    )
