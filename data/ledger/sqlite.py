"""The ledger as one SQLite file, for the processes of one machine.

A rollback journal, not a write-ahead log: before SQLite 3.51.3 two processes that write and checkpoint a log
at the same moment can lose pages of it (the "WAL-reset bug"), and Python comes with older ones. It also keeps
the ledger in one file that can be copied while nobody writes. ``synchronous=EXTRA`` makes a commit survive a
power cut. File locks of network folders are not to be trusted, so these are refused; several machines need
PostgreSQL.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path

from data.ledger.database import APPEND_ONLY, TABLES, Execute
from data.ledger.errors import LedgerUnavailable
from data.store.folders import private_folder
from data.store.local_disk import require_local_disk

SEAT_BELTS = tuple(
    f"CREATE TRIGGER {table}_{name} BEFORE {event} ON {table} BEGIN SELECT RAISE(ABORT, '{APPEND_ONLY}'); END"
    for table, event, name in (
        ("dpcost_ledger", "UPDATE", "no_update"),
        ("dpcost_ledger", "DELETE", "no_delete"),
        ("dpcost_ledger_head", "DELETE", "no_delete"),
    )
)

FAULTS = {
    "SQLITE_BUSY": "is in use by other processes; try again in a minute, and look for one that hangs",
    "SQLITE_LOCKED": "is in use by other processes; try again in a minute, and look for one that hangs",
    "SQLITE_READONLY": "is read-only; make the file and its folder writable",
    "SQLITE_PERM": "is forbidden; make the file and its folder readable and writable",
    "SQLITE_AUTH": "is forbidden; make the file and its folder readable and writable",
    "SQLITE_FULL": "cannot grow, for the disk is full; free some space",
    "SQLITE_CANTOPEN": "cannot be opened; check that its folder exists and is readable and writable",
    "SQLITE_NOTADB": "is not a ledger (the file is damaged or something else); restore it from a backup",
    "SQLITE_CORRUPT": "is damaged; restore it from a backup",
    "SQLITE_IOERR": "cannot be read or written, for the disk reports an error; check the disk and its space",
}
TRANSIENT = ("SQLITE_BUSY", "SQLITE_LOCKED")


class SQLiteDatabase:
    """The chain in a file.

    Parameters
    ----------
    path : Path
        The file; created, with its folder, by the first writing.
    lock_timeout : float
        For how many seconds to wait for other writers.
    """

    def __init__(self, path: Path, *, lock_timeout: float) -> None:
        self._path = path.resolve()
        self._lock_timeout = lock_timeout

    @property
    def place(self) -> str:
        """The file's path."""
        return str(self._path)

    @property
    def name(self) -> str:
        """The file's name."""
        return self._path.name

    @contextmanager
    def writing(self) -> Iterator[tuple[Execute, bool]]:
        """Exclude every other writer; commit at the end, or undo everything after an error."""
        require_local_disk("the ledger", self._path.parent)
        try:
            private_folder(self._path.parent)
        except OSError as error:
            raise LedgerUnavailable(
                f"the folder {self._path.parent} for the ledger cannot be created ({error.strerror}); "
                "create it, or set DPCOST_HOME to another one"
            ) from None
        self._make_private()
        with self._connection("rwc") as (connection, execute):
            with self._faults():
                for pragma in ("journal_mode=DELETE", "synchronous=EXTRA", "fullfsync=1"):
                    execute(f"PRAGMA {pragma}")
                execute("BEGIN IMMEDIATE")
            try:
                with self._faults():
                    if is_new := not _has_tables(execute):
                        for statement in (*TABLES, *SEAT_BELTS):
                            execute(statement)
                yield execute, is_new
                with self._faults():
                    connection.commit()
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.rollback()
                raise

    def reserve(self, size: int) -> None:
        """Take so many bytes of the disk, in a file beside the ledger; it stays for the next charge."""
        try:
            descriptor = os.open(self._reserve, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if os.fstat(descriptor).st_size < size:
                    os.posix_fallocate(descriptor, 0, size)
            finally:
                os.close(descriptor)
        except OSError as error:
            self.free_reserve()
            raise LedgerUnavailable(
                f"the disk of the ledger {self._path} has no {size / 1e6:.0f} MB left for the answer "
                f"({error.strerror}); nothing was charged: free some space and ask again"
            ) from None

    def free_reserve(self) -> bool:
        """Delete that file, and say whether it was there."""
        try:
            self._reserve.unlink()
        except OSError:
            return False
        return True

    @property
    def _reserve(self) -> Path:
        return self._path.with_name(f"{self._path.name}-reserve")

    @property
    def is_damaged(self) -> bool:
        """Whether the file is there and is not one that SQLite can read from end to end."""
        try:
            with self._connection("ro") as (_, execute):
                return execute("PRAGMA quick_check") != [("ok",)]
        except LedgerUnavailable as fault:
            return isinstance(fault.__cause__, sqlite3.DatabaseError) and not fault.transient

    def set_aside(self) -> Path:
        """Move the file out of the way, for whoever wants to look at it, and return where it is."""
        for number in count(1):
            aside = self._path.with_name(f"{self._path.name}.damaged-{number}")
            if not aside.exists():
                return self._path.rename(aside)
        raise AssertionError("unreachable")

    @contextmanager
    def without_belts(self, execute: Execute) -> Iterator[None]:
        """Lift the triggers that make the tables append-only, within a transaction."""
        for belt in SEAT_BELTS:
            execute(f"DROP TRIGGER IF EXISTS {belt.split()[2]}")
        yield
        for belt in SEAT_BELTS:
            execute(belt)

    @contextmanager
    def reading(self) -> Iterator[Execute | None]:
        """Show one state of the ledger, or ``None`` where none was ever written."""
        if not self._path.exists():
            yield None
            return
        with self._connection("rw") as (_, execute):
            execute("BEGIN")
            yield execute if _has_tables(execute) else None

    def _make_private(self) -> None:
        """Let nobody else read the file, nor its journal, which takes after it."""
        with suppress(OSError):  # what is wrong with the file is for SQLite to say
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                mode = os.fstat(descriptor).st_mode
                if mode & 0o077:
                    os.fchmod(descriptor, mode & 0o700)
            finally:
                os.close(descriptor)

    @contextmanager
    def _connection(self, mode: str) -> Iterator[tuple[sqlite3.Connection, Execute]]:
        with self._faults():
            connection = sqlite3.connect(
                f"{self._path.as_uri()}?mode={mode}",
                uri=True,
                timeout=self._lock_timeout,
                isolation_level=None,
            )

        def execute(statement: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
            with self._faults():
                return connection.execute(statement, values).fetchall()

        with closing(connection):
            yield connection, execute

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Turn what SQLite reports into one sentence with what to do."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorname", None) or ""
            kind = "_".join(code.split("_")[:2])
            advice = FAULTS.get(kind, f"cannot be used ({error}); run dpcost ledger verify")
            raise LedgerUnavailable(
                f"the ledger {self._path} {advice}", transient=kind in TRANSIENT
            ) from error


def _has_tables(execute: Execute) -> bool:
    return bool(execute("SELECT 1 FROM sqlite_master WHERE name = 'dpcost_ledger'"))
