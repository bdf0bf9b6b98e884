"""The two tables of the ledger, in one SQLite file or in a PostgreSQL database that machines share.

A third one holds the number of their format; a ledger of an unknown format is refused.

A writer excludes all others: SQLite locks its file, PostgreSQL holds an advisory lock that ends with the
transaction. Every transaction has a connection of its own, so that forks do no harm.

SQLite keeps a rollback journal and no write-ahead log: before 3.51.3, and Python comes with older ones, two
processes that write and checkpoint a log at the same moment can lose pages of it. ``synchronous=EXTRA`` makes
a commit survive a power cut. Locks of network folders cannot be trusted, so such folders are refused. In
PostgreSQL, durable means what the server's ``fsync`` setting says.
"""

from __future__ import annotations

import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.pool import NullPool

from data.errors import LedgerError, LedgerUnavailable
from data.store.folders import private_folder, require_local_disk

CONNECT_TIMEOUT = 10
LOCK = 0x6470_636F_7374  # "dpcost"

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
    *(sa.Column(name, sa.Text, nullable=False) for name in ("unit", "facts", "charged", "holder")),
    *(sa.Column(name, sa.Text, nullable=False) for name in ("previous", "hash", "state")),
    *(sa.Column(name, sa.Text) for name in ("answer", "ended")),
    sa.Column("seal", sa.Text, nullable=False),
    sa.UniqueConstraint("question", "attempt"),
)

_FORMAT = sa.Table(
    "dpcost_format", TABLES, sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False)
)
FORMAT = 1  # of the tables above; without a number, as version 1.0.0 wrote them, it is 1

_RESTORE = "restore a backup: dpcost ledger restore FILE"
_BUSY = "is in use by other processes; try again in a minute, and look for one that hangs"
_SQLITE_FAULTS = {
    "SQLITE_BUSY": _BUSY,
    "SQLITE_READONLY": "is read-only; make the file and its folder writable",
    "SQLITE_FULL": "cannot grow, for the disk is full; free some space",
    "SQLITE_CANTOPEN": "cannot be opened; check that its folder exists and is readable and writable",
    "SQLITE_NOTADB": "is not a ledger (the file is damaged or something else); restore it from a backup",
    "SQLITE_CORRUPT": "is damaged; restore it from a backup",
    "SQLITE_IOERR": "cannot be read or written, for the disk reports an error; check the disk and its space",
}
_POSTGRESQL_FAULTS = {  # by SQLSTATE
    "55P03": _BUSY,
    "25006": "is read-only; connect to the primary server",
    "42501": "is forbidden; grant this user the right to create and write tables",
    "53100": "cannot grow, for the server's disk is full; free some space there",
}


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
            if is_new:
                create_tables(connection)
            yield connection, is_new

    @contextmanager
    def reading(self) -> Iterator[sa.Connection | None]:
        """Show one state of the ledger, or ``None`` where none was ever written."""
        with self._transaction(write=False) as connection:
            yield connection if require_format(connection, self.location) else None

    def reserve(self, size: int) -> None:  # noqa: B027
        """Take so many bytes of the disk for what is written later, where the disk is this machine's."""

    def free_reserve(self) -> bool:
        """Release the reserved bytes, and return whether there were any."""
        return False

    @abstractmethod
    def _begin(self, connection: sa.Connection, *, write: bool) -> None: ...

    @abstractmethod
    def _advice(self, error: DBAPIError, connected: bool) -> str: ...

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[sa.Connection]:
        connected = False
        try:
            with self._engine.connect() as connection:
                connected = True
                self._begin(connection, write=write)
                yield connection
                if write:
                    connection.commit()
        except DBAPIError as error:
            advice = self._advice(error, connected)
            # Not the driver's own words: they may quote what is stored.
            raise LedgerUnavailable(
                f"the ledger {self.location} {advice}", transient=advice == _BUSY
            ) from None


def create_tables(connection: sa.Connection) -> None:
    """Create the tables that are missing, with the number of their format."""
    TABLES.create_all(connection)
    if connection.execute(sa.select(_FORMAT)).first() is None:
        connection.execute(sa.insert(_FORMAT).values(number=FORMAT))


