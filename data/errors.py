"""Errors of data and of the ledger, by the next action of the user or the orchestrator.

Messages contain files, columns, kinds of fault and counts, never the content of a cell.
"""

import difflib
from collections.abc import Iterable, Sequence


class DataError(ValueError):
    """A fault of the data that the user can correct; the message is one sentence.

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


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return the end of a message that suggests the nearest known name, or an empty string."""
    matcher = difflib.SequenceMatcher(b=name)

    def similarity(other: str) -> float:
        matcher.set_seq1(other)
        return matcher.ratio()

    nearest = max(known, key=similarity, default="")  # the first of equally near names
    return f"; did you mean {nearest!r}?" if similarity(nearest) >= 0.5 else ""


def known_names(name: str, known: Sequence[str]) -> str:
    """Return the end of a message that suggests the nearest known name, or all of them."""
    return nearest_name(name, known) or f"; choose one of: {', '.join(known)}"


def require_size(name: str, size: int, most: int, what: str) -> None:
    """Refuse a size that is not among those which the data allow."""
    if not 1 <= size <= most:
        raise DataError(f"{name} must be between 1 and {most:,}, {what}, got {size:,}; choose another size")


class StoreError(DataError):
    """The store is not writable: full, read-only, forbidden or not a folder."""


class Unreachable(DataError):
    """No source delivered the file: offline, not mirrored, no network, not found or timed out.

    ``reasons`` has one entry per source, with its reason.
    """

    def __init__(self, message: str, *, reasons: tuple[str, ...] = (), transient: bool = False) -> None:
        super().__init__(message, transient=transient)
        self.reasons = reasons or (message,)


class CorruptSource(DataError):
    """A source delivered bytes that are not the published data."""


class DamagedFile(CorruptSource):
    """A file is truncated, damaged or of another format: another download may be whole."""


class CorruptTable(DataError):
    """A stored Parquet table is missing or was changed after it was written."""


class LedgerError(DataError):
    """A fault of the ledger or of a request to it that the user can correct."""


class BudgetExhausted(LedgerError):
    """The request exceeds the remaining budget of the dataset; nothing was charged."""


class ContentRefused(LedgerError):
    """The ledger has the data under another name, or other data under this name."""


class AnswerLost(LedgerError):
    """The request was charged, but its process ended without a result; a repetition costs again."""


class LedgerUnavailable(LedgerError):
    """The ledger cannot be read or written: locked, read-only, full, damaged, forbidden or unavailable."""


class LedgerBroken(LedgerError):
    """Another program edited, removed, inserted or moved an entry."""
