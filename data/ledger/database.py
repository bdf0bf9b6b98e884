"""The database of the ledger's chain: one process at a time may extend it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

Row = tuple[Any, ...]
Execute = Callable[..., list[Row]]
"""Runs one statement, its values marked ``?`` and given as a sequence, and returns the rows."""

APPEND_ONLY = "the ledger is append-only"

TABLES = (
    """
    CREATE TABLE dpcost_ledger (
        seq BIGINT PRIMARY KEY,
        kind TEXT NOT NULL,
        dataset TEXT NOT NULL,
        subject TEXT NOT NULL,
        digest TEXT NOT NULL,
        previous TEXT NOT NULL,
        hash TEXT NOT NULL,
        body TEXT NOT NULL
    )
    """,
    "CREATE INDEX dpcost_ledger_by_dataset ON dpcost_ledger (dataset, kind, seq)",
    "CREATE INDEX dpcost_ledger_by_subject ON dpcost_ledger (subject, kind, seq)",
    "CREATE UNIQUE INDEX dpcost_ledger_opened_once ON dpcost_ledger (dataset) WHERE kind = 'open'",
    "CREATE UNIQUE INDEX dpcost_ledger_released_once ON dpcost_ledger (subject) WHERE kind = 'release'",
    """
    CREATE TABLE dpcost_ledger_head (
        n_entries BIGINT NOT NULL,
        hash TEXT NOT NULL,
        key_id TEXT NOT NULL,
        mac TEXT NOT NULL
    )
    """,
)


class Database(Protocol):
    """A place for the chain. Every transaction has a connection of its own, so that forks do no harm."""

    @property
    def place(self) -> str:
        """What to call it in a sentence; never holds a password."""

    @property
    def name(self) -> str:
        """What it is called beside the key; stays the same when the home folder moves."""

    def writing(self) -> AbstractContextManager[tuple[Execute, bool]]:
        """Exclude every other writer; commit to the disk at the end, or undo everything after an error.

        The tables are created if there are none; the second value says so.

        Raises
        ------
        LedgerUnavailable
            If it cannot be had or written, with what to do.
        """

    def reserve(self, size: int) -> None:
        """Take so many bytes of the disk for what is written later, where this machine's disk is meant.

        Raises
        ------
        LedgerUnavailable
            If they are not there.
        """

    def free_reserve(self) -> bool:
        """Give back what was reserved, and say whether anything was."""

    def without_belts(self, execute: Execute) -> AbstractContextManager[None]:
        """Let a restored backup take the place of entries, within a transaction of `writing`."""

    def reading(self) -> AbstractContextManager[Execute | None]:
        """Show one state of the ledger, or ``None`` where none was ever written.

        Raises
        ------
        LedgerUnavailable
            If it cannot be read, with what to do.
        """


def first_value(rows: Sequence[Row]) -> Any:
    """Return the only value of a statement that gives one."""
    return rows[0][0]