def require_format(connection: sa.Connection, location: str) -> bool:
    """Return whether a ledger is there; refuse one of a format that this version does not know."""
    present = sa.inspect(connection).get_table_names()
    if _FORMAT.name in present:
        number = connection.execute(sa.select(sa.func.max(_FORMAT.c.number))).scalar()
        if number != FORMAT:
            raise LedgerError(
                f"the ledger {location} must have format {FORMAT}, got {number}; use the version of dpcost "
                "that wrote it"
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
    def writing(self) -> Iterator[tuple[sa.Connection, bool]]:
        """Create the folder and the file for their owner alone; then as in the base class."""
        require_local_disk("the ledger", self._path.parent)
        try:
            private_folder(self._path.parent)
        except OSError as error:
            raise LedgerUnavailable(
                f"the folder {self._path.parent} for the ledger cannot be created ({error.strerror}); "
                "create it, or set DPCOST_HOME to another one"
            ) from None
        with suppress(OSError):  # what is wrong with the file is for SQLite to say
            self._path.touch(0o600)
            self._path.chmod(self._path.stat().st_mode & 0o700)
        with super().writing() as opened:
            yield opened

    @contextmanager
    def reading(self) -> Iterator[sa.Connection | None]:
        """Show one state of the ledger; a file that is not there is a ledger never written."""
        if not self._path.exists():
            yield None
            return
        with super().reading() as connection:
            yield connection

    def reserve(self, size: int) -> None:
        """Take the bytes in a file next to the ledger; it stays for the next charge."""
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

    def _advice(self, error: DBAPIError, connected: bool) -> str:
        code = getattr(error.orig, "sqlite_errorname", None) or "no reason given"
        return _SQLITE_FAULTS.get("_".join(code.split("_")[:2]), f"cannot be used ({code}); {_RESTORE}")


class PostgreSQLDatabase(Database):
    """The tables in a PostgreSQL database; a driver's name in the URL is ignored."""

    def __init__(self, url: str, *, lock_timeout: float) -> None:
        example = "pass e.g. postgresql://user@host:5432/dpcost"
        scheme, separator, _ = url.partition("://")
        if not separator or scheme.partition("+")[0] not in ("postgresql", "postgres"):
            raise LedgerError(
                f"DPCOST_LEDGER_URL must begin with postgresql://, got {scheme if separator else 'none'!r}; "
                f"{example}, or unset it for the SQLite ledger"
            )
        try:
            address = sa.make_url(url).set(drivername="postgresql+psycopg")
            self._engine = sa.create_engine(
                address, connect_args={"connect_timeout": CONNECT_TIMEOUT}, poolclass=NullPool
            )
        except (ArgumentError, ValueError):
            raise LedgerError(f"DPCOST_LEDGER_URL cannot be understood; {example}") from None
        except ImportError:
            raise LedgerError(
                "a ledger in PostgreSQL needs the package psycopg, and it is not installed; "
                'run pip install "psycopg[binary]"'
            ) from None
        self.location = f"{address.host or 'localhost'}:{address.port or 5432}/{address.database or ''}"
        self.name = self.location
        self._lock_timeout = lock_timeout

    def _begin(self, connection: sa.Connection, *, write: bool) -> None:
        if not write:
            connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            return
        # The next statement after the lock must see what its last holder wrote.
        connection.execution_options(isolation_level="READ COMMITTED")
        connection.execute(
            sa.text(
                "SELECT set_config('lock_timeout', :wait, true), set_config('synchronous_commit', "
                "CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' "
                "ELSE current_setting('synchronous_commit') END, true)"
            ),
            {"wait": str(max(1, round(1000 * self._lock_timeout)))},
        )
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))

    def _advice(self, error: DBAPIError, connected: bool) -> str:
        code = getattr(error.orig, "sqlstate", None) or "no reason given"
        if advice := _POSTGRESQL_FAULTS.get(code):
            return advice
        if not connected:
            reason = " ".join(str(error.orig).split())
            return f"cannot be reached ({reason}); start the server, or correct DPCOST_LEDGER_URL"
        if isinstance(error, OperationalError | InterfaceError):
            # What this command committed before stands, and so may what was being committed.
            return "was lost in mid-work; ask again: the same question costs nothing twice"
        return f"cannot be used ({code}); {_RESTORE}"


def _connection(address: str, *, timeout: float) -> sqlite3.Connection:
    # Without `isolation_level`, Python begins no transactions of its own.
    connection = sqlite3.connect(address, uri=True, timeout=timeout, isolation_level=None)
    # Damaged text is for the ledger's own check to find.
    connection.text_factory = lambda content: content.decode(errors="surrogateescape")
    return connection
