"""The threads of a computation: one in matrix products, for results that do not depend on the machine."""

from threadpoolctl import threadpool_limits


def one_blas_thread() -> None:
    """Limit this process's matrix products to one thread each, for results that do not depend on the machine.

    The number of threads decides in which order BLAS adds, so the last bits depend on it. The limit is the
    process's, not the thread's: one that ended with a block would be lifted while others still compute.
    """
    threadpool_limits(1)
