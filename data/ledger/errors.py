"""Errors of the ledger, by what its user should do next."""

from data.errors import DataError


class LedgerError(DataError):
    """Something about the ledger, or a request to it, that the user can mend; one sentence."""


class BudgetExhausted(LedgerError):
    """The request exceeds the remaining budget of the dataset; nothing was charged."""


class ContentRefused(LedgerError):
    """The data are known under another name, or the name is known with other data."""


class AnswerLost(LedgerError):
    """The request was charged, but its process ended without an answer; another try costs again."""


class AnswerPending(LedgerError):
    """Another process or thread is still working on the answer to the same request."""

    transient = True


class LedgerUnavailable(LedgerError):
    """The ledger cannot be read or written: locked, read-only, full, damaged, forbidden or away.

    Parameters
    ----------
    message : str
        One sentence.
    transient : bool
        True if the same request may succeed a moment later.
    """

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


class LedgerBroken(LedgerError):
    """An entry was edited, removed, inserted or moved by something that is not the ledger."""
