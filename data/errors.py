"""Errors of data, by what a user or the orchestrator should do next.

Messages name files, columns, kinds of fault and counts; never the content of a cell.
"""


class DataError(ValueError):
    """Something about the data that the user can mend; the message is one sentence.

    Attributes
    ----------
    transient : bool
        True only where the same request may succeed a moment later.
    """

    transient: bool = False


class StoreError(DataError):
    """The store could not be written: full, read-only, forbidden or not a folder."""


class Unreachable(DataError):
    """No place delivered the file: offline, not mirrored, no network, not found, timed out.

    Parameters
    ----------
    message : str
        One sentence.
    reasons : tuple of str
        One entry per place tried, and why it did not deliver.
    transient : bool
        True if at least one place may answer a moment later (timeout, 5xx, broken connection).
    """

    def __init__(self, message: str, *, reasons: tuple[str, ...] = (), transient: bool = False) -> None:
        super().__init__(message)
        self.reasons = reasons or (message,)
        self.transient = transient


class CorruptSource(DataError):
    """A place delivered bytes that are not the published data."""


class CorruptTable(DataError):
    """A stored Parquet table is missing or was changed after it was written."""
