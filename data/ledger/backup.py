"""Backups: the whole ledger in one file, and its restoration.

A backup is an SQLite file with the ledger's tables and its key: as secret as the ledger itself, and written
for its owner alone. Restoring an older state must not forget what was spent. So a backup replaces only an
earlier one that it continues, and a ledger is replaced only by a backup that continues it. If the ledger is
damaged or gone, a noted head shows that the backup continues it, or the owner accepts an older state.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from data.errors import LedgerBroken, LedgerError, LedgerUnavailable, StoreError
from data.ledger import key
from data.ledger.book import Book, VerifyReport
from data.ledger.charges import RELEASED, RESERVED
from data.ledger.database import (
    BUDGETS,
    CHARGES,
    Database,
    SQLiteDatabase,
    columns_of,
    create_tables,
    require_format,
)
from data.store.folders import atomic_write, read_small

_LARGEST = 10**9  # bytes
_UNREADABLE = (ValueError, TypeError, LookupError, RecursionError, sqlite3.Error, sa.exc.DBAPIError)
_KEY = sa.Table("dpcost_key", sa.MetaData(), sa.Column("digits", sa.Text, nullable=False))


def write_backup(book: Book, home: Path, path: Path) -> VerifyReport:
    if book.connection is None:
        raise LedgerError("there is no ledger to back up yet; start with: dpcost ledger open NAME")
    report = book.verify()
    if not report.ok:
        raise LedgerBroken(
            f"the ledger is not whole, so it is not backed up: {report.problems[0]}; restore an earlier "
            "backup with dpcost ledger restore"
        )
    if path.exists():
        with _opened(path) as (earlier, _):
            if not _continues(book, earlier):
                raise LedgerBroken(
                    f"{path} holds a backup with charges or answers that the ledger lacks: an older state "
                    "was put back since, or it is of another ledger; restore it, or name another file"
                )
    with _in_memory() as copy:
        _copy(book, copy)
        _KEY.create(copy)
        copy.execute(sa.insert(_KEY).values(digits=_key_digits(home)))
        copy.commit()
        content = copy.connection.driver_connection.serialize()  # type: ignore[union-attr]
    try:
        atomic_write(path, content, private=True)
    except OSError as error:
        raise StoreError(f"cannot write {path} ({error.strerror}); name another file") from None
    return report


def restore_backup(
    database: Database, home: Path, path: Path, *, noted: str | None, forget_newer: bool
) -> None:
    with _opened(path) as (backup, digits):
        if problems := backup.problems():
            raise LedgerBroken(f"the backup {path} is not as it was written: {problems[0]}; take another")
        if noted is not None and noted not in backup.hashes:
            raise LedgerError(
                f"the head {noted} is not in the backup {path}: it is older than that head, or of another "
                "ledger; take a later backup"
            )
        is_sure = noted is not None or forget_newer
        _restore_key(home, digits)
        try:
            _replace(database, home, backup, is_sure=is_sure, forget_newer=forget_newer)
        except LedgerUnavailable as problem:
            if not isinstance(database, SQLiteDatabase) or not database.is_damaged:
                raise
            _require_sure(is_sure, str(problem))
            database.set_aside()
            _replace(database, home, backup, is_sure=is_sure, forget_newer=forget_newer)
    key.mark_used(home, database.name)


def _replace(database: Database, home: Path, backup: Book, *, is_sure: bool, forget_newer: bool) -> None:
    with database.writing() as (connection, is_new):
        if is_new:
            if key.was_used(home, database.name):
                _require_sure(is_sure, f"the ledger {database.location} was deleted, emptied or moved")
        else:
            ledger = Book(connection, key.load_keys(home, create=False).id, database.location)
            if problems := ledger.problems():
                _require_sure(
                    is_sure, f"the ledger {database.location} is not as it was written: {problems[0]}"
                )
            elif not _continues(backup, ledger) and not forget_newer:
                raise LedgerError(
                    f"the ledger {database.location} has {len(ledger.charges())} charges, the backup "
                    f"{len(backup.charges())}, and it lacks charges or results. Restoring it would forget "
                    "them, and their budget could be spent again; use a later backup, or "
                    "add --forget-newer if the older state is meant"
                )
        for table in (BUDGETS, CHARGES):
            connection.execute(sa.delete(table))
        _copy(backup, connection)


def _continues(later: Book, earlier: Book) -> bool:
    """Say whether the one book has all charges and answers of the other, and none of them as a reserve."""
    answered = {charge.id for charge in earlier.charges(state=RELEASED)}
    names = {budget.name for budget in earlier.budgets()}
    begun = {charge.id for charge in earlier.charges() if charge.state != RESERVED}
    return (
        earlier.head in later.hashes
        and begun.isdisjoint(charge.id for charge in later.charges(state=RESERVED))
        and answered <= {charge.id for charge in later.charges(state=RELEASED)}
        and names <= {budget.name for budget in later.budgets()}
    )


def _require_sure(is_sure: bool, why: str) -> None:
    if not is_sure:
        raise LedgerError(
            f"{why}, and may have later charges than this backup; pass the last head that you noted with "
            "--noted, or add --forget-newer to accept that later charges are lost"
        )


def _copy(book: Book, target: sa.Connection) -> None:
    """Copy every row of the ledger's tables."""
    source = book.connection
    assert source is not None
    create_tables(target)
    for table in (BUDGETS, CHARGES):
        columns = [table.c[name] for name in columns_of(source, table)]
        if rows := [dict(row) for row in source.execute(sa.select(*columns)).mappings()]:
            target.execute(sa.insert(table), rows)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Book, str]]:
    """Show what a backup holds, not verified yet, and its key; refuse a file that is none."""
    try:
        content = read_small(path, _LARGEST)
    except OSError as error:
        raise LedgerError(f"{path} cannot be read ({error.strerror}); check the path") from None
    with _in_memory() as connection:
        try:
            connection.connection.driver_connection.deserialize(content)  # type: ignore[union-attr]
            (digits,) = connection.execute(sa.select(_KEY.c.digits)).scalars()
            require_format(connection, str(path))
            book = Book(connection, key.keys_of(digits).id, str(path))
        except LedgerError:
            raise
        except _UNREADABLE:
            raise LedgerError(f"{path} is no backup of a ledger, or is damaged; name another file") from None
        yield book, digits


@contextmanager
def _in_memory() -> Iterator[sa.Connection]:
    engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def _key_digits(home: Path) -> str:
    """Return the hexadecimal digits of the key, for a backup; empty if there is none."""
    return next(iter(key.lines_of_key(home)), "")


def _restore_key(home: Path, digits: str) -> None:
    """Write a backup's key, unless it is there; refuse to replace another one."""
    path = home / "ledger.key"
    if not path.exists():
        key.write_key(path, digits)
    if _key_digits(home) != digits:
        raise LedgerError(
            f"{path} is the key of another ledger than the backup's; restore into another DPCOST_HOME, or "
            "move this key and its ledger away"
        )
