"""Takes over a ledger of an earlier version: one chain of entries, hashed with the ledger's key.

The whole chain is checked first, and nothing is taken over from one that is not whole. Every charge becomes a
row at what it costs today: of several attempts that were reserved those that were begun, once the charge has
ended. What was written stays in the database under another name, where its heads are still found.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from data.errors import LedgerBroken
from data.ledger.book import START, Book
from data.ledger.charges import (
    HELD,
    LOST,
    PENDING,
    RELEASED,
    Charge,
    Cost,
    Holder,
    Question,
    TotalBudget,
    canonical_json,
)
from data.ledger.content import Fingerprint
from data.ledger.database import BEFORE, EARLIER, EARLIER_HEAD
from data.ledger.key import load_keys
from data.store.processes import ProcessIdentity


@dataclass(frozen=True)
class _Entry:
    kind: str
    dataset: str
    subject: str
    body: dict[str, Any]


def migrate(connection: sa.Connection, home: Path, place: str) -> None:
    """Take over the tables of an earlier version, or refuse them."""
    if sa.inspect(connection).has_table(BEFORE.name):
        raise LedgerBroken(
            f"the ledger {place} was charged by an earlier version of dpcost after this one took it over; "
            "restore a backup, and use one version"
        )
    keys = load_keys(home, create=False)
    entries = _checked_entries(connection, keys.chain, keys.id, place)
    book, ends = Book(connection, keys.id), defaultdict(list)
    orders = {entry.subject: entry.body["order"] for entry in entries if entry.kind == "bind"}
    for entry in entries:
        ends[entry.subject].append(entry)
    for entry in entries:
        body = entry.body
        if entry.kind == "open":
            book.open(TotalBudget(entry.dataset, float(body["epsilon"]), float(body["delta"]), body["time"]))
        elif entry.kind == "charge":
            book.add(_charge(entry, orders[body["content"]], ends[f"{entry.subject}-{body['attempt']}"]))
    connection.execute(sa.schema.CreateTable(BEFORE))
    connection.execute(sa.insert(BEFORE).from_select([c.name for c in BEFORE.c], sa.select(EARLIER)))
    for table in (EARLIER, EARLIER_HEAD):
        table.drop(connection)


def _charge(entry: _Entry, order: str, events: list[_Entry]) -> Charge:
    body = entry.body
    accounting = dict(body["accounting"])
    answer, is_held, is_lost, made = None, False, False, 0
    for event in events:
        answer = event.body["payload"] if event.kind == "release" else answer
        is_held = event.kind == "hold" or (is_held and event.kind != "approve")
        is_lost = is_lost or event.kind == "lost"
        made += event.kind == "attempt"
    reserved = accounting.pop("attempts", None)
    charged = float(body["epsilon"])
    if reserved and (answer is not None or is_lost) and not is_held:
        spent = (
            reserved[made - 1] if made else dict.fromkeys(("epsilon", "rho", "pure_epsilon", "failure"), 0.0)
        )
        accounting |= {name: value for name, value in spent.items() if name != "epsilon"}
        charged = float(spent["epsilon"])
    pure = accounting.get("pure_epsilon")
    others = {name: value for name, value in accounting.items() if name not in ("facts", "releases")}
    unit = {name: others.pop(name, None) for name in ("rho", "pure_epsilon", "failure", "unit")}["unit"]
    facts = dict(accounting.get("facts", {}))
    if charged != float(body["epsilon"]):
        facts["charged_epsilon"] = charged
    return Charge(
        question=Question(
            entry.dataset,
            Fingerprint(body["content"], order),
            **{name: body[name] for name in ("estimator", "parameters", "epsilon", "delta")},
        ),
        attempt=body["attempt"],
        cost=Cost(
            rho=float(accounting["rho"]),
            pure_epsilon=float("inf") if pure is None else float(pure),
            failure=float(accounting["failure"]),
            unit=unit or "row",
            facts=facts,
        ),
        charged=body["time"],
        holder=Holder(ProcessIdentity(**body["holder"]["process"]), body["holder"]["thread"]),
        state=HELD
        if is_held and answer
        else RELEASED
        if answer is not None
        else LOST
        if is_lost
        else PENDING,
        answer=answer,
    )


def _checked_entries(connection: sa.Connection, key: bytes, key_id: str, place: str) -> list[_Entry]:
    """Return all entries, or refuse a chain that is not as it was written."""

    def code(*parts: object) -> str:
        try:
            return hmac.digest(key, canonical_json(parts).encode(), "sha256").hex()
        except (TypeError, ValueError):  # e.g. raw bytes
            return ""

    last, found = START, []
    rows = connection.execute(sa.select(EARLIER).order_by(EARLIER.c.seq)).all()
    for number, (seq, kind, dataset, subject, digest, previous, own, body) in enumerate(rows, start=1):
        hashed = hashlib.sha256(str(body).encode("utf-8", "surrogatepass")).hexdigest()
        if (seq, previous, digest) != (number, last, hashed) or own != code(
            "entry", seq, kind, dataset, subject, digest, previous
        ):
            raise _broken(place, f"its entry {number} was edited, moved, removed or inserted")
        found.append(_Entry(kind, dataset, subject, json.loads(body)))
        last = own
    heads = connection.execute(sa.select(EARLIER_HEAD)).all()
    if [tuple(head) for head in heads] != [(len(rows), last, key_id, code("head", len(rows), last, key_id))]:
        raise _broken(place, "its head was edited, or entries were cut off, or ledger.key is another one's")
    return found


def _broken(place: str, what: str) -> LedgerBroken:
    return LedgerBroken(
        f"the ledger {place}, of an earlier version of dpcost, is not as it was written: {what}; nothing was "
        "taken over: restore a backup"
    )
