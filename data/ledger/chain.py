"""The chain: entries that each carry the hash of the one before, and a head that says where it ends.

An entry's hash is HMAC-SHA256 over its number, kind, dataset, subject, the digest of its body and the
previous hash. It is keyed: a plain hash would detect an accident, but who edits an entry on purpose could
recompute the rest of the chain. The head holds the number of entries and the last hash, under a code of
its own, so that entries cut off at the end are missed as well.

What is read from an entry is checked first, and no charge is admitted before all hashes were: an entry
hidden under another name must not make room in a budget. Bodies may be large, so only their digests are read
for that; `verify` reads all of it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa

from data.errors import LedgerBroken, LedgerError
from data.ledger.charges import canonical_json
from data.ledger.database import ENTRIES, HEAD
from data.ledger.secret import load_keys

Kind = Literal["open", "bind", "charge", "hold", "attempt", "release", "lost", "approve"]
Row = tuple[Any, ...]
START = "0" * 64
_HASHED = [ENTRIES.c[name] for name in ("seq", "kind", "dataset", "subject", "digest", "previous")]
_ROW = [*_HASHED, ENTRIES.c.hash, ENTRIES.c.body]
_BATCH = 500  # rows in memory at a time
MAX_PROBLEMS = 20
QUESTION = ("dataset", "content", "estimator", "parameters", "epsilon", "delta")


@dataclass(frozen=True)
class Entry:
    """One line of the ledger.

    A kind is ``open`` (a budget), ``bind`` (data to a name), ``charge``, ``attempt`` (the next of a charge
    that reserves several), ``release`` (an answer), ``lost``, ``hold`` (the answer is not shown before a
    second person approves) or ``approve``. Its subject is nothing; content; request id; the charge id for the
    others.
    """

    seq: int
    kind: str
    dataset: str
    subject: str
    body: dict[str, Any]


class Chain:
    """The chain within one transaction, or the empty chain of a ledger that was never written."""

    def __init__(
        self, connection: sa.Connection | None, home: Path, place: str, *, is_new: bool = False
    ) -> None:
        self._connection = connection
        self._place = place
        self._hashes_are_checked = False
        self.was_written = connection is not None
        self.n_entries, self.head, self.head_is_genuine = 0, START, True
        if connection is None:
            return
        if is_new:
            self.keys = load_keys(home, create=True)
            mac = self._mac("head", 0, START, self.keys.id)
            connection.execute(sa.insert(HEAD).values(n_entries=0, hash=START, key_id=self.keys.id, mac=mac))
            return
        heads = self._rows(sa.select(HEAD))
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

    def head_row(self) -> list[object]:
        return list(self._rows(sa.select(HEAD))[0])

    def require_every_entry(self) -> None:
        """Refuse a chain in which an entry is not as it was written; bodies are not read."""
        last = START
        rows = self._rows(sa.select(*_HASHED, ENTRIES.c.hash).order_by(ENTRIES.c.seq))
        for expected, (*hashed, own) in enumerate(rows, start=1):
            if hashed[0] != expected or hashed[-1] != last or not self._is(own, "entry", *hashed):
                raise self._broken(f"its entry {expected} was edited, moved, removed or inserted")
            last = own
        self._hashes_are_checked = True

    def require_whole(self) -> None:
        """Refuse a chain that lacks entries or does not end where its head says; the middle is not read."""
        if not self.head_is_genuine:
            raise self._broken("its head was edited")
        for (stored,) in self._rows(sa.select(sa.func.count()).select_from(ENTRIES)):
            if stored != self.n_entries:
                raise self._broken(f"it has {stored} entries where {self.n_entries} were written")
        for (last,) in self._rows(sa.select(ENTRIES.c.hash).order_by(ENTRIES.c.seq.desc()).limit(1)):
            if last != self.head:
                raise self._broken("its last entry is not the one that was written last")

    def append(self, kind: Kind, dataset: str, subject: str, body: dict[str, Any]) -> None:
        assert self._connection is not None
        seq, text = self.n_entries + 1, canonical_json(body)
        hashed = (seq, kind, dataset, subject, _digest(text), self.head)
        own = self._mac("entry", *hashed)
        columns = [column.name for column in _ROW]
        entry = dict(zip(columns, (*hashed, own, text), strict=True))
        self._connection.execute(sa.insert(ENTRIES).values(entry))
        self.n_entries, self.head = seq, own
        mac = self._mac("head", seq, own, self.keys.id)
        self._connection.execute(sa.update(HEAD).values(n_entries=seq, hash=own, mac=mac))

    def entries(self, kind: Kind, **wanted: str) -> list[Entry]:
        """Return the entries of a kind about a ``dataset`` or a ``subject``, in order, each one checked."""
        found = sa.select(*_ROW).filter_by(kind=kind, **wanted).order_by(ENTRIES.c.seq)
        rows = self._rows(found)
        for row in rows:
            if not self.is_genuine(row):
                raise self._broken(f"its entry {row[0]} was edited or moved")
        return [as_entry(row) for row in rows]

    def subjects(self, kind: Kind, *, dataset: str) -> set[str]:
        rows = self._rows(sa.select(ENTRIES.c.subject).filter_by(kind=kind, dataset=dataset))
        return {subject for (subject,) in rows}

    def datasets(self) -> list[str]:
        """Return the names that have a budget, in the order of their opening."""
        rows = self._rows(sa.select(ENTRIES.c.dataset).filter_by(kind="open").order_by(ENTRIES.c.seq))
        return [name for (name,) in rows]

    def stored_rows(self) -> Iterator[Row]:
        """Yield all stored entries in order, as they stand, some of them in memory at a time."""
        if self._connection is not None:
            every = sa.select(*_ROW).order_by(ENTRIES.c.seq).execution_options(yield_per=_BATCH)
            yield from map(tuple, self._connection.execute(every))

    def is_genuine(self, row: Row) -> bool:
        """Say whether a stored entry is as it was written, at its place."""
        *hashed, own, body = row
        if not self._hashes_are_checked and not self._is(own, "entry", *hashed):
            return False
        return isinstance(body, str) and _digest(body) == hashed[4]

    def _rows(self, statement: sa.Select[Any]) -> list[Row]:
        return [] if self._connection is None else [tuple(row) for row in self._connection.execute(statement)]

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


@dataclass(frozen=True)
class VerifyReport:
    """The result of verifying the chain; at most 20 problems, one sentence each.

    Who keeps the head elsewhere can later find out that an older ledger was put back.
    """

    ok: bool
    n_entries: int = 0
    n_datasets: int = 0
    n_charges: int = 0
    n_releases: int = 0
    head: str = START
    problems: tuple[str, ...] = ()


def verify_chain(chain: Chain, noted: str | None) -> VerifyReport:
    """Recompute every hash and replay every entry of one state of the ledger.

    ``noted`` is a head from an earlier report, which the chain must still contain.
    """
    problems: list[str] = []
    history = _History()
    expected, last, seen_noted, n_stored = 1, START, noted in (None, START), 0
    for n_stored, row in enumerate(chain.stored_rows(), start=1):  # noqa: B007
        seq, previous, own = row[0], row[5], row[6]
        if seq != expected:
            problems.append(f"entry {expected} should come next, and entry {seq} does: removed or inserted")
        elif previous != last:
            problems.append(f"entry {seq} does not follow the one before it")
        if chain.is_genuine(row):
            problems += history.replay(as_entry(row))
        else:
            problems.append(
                f"entry {seq} was edited, moved or inserted: its hash is not that of what it says"
            )
        seen_noted = seen_noted or own == noted
        last = own
        expected = seq + 1 if isinstance(seq, int) else expected + 1
    if not chain.head_is_genuine:
        problems.append("the head was edited: its hash is not that of what it says")
    elif n_stored != chain.n_entries:
        problems.append(f"{chain.n_entries} entries were written, and {n_stored} are there")
    elif last != chain.head:
        problems.append("the last entry is not the one that was written last")
    if not seen_noted:
        problems.append(
            f"the head noted earlier, {noted}, is not in the chain: an older ledger, or another one"
        )
    return VerifyReport(
        not problems,
        n_stored,
        history.counts["open"],
        history.counts["charge"],
        history.counts["release"],
        last,
        tuple(problems[:MAX_PROBLEMS]),
    )


class _History:
    """The state after the entries so far; finds entries that break the ledger's rules."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._names: dict[str, str] = {}  # dataset of each content
        self._attempts: Counter[str] = Counter()
        self._charges: dict[str, str] = {}  # dataset of each charge
        self._about: dict[str, tuple[str, str]] = {}  # content and estimator of each charge
        self._opened: set[str] = set()
        self._ended: set[str] = set()
        self._released: set[str] = set()
        self._allowed: dict[str, int] = {}  # attempts of each charge
        self._made: Counter[str] = Counter()
        self._held: dict[str, str] = {}  # by whom
        self._approved: set[str] = set()

    def replay(self, entry: Entry) -> list[str]:
        """Apply one more entry, and return its fault, if any."""
        self.counts[entry.kind] += 1
        check = getattr(self, f"_{entry.kind}", None)
        fault = check(entry) if check else "is of a kind that does not exist"
        return [f"entry {entry.seq} {fault}"] if fault else []

    def _open(self, entry: Entry) -> str:
        again = entry.dataset in self._opened
        self._opened.add(entry.dataset)
        return f"opens {entry.dataset!r} a second time" if again else ""

    def _bind(self, entry: Entry) -> str:
        if entry.dataset not in self._opened:
            return f"binds data to {entry.dataset!r}, which has no budget"
        if (name := self._names.setdefault(entry.subject, entry.dataset)) != entry.dataset:
            return f"binds data of {name!r} to {entry.dataset!r}"
        return ""

    def _charge(self, entry: Entry) -> str:
        question = {name: entry.body[name] for name in QUESTION}
        self._attempts[entry.subject] += 1
        charge = f"{entry.subject}-{self._attempts[entry.subject]}"
        self._charges[charge] = entry.dataset
        self._about[charge] = question["content"], question["estimator"]
        self._allowed[charge] = len(entry.body["accounting"].get("attempts", ()))
        if entry.body["attempt"] != self._attempts[entry.subject]:
            return "is counted wrongly among the charges for its request"
        if hashlib.sha256(canonical_json(question).encode()).hexdigest() != entry.subject:
            return "charges another request than it says"
        if self._names.get(question["content"]) != entry.dataset:
            return f"charges {entry.dataset!r} for data that are not bound to it"
        source = entry.body["accounting"].get("facts", {}).get("started_from")
        if source and not self._is_shown(source):
            return "starts from an answer that was not released"
        if source and self._about[source] != self._about[charge]:
            return "starts from an answer about other rows, or of another estimator"
        return ""

    def _is_shown(self, charge: str) -> bool:
        return charge in self._released and (charge not in self._held or charge in self._approved)

    def _hold(self, entry: Entry) -> str:
        if self._charges.get(entry.subject) != entry.dataset or entry.subject in self._ended:
            return "holds back an answer that was not charged, or is there"
        self._held[entry.subject] = entry.body["by"]
        return ""

    def _approve(self, entry: Entry) -> str:
        held_by = self._held.get(entry.subject)
        if held_by is None or entry.subject not in self._released or entry.subject in self._approved:
            return "approves an answer that is not held"
        self._approved.add(entry.subject)
        return "approves an answer of the same person" if entry.body["by"] == held_by else ""

    def _attempt(self, entry: Entry) -> str:
        if self._charges.get(entry.subject) != entry.dataset:
            return "begins an attempt that was not charged"
        self._made[entry.subject] += 1
        if entry.body["number"] != self._made[entry.subject] or entry.subject in self._ended:
            return "begins an attempt out of turn"
        if self._made[entry.subject] > self._allowed[entry.subject]:
            return "begins more attempts than its charge reserved"
        request_id, _, charged = entry.subject.rpartition("-")
        return (
            "begins an attempt of a superseded charge" if int(charged) != self._attempts[request_id] else ""
        )

    def _release(self, entry: Entry) -> str:
        if self._charges.get(entry.subject) != entry.dataset:
            return "releases an answer that was not charged"
        if entry.subject in self._released:
            return "releases a second answer for one charge"
        self._released.add(entry.subject)
        self._ended.add(entry.subject)
        request_id, _, attempt = entry.subject.rpartition("-")
        if int(attempt) != self._attempts[request_id]:
            return "releases an answer that was charged again since"
        return ""

    def _lost(self, entry: Entry) -> str:
        if self._charges.get(entry.subject) != entry.dataset or entry.subject in self._released:
            return "gives up an answer that was not charged, or is there"
        self._ended.add(entry.subject)
        return ""


def as_entry(row: Row) -> Entry:
    seq, kind, dataset, subject, _, _, _, body = row
    return Entry(seq, kind, dataset, subject, json.loads(body))


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()
