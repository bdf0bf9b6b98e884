"""Errors of data and of the ledger, by what a user or the orchestrator should do next.

Messages name files, columns, kinds of fault and counts; never the content of a cell.
"""

from collections.abc import Sequence


class DataError(ValueError):
    """Something about the data that the user can mend; the message is one sentence.

    ``transient``: whether the same request may succeed a moment later.
    """

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


def numbered(faults: Sequence[str]) -> str:
    """Return faults as one sentence; several are numbered."""
    if len(faults) == 1:
        return faults[0]
    return "; ".join(f"({number}) {fault}" for number, fault in enumerate(faults, 1))


class StoreError(DataError):
    """The store could not be written: full, read-only, forbidden or not a folder."""


class Unreachable(DataError):
    """No place delivered the file: offline, not mirrored, no network, not found, timed out.

    ``reasons`` holds one entry per place tried, and why it did not deliver.
    """

    def __init__(self, message: str, *, reasons: tuple[str, ...] = (), transient: bool = False) -> None:
        super().__init__(message, transient=transient)
        self.reasons = reasons or (message,)


class CorruptSource(DataError):
    """A place delivered bytes that are not the published data."""


class CorruptTable(DataError):
    """A stored Parquet table is missing or was changed after it was written."""


class LedgerError(DataError):
    """Something about the ledger, or a request to it, that the user can mend."""


class BudgetExhausted(LedgerError):
    """The request exceeds the remaining budget of the dataset; nothing was charged."""


class ContentRefused(LedgerError):
    """The data are known under another name, or the name is known with other data."""


class AnswerLost(LedgerError):
    """The request was charged, but its process ended without an answer; another try costs again."""


class LedgerUnavailable(LedgerError):
    """The ledger cannot be read or written: locked, read-only, full, damaged, forbidden or away."""


class LedgerBroken(LedgerError):
    """An entry was edited, removed, inserted or moved by something that is not the ledger."""
