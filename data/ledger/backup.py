"""Backups: the whole ledger in one file, and its restoration.

The file holds the entries, the head and the key: it is as secret as the ledger itself, and written for its
owner alone. What was spent must not be forgotten by putting an older state back. So a backup only ever
replaces an earlier one that it continues, and a ledger is only replaced by a backup that continues it; where
that cannot be seen, because the ledger is damaged or gone, a head that was noted shows it, or the owner
says that it does not matter.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import sqlalchemy as sa

from data.errors import LedgerBroken, LedgerError, LedgerUnavailable, StoreError
from data.ledger import secret
from data.ledger.chain import START, Chain, VerifyReport, verify_chain
from data.ledger.database import ENTRIES, HEAD, Database, SQLiteDatabase
from data.store.folders import atomic_write, private_folder, read_json

FORMAT = "dpcost ledger, backup 1"
# The order in which a backup writes the columns of a row.
_ENTRY = ("seq", "kind", "dataset", "subject", "digest", "previous", "hash", "body")
_HEAD = ("n_entries", "hash", "key_id", "mac")


@dataclass(frozen=True)
class LedgerBackup:
    """The content of a backup: when it was taken, the key, the head's row and the entries' rows in order."""

    taken: str  # UTC, ISO 8601
    key: str  # hexadecimal digits
    head: list[object]
    entries: list[list[object]]
    format: str = FORMAT

    @property
    def hashes(self) -> list[str]:
        """The head after each entry, from the empty ledger on."""
        return [START, *(str(entry[6]) for entry in self.entries)]


def write_backup(chain: Chain, home: Path, path: Path) -> VerifyReport:
    """Write the chain that a transaction shows into a file; see `Ledger.backup`."""
    if not chain.was_written:
        raise LedgerError("there is no ledger to back up yet; start with: dpcost ledger open NAME")
    report = verify_chain(chain, None)
    if not report.ok:
        raise LedgerBroken(
            f"the ledger is not whole, so it is not backed up: {report.problems[0]}; restore an earlier "
            "backup with dpcost ledger restore"
        )
    entries = [list(row) for row in chain.stored_rows()]
    now = datetime.now(UTC).isoformat(timespec="seconds")
    backup = LedgerBackup(now, secret.key_digits(home), chain.head_row(), entries)
    if path.exists() and (earlier := read_backup(path)).hashes[-1] not in backup.hashes:
        raise LedgerBroken(
            f"{path} holds a backup of {earlier.taken} with entries that the ledger lacks: an older state "
            "was put back since, or it is of another ledger; restore it, or name another file"
        )
    try:
        atomic_write(path, json.dumps(asdict(backup)).encode(), private=True)
    except OSError as error:
        raise StoreError(f"cannot write {path} ({error.strerror}); name another file") from None
    return report


def read_backup(path: Path) -> LedgerBackup:
    """Return what a file holds, not verified yet, or refuse a file that is no backup."""
    try:
        found = read_json(path, limit=10**9)
        if found["format"] != FORMAT:
            raise ValueError
        return LedgerBackup(**found)
    except OSError as error:
        raise LedgerError(f"{path} cannot be read ({error.strerror}); check the path") from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise LedgerError(f"{path} is no backup of a ledger, or is damaged; name another file") from None


def restore_backup(
    database: Database, home: Path, path: Path, *, noted: str | None, forget_newer: bool
) -> None:
    """Put a backup in the place of the ledger; see `Ledger.restore`."""
    backup = read_backup(path)
    _require_whole(backup, home, path)
    if noted is not None and noted not in backup.hashes:
        raise LedgerError(
            f"the head {noted} is not in the backup {path} of {backup.taken}: it is older than that head, or "
            "of another ledger; take a later backup"
        )
    sure = noted is not None or forget_newer
    secret.restore_key(home, backup.key)
    try:
        _replace(database, home, backup, sure=sure, forget_newer=forget_newer)
    except LedgerUnavailable as problem:
        if not isinstance(database, SQLiteDatabase) or not database.is_damaged:
            raise
        _require_sure(sure, backup, str(problem))
        database.set_aside()
        _replace(database, home, backup, sure=sure, forget_newer=forget_newer)
    secret.mark_used(home, database.name)


def _replace(database: Database, home: Path, backup: LedgerBackup, *, sure: bool, forget_newer: bool) -> None:
    with database.writing() as (connection, is_new):
        if is_new:
            if secret.was_used(home, database.name):
                _require_sure(sure, backup, f"the ledger {database.place} was deleted, emptied or moved")
        else:
            chain = Chain(connection, home, database.place)
            if not chain.head_is_genuine:
                _require_sure(sure, backup, f"the head of the ledger {database.place} was edited")
            elif chain.head not in backup.hashes and not forget_newer:
                raise LedgerError(
                    f"the ledger {database.place} has {chain.n_entries} entries, and the backup of "
                    f"{backup.taken} lacks some of them (it has {len(backup.entries)}): what was charged "
                    "since would be forgotten, and those data could be asked again; take a later backup, or "
                    "add --forget-newer if the older state is meant"
                )
        with database.without_triggers(connection):
            _fill(connection, backup)


def _require_sure(sure: bool, backup: LedgerBackup, why: str) -> None:
    if not sure:
        raise LedgerError(
            f"{why}, so nobody can tell whether it had more than this backup of {backup.taken}; pass the "
            "last head that you noted with --noted, or add --forget-newer if what was charged since may be "
            "lost"
        )


def _fill(connection: sa.Connection, backup: LedgerBackup) -> None:
    for table, columns, rows in ((ENTRIES, _ENTRY, backup.entries), (HEAD, _HEAD, [backup.head])):
        connection.execute(sa.delete(table))
        if rows:
            connection.execute(sa.insert(table), [dict(zip(columns, row, strict=True)) for row in rows])


def _require_whole(backup: LedgerBackup, home: Path, path: Path) -> None:
    """Refuse a changed backup, by verifying it as a ledger."""
    with TemporaryDirectory(dir=private_folder(home)) as name:
        folder = Path(name)
        secret.restore_key(folder, backup.key)
        copy = SQLiteDatabase(folder / "ledger.sqlite", lock_timeout=1.0)
        with copy.writing() as (connection, _), copy.without_triggers(connection):
            _fill(connection, backup)
        with copy.reading() as read:
            try:
                problems = verify_chain(Chain(read, folder, str(path)), None).problems
            except LedgerError as fault:
                problems = (str(fault),)
    if problems:
        raise LedgerBroken(f"the backup {path} is not as it was written: {problems[0]}; take another")
