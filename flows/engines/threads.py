"""Threads of the run's own process, each with one block at a time."""

import os
from typing import Any

from prefect.task_runners import ThreadPoolTaskRunner


def threads(count: int) -> Any:
    """Return the task runner of so many blocks at a time."""
    return ThreadPoolTaskRunner(max_workers=count)


THREADS: Any = threads(os.cpu_count() or 1)
