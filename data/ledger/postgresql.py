"""The ledger in a PostgreSQL database that several machines may share.

An advisory lock, freed with the transaction however it ends, lets one writer in at a time. Durable means
what the server's ``fsync`` setting says; the ledger only sees to ``synchronous_commit``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from data.ledger.database import APPEND_ONLY, TABLES, Execute, first_value
from data.ledger.errors import LedgerError, LedgerUnavailable

if TYPE_CHECKING:
    import psycopg

CONNECT_TIMEOUT = 10
LOCK = 0x6470_636F_7374  # "dpcost"

SEAT_BELTS = (
    "CREATE FUNCTION dpcost_ledger_append_only() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN RAISE EXCEPTION '{APPEND_ONLY}'; END $$",
    *(
        f"CREATE TRIGGER {table}_{event.split()[0].lower()} BEFORE {event} ON {table} "
        f"FOR EACH {each} EXECUTE FUNCTION dpcost_ledger_append_only()"
        for table, event, each in (
            ("dpcost_ledger", "UPDATE OR DELETE", "ROW"),
            ("dpcost_ledger", "TRUNCATE", "STATEMENT"),
            ("dpcost_ledger_head", "DELETE", "ROW"),
            ("dpcost_ledger_head", "TRUNCATE", "STATEMENT"),
        )
    ),
)


class PostgreSQLDatabase:
    """The chain in a PostgreSQL database.

    Parameters
    ----------
    url : str
        ``postgresql://user:password@host:port/database``; a driver's name after a plus sign is ignored.
    lock_timeout : float
        For how many seconds to wait for other writers.

    Raises
    ------
    LedgerError
        If the URL is not one, or the driver is not installed.
    """

    def __init__(self, url: str, *, lock_timeout: float) -> None:
        scheme, separator, rest = url.partition("://")
        if not separator or scheme.partition("+")[0] not in ("postgresql", "postgres"):
            raise LedgerError(
                f"DPCOST_LEDGER_URL must begin with postgresql://, got {scheme if separator else 'none'!r}; "
                "pass e.g. postgresql://user@host:5432/dpcost, or unset it for the SQLite ledger"
            )
        try:
            import psycopg
        except ImportError:
            raise LedgerError(
                "a ledger in PostgreSQL needs the package psycopg, and it is not installed; "
                'run pip install "psycopg[binary]"'
            ) from None
        self._url = f"postgresql://{rest}"
        self._lock_timeout = lock_timeout
        try:
            parts = psycopg.conninfo.conninfo_to_dict(self._url)
        except psycopg.Error:
            raise LedgerError(
                "DPCOST_LEDGER_URL cannot be understood; pass e.g. postgresql://user@host:5432/dpcost"
            ) from None
        self._place = f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"

    @property
    def place(self) -> str:
        """Host, port and database."""
        return self._place

    @property
    def name(self) -> str:
        """Host, port and database, too."""
        return self._place

    @contextmanager
    def writing(self) -> Iterator[tuple[Execute, bool]]:
        """Exclude every other writer; commit at the end, or undo everything after an error."""
        import psycopg

        with self._connection() as (connection, execute):
            # The next statement after the lock must see what the last holder of it wrote.
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            execute(
                "SELECT set_config('lock_timeout', ?, true), set_config('synchronous_commit', "
                "CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' "
                "ELSE current_setting('synchronous_commit') END, true)",
                (str(max(1, round(1000 * self._lock_timeout))),),
            )
            execute("SELECT pg_advisory_xact_lock(?)", (LOCK,))
            if is_new := not _has_tables(execute):
                for statement in (*TABLES, *SEAT_BELTS):
                    execute(statement)
            yield execute, is_new
            with self._faults(committing=True):
                connection.commit()

    def reserve(self, size: int) -> None:
        """Do nothing: the disk is the server's."""

    def free_reserve(self) -> bool:
        """Say that nothing was reserved."""
        return False

    @contextmanager
    def without_belts(self, execute: Execute) -> Iterator[None]:
        """Lift the triggers that make the tables append-only, within a transaction."""
        for switch in ("DISABLE", "ENABLE"):
            for table in ("dpcost_ledger", "dpcost_ledger_head"):
                execute(f"ALTER TABLE {table} {switch} TRIGGER USER")
            if switch == "DISABLE":
                yield

    @contextmanager
    def reading(self) -> Iterator[Execute | None]:
        """Show one state of the ledger, or ``None`` where none was ever written."""
        import psycopg

        with self._connection() as (connection, execute):
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            yield execute if _has_tables(execute) else None

    @contextmanager
    def _connection(self) -> Iterator[tuple[psycopg.Connection[Any], Execute]]:
        import psycopg

        with self._faults(connecting=True):
            connection = psycopg.connect(self._url, connect_timeout=CONNECT_TIMEOUT)

        def execute(statement: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
            with self._faults():
                cursor = connection.execute(statement.replace("?", "%s"), values or None)
                return cursor.fetchall() if cursor.description else []

        try:
            yield connection, execute
        finally:
            connection.close()  # undoes what was not committed

    @contextmanager
    def _faults(self, *, connecting: bool = False, committing: bool = False) -> Iterator[None]:
        """Turn what PostgreSQL reports into one sentence with what to do."""
        import psycopg
        from psycopg import errors

        try:
            yield
        except psycopg.Error as error:
            reason = " ".join(str(error).split())
            transient = False
            if isinstance(error, errors.LockNotAvailable):
                advice = "is in use by other processes; try again in a minute, and look for one that hangs"
                transient = True
            elif isinstance(error, errors.ReadOnlySqlTransaction):
                advice = "is read-only; connect to the primary server"
            elif isinstance(error, errors.InsufficientPrivilege):
                advice = f"is forbidden ({reason}); grant this user the right to create and write tables"
            elif isinstance(error, errors.DiskFull):
                advice = "cannot grow, for the server's disk is full; free some space there"
            elif connecting:
                advice = f"cannot be reached ({reason}); start the server, or correct DPCOST_LEDGER_URL"
                transient = True
            elif committing:
                advice = f"was lost at the commit ({reason}); ask again to learn whether the entry stands"
                transient = True
            elif isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
                advice = f"was lost before the commit ({reason}); nothing was written, so try again"
                transient = True
            else:
                advice = f"cannot be used ({reason}); run dpcost ledger verify"
            raise LedgerUnavailable(
                f"the PostgreSQL ledger {self._place} {advice}", transient=transient
            ) from error


def _has_tables(execute: Execute) -> bool:
    return first_value(execute("SELECT to_regclass('dpcost_ledger')")) is not None
