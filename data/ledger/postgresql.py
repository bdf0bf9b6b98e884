"""The ledger in a PostgreSQL database, which machines share."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import NullPool

from data.errors import LedgerError, LedgerUnavailable
from data.ledger.database import BUSY, CONNECT_TIMEOUT, LOCK, WAITING, Database, lock_digest

_log = logging.getLogger(__name__)


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

    @contextmanager
    def answering(self, dataset: str) -> Iterator[None]:
        """Hold an advisory lock, which goes with its connection."""
        key, fault = int.from_bytes(lock_digest(dataset)[:7], "big"), ""
        try:
            with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                if not connection.execute(sa.select(sa.func.pg_try_advisory_lock(key))).scalar():
                    _log.warning(WAITING, dataset)
                    connection.execute(sa.select(sa.func.pg_advisory_lock(key)))
                yield
        except DBAPIError as error:
            fault = self._fault(error)
        if fault:
            raise LedgerUnavailable(f"the ledger {self.location} cannot be reached ({fault}); ask again")

    def _fault(self, error: DBAPIError) -> str:
        code = getattr(error.orig, "sqlstate", None)
        if code is None:  # no connection: the driver names host and port
            return " ".join(str(error.orig).split())
        return BUSY if code == "55P03" else f"SQLSTATE {code}"
