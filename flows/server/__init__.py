"""What composes Prefect's server, its deployments, sign-in and Dask workers."""

from collections.abc import Callable

Say = Callable[[str], object]


class ServerError(RuntimeError):
    """A server that is needed could not be started or is gone; the message is one sentence."""
