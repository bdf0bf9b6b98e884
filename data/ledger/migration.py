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
    Holder,
    PrivacyCost,
    Question,
    TotalBudget,
    canonical_json,
)
from data.ledger.database import BEFORE, EARLIER, EARLIER_HEAD
from data.ledger.key import Keys


def migrate(connection: sa.Connection, keys: Keys, location: str) -> None:
    if sa.inspect(connection).has_table(BEFORE.name):
        raise LedgerBroken(
            f"the ledger {location} was charged by an earlier version of dpcost after this one took it over; "
            "restore a backup, and use one version"
        )
    entries = _checked_entries(connection, keys, location)
    book, ends = Book(connection, keys.id, location), defaultdict(list)
    for entry in entries:
        ends[entry.subject].append(entry)
    for entry in entries:
        body = json.loads(entry.body)
        if entry.kind == "open":
            book.open(TotalBudget(entry.dataset, float(body["epsilon"]), float(body["delta"]), body["time"]))
        elif entry.kind == "charge":
            book.add(_charge(entry.dataset, body, ends[f"{entry.subject}-{body['attempt']}"]))
    connection.execute(sa.schema.CreateTable(BEFORE))
    connection.execute(sa.insert(BEFORE).from_select([c.name for c in BEFORE.c], sa.select(EARLIER)))
    for table in (EARLIER, EARLIER_HEAD):
        table.drop(connection)


def _charge(dataset: str, body: dict[str, Any], events: list[sa.Row[Any]]) -> Charge:
    answer = next((json.loads(each.body)["payload"] for each in events if each.kind == "release"), None)
    kinds = [event.kind for event in events]
    is_held = "hold" in kinds and "approve" not in kinds
    cost, facts = dict(body["accounting"]), dict(body["accounting"].get("facts", {}))
    if "attempts" in cost and not is_held and (answer is not None or "lost" in kinds):
        made = kinds.count("attempt")
        nothing = {"epsilon": 0.0, "rho": 0.0, "pure_epsilon": 0.0, "failure": 0.0}
        cost |= cost["attempts"][made - 1] if made else nothing
        facts["charged_epsilon"] = float(cost["epsilon"])
    state = RELEASED if answer is not None else LOST if "lost" in kinds else PENDING
    return Charge(
        question=Question(
            dataset,
            **{name: body[name] for name in ("content", "estimator", "parameters", "epsilon", "delta")},
        ),
        attempt=body["attempt"],
        cost=PrivacyCost(
            rho=float(cost["rho"]),
            pure_epsilon=float("inf") if cost["pure_epsilon"] is None else float(cost["pure_epsilon"]),
            failure=float(cost["failure"]),
            unit=cost.get("unit", "row"),
            facts=facts,
        ),
        charged=body["time"],
        holder=Holder.of(body["holder"]),
        state=HELD if is_held and answer is not None else state,
        answer=answer,
    )


def _checked_entries(connection: sa.Connection, keys: Keys, location: str) -> list[sa.Row[Any]]:
    def code(*parts: object) -> str:
        try:
            return hmac.digest(keys.chain, canonical_json(parts).encode(), "sha256").hex()
        except (TypeError, ValueError):  # e.g. raw bytes
            return ""

    last = START
    rows = connection.execute(sa.select(EARLIER).order_by(EARLIER.c.seq)).all()
    for number, (seq, kind, dataset, subject, digest, previous, own, body) in enumerate(rows, start=1):
        hashed = hashlib.sha256(str(body).encode("utf-8", "surrogatepass")).hexdigest()
        if (seq, previous, digest) != (number, last, hashed) or own != code(
            "entry", seq, kind, dataset, subject, digest, previous
        ):
            raise _broken(location, f"its entry {number} was edited, moved, removed or inserted")
        last = own
    head = len(rows), last, keys.id
    if list(connection.execute(sa.select(EARLIER_HEAD))) != [(*head, code("head", *head))]:
        raise _broken(location, "its head was edited, entries were cut off, or ledger.key is another's")
    return list(rows)


def _broken(location: str, what: str) -> LedgerBroken:
    return LedgerBroken(
        f"the ledger {location}, of an earlier version of dpcost, is not as it was written: {what}; nothing "
        "was taken over: restore a backup"
    )
