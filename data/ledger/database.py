"""The two tables of the ledger, in one SQLite file or in a PostgreSQL database that machines share.

A third one holds the number of their format; a ledger of an unknown format is refused.

The process that makes a release about a dataset excludes all others from charge to result. The system
releases the lock when the process ends, however it ends. It is a file's lock (flock), or PostgreSQL's
advisory lock, which ends with the connection. A writer excludes all others for the moment of its transaction:
SQLite locks its file, PostgreSQL holds an advisory lock. Every transaction has a connection of its own, which
makes forks harmless.

SQLite keeps a rollback journal and no write-ahead log. Before 3.51.3, and Python comes with older versions,
two processes that write and checkpoint a log at the same moment can lose pages of it. ``synchronous=EXTRA``
makes a commit survive a power cut. Locks of network folders cannot be trusted, so such folders are refused.
In PostgreSQL, durable means what the server's ``fsync`` setting says.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import count
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from data.errors import LedgerError, LedgerUnavailable
from data.store.folders import private_folder, require_local_disk

CONNECT_TIMEOUT = 10
LOCK = 0x6470_636F_7374  # "dpcost": of writers
BUSY = "other processes are writing"
WAITING = "waiting until another process has answered about %r"

TABLES = sa.MetaData()
BUDGETS = sa.Table(
    "dpcost_budgets",
    TABLES,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("epsilon", sa.Double, nullable=False),
    sa.Column("delta", sa.Double, nullable=False),
    # key_id: of the key of the fingerprints; last: the hash of the budget's last charge
    *(sa.Column(name, sa.Text, nullable=False) for name in ("opened", "key_id", "last", "seal")),
    sa.Column("unit", sa.Text),  # none: not declared, or opened by version 3.0, which lacks the column
)
CHARGES = sa.Table(
    "dpcost_charges",
    TABLES,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    *(sa.Column(name, sa.Text, nullable=False) for name in ("dataset", "content", "question")),
    sa.Column("attempt", sa.BigInteger, nullable=False),
    sa.Column("asked", sa.Text, nullable=False),  # JSON: estimator, parameters, epsilon, delta
    sa.Column("rho", sa.Double, nullable=False),
    sa.Column("pure_epsilon", sa.Double),  # none: infinite
    sa.Column("failure", sa.Double, nullable=False),
    # holder: the process that drew an answer of version 1.1
    *(sa.Column(name, sa.Text, nullable=False) for name in ("unit", "facts", "charged", "holder")),
    *(sa.Column(name, sa.Text, nullable=False) for name in ("previous", "hash", "state")),
    *(sa.Column(name, sa.Text) for name in ("answer", "ended")),
    sa.Column("seal", sa.Text, nullable=False),
    sa.UniqueConstraint("question", "attempt"),
)

_FORMAT = sa.Table(
    "dpcost_format", TABLES, sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False)
)
FORMAT = 2  # whose questions may have an exact digest; in 1, or without a number (1.0.0), none has

_log = logging.getLogger(__name__)


class Database(ABC):
    """A place for the two tables. Its operations raise `LedgerUnavailable`, which says what to do."""

    location: str
    name: str
    _engine: sa.Engine

    @contextmanager
    def writing(self) -> Iterator[tuple[sa.Connection, bool]]:
        """Exclude every other writer; commit at the end, or undo everything after an error.

        The tables are created if there are none; the second value says whether the ledger is new.
        """
        with self._transaction(write=True) as connection:
            is_new = not require_format(connection, self.location)
            create_tables(connection)
            yield connection, is_new

    @contextmanager
    def reading(self) -> Iterator[sa.Connection | None]:
        """Show one state of the ledger, or ``None`` where none was ever written."""
        with self._transaction(write=False) as connection:
            yield connection if require_format(connection, self.location) else None

    @abstractmethod
    def answering(self, dataset: str) -> AbstractContextManager[None]:
        """Exclude everybody else who would answer about a dataset, after waiting for one who does."""

    @abstractmethod
    def _begin(self, connection: sa.Connection, *, write: bool) -> None: ...

    @abstractmethod
    def _fault(self, error: DBAPIError) -> str:
        """Return a code for what went wrong, "busy" where other processes write; no stored value."""

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[sa.Connection]:
        fault = ""
        try:
            with self._engine.connect() as connection:
                self._begin(connection, write=write)
                yield connection
                if write:
                    connection.commit()
        except DBAPIError as error:
            fault = self._fault(error)
        if fault:  # not in the driver's own words: they may quote what is stored
            raise LedgerUnavailable(
                f"the ledger {self.location} cannot be {'written' if write else 'read'} ({fault}); check "
                "that it exists, is writable and that its disk has room. Then repeat the command: without "
                "--again no question is charged twice. For a damaged one: dpcost ledger restore FILE.",
                transient=fault == BUSY,
            )


def lock_digest(dataset: str) -> bytes:
    """Return the digest that names the lock of a dataset's releases."""
    return hashlib.sha256(dataset.encode()).digest()


