"""How many of a flow's tasks run at a time in threads of its process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prefect.context import FlowRunContext
from prefect.task_runners import ThreadPoolTaskRunner


def _threads(workers: int) -> ThreadPoolTaskRunner[Any]:
    return ThreadPoolTaskRunner(max_workers=workers)


THREADS: Any = _threads(os.cpu_count() or 1)


@contextmanager
def threads_at_once(workers: int | None) -> Iterator[None]:
    """Run the tasks that this flow submits meanwhile in so many threads, and not by the flow's own runner.

    Parameters
    ----------
    workers : int, optional
        How many; without a number the flow's own runner goes on.
    """
    context = FlowRunContext.get()
    if workers is None or context is None:
        yield
        return
    with (
        _threads(workers) as runner,
        context.model_copy(update={"task_runner": runner}),
    ):
        yield
