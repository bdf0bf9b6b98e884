"""Calls a task's function in a worker process of the run's Dask cluster, if it has one.

Prefect's tasks stay in threads of the run's process, which wait. A worker needs this project, but neither
Prefect's server nor its settings, so a standing cluster serves any number of runs with servers of their
own.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_clusters: list[Any] = []  # the distributed.Client of this process's run, or nothing


@contextmanager
def on_cluster(client: Any) -> Iterator[None]:
    """Let `computed` use a cluster, named by its `distributed.Client`."""
    _clusters.append(client)
    try:
        yield
    finally:
        _clusters.remove(client)


def computed(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function and return what it returns; any of the cluster's workers may do it."""
    if not _clusters:
        return function(*args, **kwargs)
    result: T = _clusters[-1].submit(function, *args, **kwargs, pure=False).result()
    return result
