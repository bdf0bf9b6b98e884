"""The chain: entries that each carry the hash of the one before, and a head that says where it ends.

An entry's hash is HMAC-SHA256 over its number, kind, dataset, subject, the digest of its body and the
previous hash. It is keyed: a plain hash would detect an accident, but whoever edits an entry on purpose
recomputes the rest of the chain. The head holds the number of entries and the last hash, under a MAC of its
own, so that entries cut off at the end are missed as well.

Whatever is read from an entry is checked first, and no charge is admitted before all hashes were: an entry
hidden under another name must not make room in a budget. Bodies may be large, so only their digests are read
for that; `verify` reads all of it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from data.ledger.charges import canonical_json
from data.ledger.database import Execute, Row
from data.ledger.errors import LedgerBroken, LedgerError
from data.ledger.secret import load_keys

Kind = Literal["open", "bind", "charge", "release", "lost"]
START = "0" * 64
HASHED = "seq, kind, dataset, subject, digest, previous"
COLUMNS = f"{HASHED}, hash, body"
HEAD = "n_entries, hash, key_id, mac"


@dataclass(frozen=True)
class Entry:
    """One line of the ledger.

    Attributes
    ----------
    seq : int
        Its number, from 1.
    kind : str
        ``open`` (a budget), ``bind`` (data to a name), ``charge``, ``release`` (an answer) or ``lost``.
    dataset, subject : str
        Whose, and what it is about: nothing; content; request id; charge id; charge id.
    body : dict
        What it says.
    previous, hash : str
        The hash of the entry before, and its own.
    """

    seq: int
    kind: str
    dataset: str
    subject: str
    body: dict[str, Any]
    previous: str
    hash: str


class Chain:
    """The chain within one transaction.

    Parameters
    ----------
    execute : Execute or None
        The transaction; ``None`` for a ledger that was never written, which is empty.
    home : Path
        The folder of the key.
    place : str
        What to call the ledger in a sentence.
    is_new : bool
        Whether this transaction created the tables; then it writes the first head, and only then.

    Raises
    ------
    LedgerError
        If the key is missing, or another one than the ledger was written with.
    LedgerBroken
        If the head or the end of the chain is not what was written.
    """

    def __init__(self, execute: Execute | None, home: Path, place: str, *, is_new: bool = False) -> None:
        self._execute = execute or _nothing
        self._place = place
        self._hashes_are_checked = False
        self.was_written = execute is not None
        self.n_entries, self.head, self.head_is_genuine = 0, START, True
        if execute is None:
            return
        if is_new:
            self.keys = load_keys(home, create=True)
            execute(
                f"INSERT INTO dpcost_ledger_head ({HEAD}) VALUES (?, ?, ?, ?)",
                (0, START, self.keys.id, self._mac("head", 0, START, self.keys.id)),
            )
            return
        heads = execute(f"SELECT {HEAD} FROM dpcost_ledger_head")
        if len(heads) != 1:
            raise self._broken(f"it has {len(heads)} heads where one belongs")
        self.n_entries, self.head, key_id, mac = heads[0]
        self.keys = load_keys(home, create=False)
        if key_id != self.keys.id:
            raise LedgerError(
                f"the ledger {place} was written with another key than {home / 'ledger.key'}; copy that file "
                "from the machine that opened the ledger, or restore it from a backup"
            )
        self.head_is_genuine = self._is(mac, "head", self.n_entries, self.head, self.keys.id)

    @property
    def n_stored(self) -> int:
        """How many entries there are, whatever the head says."""
        return sum(count for (count,) in self._execute("SELECT COUNT(*) FROM dpcost_ledger"))

    def head_row(self) -> list[object]:
        """Return the head as it stands, for a backup."""
        return list(self._execute(f"SELECT {HEAD} FROM dpcost_ledger_head")[0])

    def require_every_entry(self) -> None:
        """Refuse a chain in which any entry is not as it was written; bodies are not read.

        Raises
        ------
        LedgerBroken
            Naming the first that is not.
        """
        last = START
        rows = self._execute(f"SELECT {HASHED}, hash FROM dpcost_ledger ORDER BY seq")
        for expected, (*hashed, own) in enumerate(rows, start=1):
            if hashed[0] != expected or hashed[-1] != last or not self._is(own, "entry", *hashed):
                raise self._broken(f"its entry {expected} was edited, moved, removed or inserted")
            last = own
        self._hashes_are_checked = True

    def require_whole(self) -> None:
        """Refuse a chain that lacks entries or does not end where its head says; the middle is not read.

        Raises
        ------
        LedgerBroken
            If something is missing or too many.
        """
        if not self.head_is_genuine:
            raise self._broken("its head was edited")
        if (stored := self.n_stored) != self.n_entries:
            raise self._broken(f"it has {stored} entries where {self.n_entries} were written")
        if self.n_entries and self._last_hash() != self.head:
            raise self._broken("its last entry is not the one that was written last")

    def append(self, kind: Kind, dataset: str, subject: str, body: dict[str, Any]) -> Entry:
        """Add an entry at the end; it stands once the transaction is committed."""
        seq, text = self.n_entries + 1, canonical_json(body)
        hashed = (seq, kind, dataset, subject, _digest(text), self.head)
        own = self._mac("entry", *hashed)
        self._execute(
            f"INSERT INTO dpcost_ledger ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*hashed, own, text)
        )
        entry = Entry(seq, kind, dataset, subject, json.loads(text), self.head, own)
        self.n_entries, self.head = seq, own
        self._execute(
            "UPDATE dpcost_ledger_head SET n_entries = ?, hash = ?, mac = ?",
            (seq, own, self._mac("head", seq, own, self.keys.id)),
        )
        return entry

    def entries(self, kind: Kind, *, dataset: str | None = None, subject: str | None = None) -> list[Entry]:
        """Return the entries of a kind about a dataset or a subject, in order, each one checked.

        Raises
        ------
        LedgerBroken
            If one was edited or moved.
        """
        wanted = {"kind": kind, "dataset": dataset, "subject": subject}
        wanted = {column: value for column, value in wanted.items() if value is not None}
        condition = " AND ".join(f"{column} = ?" for column in wanted)
        rows = self._execute(
            f"SELECT {COLUMNS} FROM dpcost_ledger WHERE {condition} ORDER BY seq", tuple(wanted.values())
        )
        return [self._checked(row) for row in rows]

    def subjects(self, kind: Kind, *, dataset: str) -> set[str]:
        """Return what a dataset's entries of a kind are about, without reading what they say."""
        rows = self._execute(
            "SELECT subject FROM dpcost_ledger WHERE kind = ? AND dataset = ?", (kind, dataset)
        )
        return {subject for (subject,) in rows}

    def datasets(self) -> list[str]:
        """Return the names that have a budget, in the order of their opening."""
        return [
            name
            for (name,) in self._execute("SELECT dataset FROM dpcost_ledger WHERE kind = 'open' ORDER BY seq")
        ]

    def stored_rows(self, limit: int) -> Iterator[Row]:
        """Yield all stored entries in order, as they stand, `limit` of them in memory at a time."""
        start = 0
        while rows := self._execute(
            f"SELECT {COLUMNS} FROM dpcost_ledger ORDER BY seq LIMIT ? OFFSET ?", (limit, start)
        ):
            yield from rows
            start += limit

    def is_genuine(self, row: Row) -> bool:
        """Say whether a stored entry is as it was written, at its place."""
        *hashed, own, body = row
        if not self._hashes_are_checked and not self._is(own, "entry", *hashed):
            return False
        return isinstance(body, str) and _digest(body) == hashed[4]

    def _checked(self, row: Row) -> Entry:
        if not self.is_genuine(row):
            raise self._broken(f"its entry {row[0]} was edited or moved")
        return as_entry(row)

    def _last_hash(self) -> str:
        return str(self._execute("SELECT hash FROM dpcost_ledger ORDER BY seq DESC LIMIT 1")[0][0])

    def _mac(self, *parts: object) -> str:
        return hmac.digest(self.keys.chain, canonical_json(parts).encode(), "sha256").hex()

    def _is(self, mac: object, *parts: object) -> bool:
        try:
            return hmac.compare_digest(str(mac).encode(), self._mac(*parts).encode())
        except (TypeError, ValueError):  # something that the ledger never writes, e.g. raw bytes
            return False

    def _broken(self, what: str) -> LedgerBroken:
        return LedgerBroken(
            f"the ledger {self._place} is not as it was written: {what}; nothing was written: "
            "run dpcost ledger verify, and restore a backup"
        )


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()


def _nothing(statement: str, values: object = ()) -> list[Row]:
    return []


def as_entry(row: Row) -> Entry:
    """Return a stored entry as a record."""
    seq, kind, dataset, subject, _, previous, own, body = row
    return Entry(seq, kind, dataset, subject, json.loads(body), previous, own)
