"""The threads of a computation: one in matrix products, for results that do not depend on the machine."""

import os
from collections.abc import Callable

from threadpoolctl import threadpool_limits


def one_blas_thread() -> None:
    """Limit this process's matrix products to one thread each, for results that do not depend on the machine.

    The number of threads decides in which order BLAS adds, so the last bits depend on it. The limit is the
    process's, not the thread's: one that ended with a block would be lifted while others still compute.
    """
    threadpool_limits(1)


_count_threads: Callable[[], int] | None = None


def use_threads(count: Callable[[], int]) -> None:
    """Let blocks in this process use as many threads as ``count`` says whenever they ask."""
    global _count_threads
    _count_threads = count


def threads_now() -> int:
    """Return how many threads a block may use now: of the cores that no other block uses, or one."""
    return _count_threads() if _count_threads else 1


def cores_now() -> int:
    """Return how many threads may make a dataset: in a worker as many as a block may use, else all cores."""
    return _count_threads() if _count_threads else os.cpu_count() or 1
