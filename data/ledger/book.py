"""The ledger's two tables within one transaction: read and checked as a whole, then added to.

A charge is one row of ``charges``. What was charged never changes, and its hash follows from it, from its
budget and from the hash of the charge before: a chain, whose last hash is the head. State and answer, which
are written once more when the charge ends, have a seal that follows from the hash. A budget's seal covers
its last charge, so that charges cut off at the end are missed. None of this is keyed: whoever can rewrite the
ledger can read its key, too. It shows accidents, slips and, with a head that was noted elsewhere, that an
older ledger was put back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from data.errors import LedgerBroken, LedgerError
from data.ledger.charges import (
    PENDING,
    RELEASED,
    Charge,
    Holder,
    PrivacyCost,
    Question,
    TotalBudget,
    canonical_json,
)
from data.ledger.database import BEFORE, BUDGETS, CHARGES
from data.store.processes import ProcessIdentity

START = "0" * 64
MAX_PROBLEMS = 20
_SEALED_LATER = ("state", "answer", "ended", "seal")
_CHARGED = [column.name for column in CHARGES.c if column.name not in ("hash", *_SEALED_LATER)]
_OPENED = ("name", "epsilon", "delta", "opened", "key_id")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class VerifyReport:
    """The result of verifying the ledger; at most 20 problems, one sentence each.

    Who keeps the head elsewhere can later find out that an older ledger was put back.
    """

    ok: bool
    n_datasets: int = 0
    n_charges: int = 0
    n_releases: int = 0
    head: str = START
    problems: tuple[str, ...] = ()


class Book:
    """The rows of one transaction, or none of a ledger that was never written."""

    def __init__(self, connection: sa.Connection | None, key_id: str) -> None:
        self.connection, self._key_id = connection, key_id
        self._budgets = self._rows(sa.select(BUDGETS).order_by(BUDGETS.c.number))
        self._charges = self._rows(sa.select(CHARGES).order_by(CHARGES.c.number))

    @property
    def head(self) -> str:
        return str(self._charges[-1]["hash"]) if self._charges else START

    @property
    def hashes(self) -> set[str]:
        """All heads that the ledger ever had, those of an earlier version's chain included."""
        hashes = {START, *(row["hash"] for row in self._charges)}
        if self.connection is not None and sa.inspect(self.connection).has_table(BEFORE.name):
            hashes |= {row["hash"] for row in self._rows(sa.select(BEFORE.c.hash))}
        return hashes

    def budgets(self) -> list[TotalBudget]:
        return [TotalBudget(*(row[name] for name in _OPENED[:4])) for row in self._budgets]

    def budget(self, name: str) -> TotalBudget | None:
        return next((budget for budget in self.budgets() if budget.name == name), None)

    def charges(self, **wanted: str) -> list[Charge]:
        """Return the charges with some values, e.g. of a ``dataset`` or a ``question``, in order."""
        return [
            _charge_of(row)
            for row in self._charges
            if all(row[name] == value for name, value in wanted.items())
        ]

    def names_of(self, content: str) -> set[str]:
        """Return the datasets that were charged for the rows of a fingerprint."""
        return {row["dataset"] for row in self._charges if row["content"] == content}

    def open(self, budget: TotalBudget) -> TotalBudget:
        row = asdict(budget) | {"number": len(self._budgets) + 1, "key_id": self._key_id, "last": START}
        row["seal"] = _budget_seal(row)
        self._insert(BUDGETS, row)
        self._budgets.append(row)
        return budget

    def add(self, charge: Charge) -> None:
        """Write a charge at the end of the chain; ended charges are those of an earlier version."""
        row = self._row_of(charge)
        budget = next(each for each in self._budgets if each["name"] == row["dataset"])
        row["hash"] = _hash(budget, row)
        row["seal"] = _seal(row)
        self._insert(CHARGES, row)
        self._charges.append(row)
        budget["last"] = row["hash"]
        budget["seal"] = _budget_seal(budget)
        self._update(BUDGETS, BUDGETS.c.name == budget["name"], last=budget["last"], seal=budget["seal"])

    def end(self, charge: Charge, state: str, answer: Mapping[str, Any] | None = None) -> Charge:
        """Write the state in which a pending charge ends, and its answer."""
        (row,) = [
            row
            for row in self._charges
            if (row["question"], row["attempt"]) == (charge.question.id, charge.attempt)
        ]
        assert row["state"] == PENDING
        row["state"], row["answer"], row["ended"] = state, _text(answer), now()
        row["seal"] = _seal(row)
        self._update(
            CHARGES, CHARGES.c.number == row["number"], **{name: row[name] for name in _SEALED_LATER}
        )
        return replace(charge, state=state, answer=answer)

    def require_key(self, location: str) -> None:
        """Refuse a ledger whose fingerprints were made with another key."""
        if any(row["key_id"] != self._key_id for row in self._budgets):
            raise LedgerError(
                f"the ledger {location} was written with another key than the ledger.key that is here; copy "
                "that file from the machine that opened the ledger, or restore it from a backup"
            )

    def require_whole(self, location: str) -> None:
        """Refuse a ledger in which anything is not as it was written."""
        if problems := self.problems():
            raise LedgerBroken(
                f"the ledger {location} is not as it was written: {problems[0]}; nothing was written: "
                "run dpcost ledger verify, and restore a backup"
            )

    def verify(self, noted: str | None = None) -> VerifyReport:
        """Check every row; ``noted`` is a head from an earlier report, which the chain must still contain."""
        problems = self.problems()
        if noted is not None and noted not in self.hashes:
            problems.append("the head noted earlier is not in the chain: an older ledger, or another one")
        n_releases = sum(row["state"] == RELEASED for row in self._charges)
        counts = len(self._budgets), len(self._charges), n_releases
        return VerifyReport(not problems, *counts, self.head, tuple(problems[:MAX_PROBLEMS]))

    def problems(self) -> list[str]:
        """Return what is not as it was written; no stored value is in a sentence."""
        faults, last = [], START
        names: dict[str, str] = {}  # dataset of each content
        budgets = {row["name"]: row for row in self._budgets}
        last_of = dict.fromkeys(budgets, START)
        for number, row in enumerate(self._charges, start=1):
            budget = budgets.get(row["dataset"])
            if row["number"] != number:
                faults.append(f"charge {number} is missing, or one was inserted before it")
            elif row["previous"] != last:
                faults.append(f"charge {number} does not follow the one before it")
            elif budget is None:
                faults.append(f"charge {number} is of a dataset without a budget")
            elif row["hash"] != _hash(budget, row):
                faults.append(f"charge {number}, or the budget it belongs to, was edited")
            elif row["seal"] != _seal(row):
                faults.append(f"the state or the answer of charge {number} was edited")
            elif names.setdefault(row["content"], row["dataset"]) != row["dataset"]:
                faults.append(f"charge {number} is about data that are bound to another dataset")
            last = last_of[row["dataset"]] = row["hash"]
        for number, row in enumerate(self._budgets, start=1):
            if row["seal"] != _budget_seal(row):
                faults.append(f"budget {number} was edited")
            elif row["last"] != last_of[row["name"]]:
                faults.append(f"the last charge of budget {number} is not the one that was written last")
        return faults

    def _row_of(self, charge: Charge) -> dict[str, Any]:
        question, cost = charge.question, charge.cost
        asked = {name: getattr(question, name) for name in ("estimator", "parameters", "epsilon", "delta")}
        return {
            "number": len(self._charges) + 1,
            "dataset": question.dataset,
            "content": question.content,
            "question": question.id,
            "attempt": charge.attempt,
            "asked": canonical_json(asked),
            "rho": float(cost.rho),
            "pure_epsilon": float(cost.pure_epsilon) if cost.pure_epsilon < float("inf") else None,
            "failure": float(cost.failure),
            "unit": cost.unit,
            "facts": canonical_json(cost.facts),
            "charged": charge.charged,
            "holder": canonical_json(asdict(charge.holder)),
            "previous": self.head,
            "state": charge.state,
            "answer": _text(charge.answer),
            "ended": None if charge.state == PENDING else charge.charged,
        }

    def _rows(self, statement: sa.Select[Any]) -> list[dict[str, Any]]:
        if self.connection is None:
            return []
        return [dict(row) for row in self.connection.execute(statement).mappings()]

    def _insert(self, table: sa.Table, row: Row) -> None:
        assert self.connection is not None
        self.connection.execute(sa.insert(table).values(row))

    def _update(self, table: sa.Table, where: sa.ColumnElement[bool], **values: object) -> None:
        assert self.connection is not None
        self.connection.execute(sa.update(table).where(where).values(values))


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _charge_of(row: Row) -> Charge:
    asked, holder = json.loads(row["asked"]), json.loads(row["holder"])
    pure = row["pure_epsilon"]
    return Charge(
        question=Question(row["dataset"], row["content"], **asked),
        attempt=row["attempt"],
        cost=PrivacyCost(
            row["rho"],
            float("inf") if pure is None else pure,
            row["failure"],
            row["unit"],
            json.loads(row["facts"]),
        ),
        charged=row["charged"],
        holder=Holder(ProcessIdentity(**holder["process"]), holder["thread"]),
        state=row["state"],
        answer=None if row["answer"] is None else json.loads(row["answer"]),
    )


def _text(answer: Mapping[str, Any] | None) -> str | None:
    return None if answer is None else canonical_json(answer)


def _hash(budget: Row, row: Row) -> str:
    return _digest([budget[name] for name in _OPENED], [row[name] for name in _CHARGED])


def _seal(row: Row) -> str:
    return _digest([row[name] for name in ("hash", "state", "answer", "ended")])


def _budget_seal(row: Row) -> str:
    return _digest([row[name] for name in (*_OPENED, "last")])


def _digest(*parts: object) -> str:
    try:
        return hashlib.sha256(canonical_json(parts).encode()).hexdigest()
    except (TypeError, ValueError):  # something that the ledger never writes, e.g. raw bytes
        return ""