def create_tables(connection: sa.Connection) -> None:
    """Create the tables and the column that are missing, and write the number of their format."""
    TABLES.create_all(connection)
    if "unit" not in columns_of(connection, BUDGETS):
        connection.exec_driver_sql(f"ALTER TABLE {BUDGETS.name} ADD COLUMN unit TEXT")
    if connection.execute(sa.select(sa.func.max(_FORMAT.c.number))).scalar() != FORMAT:
        connection.execute(sa.delete(_FORMAT))
        connection.execute(sa.insert(_FORMAT).values(number=FORMAT))


def columns_of(connection: sa.Connection, table: sa.Table) -> list[str]:
    """Return the columns of a table that are there, in the order of this version."""
    present = {column["name"] for column in sa.inspect(connection).get_columns(table.name)}
    return [column.name for column in table.c if column.name in present]


def require_format(connection: sa.Connection, location: str) -> bool:
    """Return whether a ledger is there; refuse one of a format that this version does not know."""
    present = sa.inspect(connection).get_table_names()
    if _FORMAT.name in present:
        number = connection.execute(sa.select(sa.func.max(_FORMAT.c.number))).scalar()
        if number not in (1, FORMAT):
            raise LedgerError(
                f"the ledger {location} must have format 1 or {FORMAT}, got {number}; use the version of "
                "dpcost that wrote it"
            )
    return CHARGES.name in present


class SQLiteDatabase(Database):
    """The tables in a file; it and its folder are created by the first writing."""

    def __init__(self, path: Path, *, lock_timeout: float) -> None:
        self._path = path.resolve()
        self.location, self.name = str(self._path), path.name
        self._engine = sa.create_engine(
            "sqlite://",
            creator=lambda: _connection(f"{self._path.as_uri()}?mode=rwc", timeout=lock_timeout),
            poolclass=NullPool,
        )

    @contextmanager
    def answering(self, dataset: str) -> Iterator[None]:
        """Hold the lock of a file, which the system releases with the process."""
        self._make_folder()
        try:
            locks = private_folder(self._path.with_name(f"{self._path.name}-locks"))
            descriptor = os.open(
                locks / lock_digest(dataset).hex()[:16], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise LedgerUnavailable(
                f"{self._path}-locks cannot be written ({error.strerror}); allow it"
            ) from None
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _log.warning(WAITING, dataset)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def writing(self) -> Iterator[tuple[sa.Connection, bool]]:
        """Create the folder and the file for their owner alone; then as in the base class."""
        self._make_folder()
        with suppress(OSError):  # what is wrong with the file is for SQLite to say
            self._path.touch(0o600)
            self._path.chmod(self._path.stat().st_mode & 0o700)
        with super().writing() as opened:
            yield opened

    def _make_folder(self) -> None:
        require_local_disk("the ledger", self._path.parent)
        try:
            private_folder(self._path.parent)
        except OSError as error:
            raise LedgerUnavailable(
                f"the folder {self._path.parent} for the ledger cannot be created ({error.strerror}); "
                "create it, or set DPCOST_HOME to another one"
            ) from None

    @contextmanager
    def reading(self) -> Iterator[sa.Connection | None]:
        """Show one state of the ledger; a file that is not there is a ledger never written."""
        if not self._path.exists():
            yield None
            return
        with super().reading() as connection:
            yield connection

    @property
    def is_damaged(self) -> bool:
        """Whether the file is there and SQLite cannot read it from end to end."""
        try:
            with self._transaction(write=False) as connection:
                return connection.exec_driver_sql("PRAGMA quick_check").scalars().all() != ["ok"]
        except LedgerUnavailable as fault:
            return not fault.transient

    def set_aside(self) -> None:
        names = (self._path.with_name(f"{self._path.name}.damaged-{number}") for number in count(1))
        self._path.rename(next(name for name in names if not name.exists()))

    def _begin(self, connection: sa.Connection, *, write: bool) -> None:
        if write:
            for pragma in ("journal_mode=DELETE", "synchronous=EXTRA", "fullfsync=1"):
                connection.exec_driver_sql(f"PRAGMA {pragma}")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    def _fault(self, error: DBAPIError) -> str:
        code = str(getattr(error.orig, "sqlite_errorname", type(error.orig).__name__))
        return BUSY if code.startswith("SQLITE_BUSY") else code


def _connection(address: str, *, timeout: float) -> sqlite3.Connection:
    # Without `isolation_level`, Python begins no transactions of its own.
    connection = sqlite3.connect(address, uri=True, timeout=timeout, isolation_level=None)
    # Damaged text is for the ledger's own check to find.
    connection.text_factory = lambda content: content.decode(errors="surrogateescape")
    return connection
