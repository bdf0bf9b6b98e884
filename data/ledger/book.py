"""The ledger's two tables within one transaction: read and checked as a whole, then added to.

A charge is one row of ``charges``. What was charged never changes, and its hash follows from it, from its
budget and from the hash of the charge before: a chain, whose last hash is the head. State and answer, which
are written once more when the answer is there, have a seal that follows from the hash. A budget's seal covers
its last charge, so that charges cut off at the end are missed. Nothing here is keyed: who can rewrite the
ledger can read its key, too. The chain shows accidents, slips and, with a head that was noted elsewhere, that
an older ledger was put back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
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
from data.ledger.database import BUDGETS, CHARGES

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

    def __init__(self, connection: sa.Connection | None, key_id: str, location: str) -> None:
        self.connection, self._key_id, self._location = connection, key_id, location
        self._budgets, self._charges = (
            [] if connection is None else _rows(connection, sa.select(table).order_by(table.c.number))
            for table in (BUDGETS, CHARGES)
        )
        if any(row["key_id"] != key_id for row in self._budgets):
            raise LedgerError(
                f"the ledger {location} was written with another key than the ledger.key that is here; copy "
                "that file from the machine that opened the ledger, or restore it from a backup"
            )

    @property
    def head(self) -> str:
        return str(self._charges[-1]["hash"]) if self._charges else START

    @property
    def hashes(self) -> set[str]:
        """All heads that the ledger ever had."""
        return {START, *(row["hash"] for row in self._charges)}

    def budgets(self) -> list[TotalBudget]:
        return [TotalBudget(*(row[name] for name in _OPENED[:4])) for row in self._budgets]

    def charges(self, **wanted: str) -> list[Charge]:
        """Return the charges with some values, e.g. of a ``dataset`` or a ``question``, in order."""
        return [_charge_of(row) for row in self._charges if wanted.items() <= row.items()]

    def open(self, budget: TotalBudget) -> None:
        row = asdict(budget) | {"number": len(self._budgets) + 1, "key_id": self._key_id, "last": START}
        row["seal"] = _budget_seal(row)
        self._execute(sa.insert(BUDGETS).values(row))
        self._budgets.append(row)

    def add(self, charge: Charge) -> None:
        """Write a charge at the end of the chain."""
        row = _row_of(charge) | {"number": len(self._charges) + 1, "previous": self.head}
        budget = next(each for each in self._budgets if each["name"] == row["dataset"])
        row["hash"] = _hash(budget, row)
        row["seal"] = _seal(row)
        self._execute(sa.insert(CHARGES).values(row))
        self._charges.append(row)
        budget["last"] = row["hash"]
        budget["seal"] = _budget_seal(budget)
        of_budget = sa.update(BUDGETS).where(BUDGETS.c.name == budget["name"])
        self._execute(of_budget.values(last=budget["last"], seal=budget["seal"]))

    def release(self, charge: Charge, answer: Mapping[str, Any]) -> None:
        same = {"question": charge.question.id, "attempt": charge.attempt, "state": PENDING}
        (row,) = [row for row in self._charges if same.items() <= row.items()]
        row |= {"state": RELEASED, "answer": canonical_json(answer), "ended": timestamp()}
        row["seal"] = _seal(row)
        of_charge = sa.update(CHARGES).where(CHARGES.c.number == row["number"])
        self._execute(of_charge.values({name: row[name] for name in _SEALED_LATER}))

    def require_whole(self) -> None:
        if problems := self.problems():
            raise LedgerBroken(
                f"the ledger {self._location} is not as it was written: {problems[0]}; nothing was written: "
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

    def _execute(self, statement: sa.Executable) -> None:
        assert self.connection is not None
        self.connection.execute(statement)


def timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _rows(connection: sa.Connection, statement: sa.Select[Any]) -> list[dict[str, Any]]:
    return [dict(row) for row in connection.execute(statement).mappings()]


def _row_of(charge: Charge) -> dict[str, Any]:
    asked, cost = asdict(charge.question), charge.cost
    return {
        "dataset": asked.pop("dataset"),
        "content": asked.pop("content"),
        "question": charge.question.id,
        "attempt": charge.attempt,
        "asked": canonical_json(asked),
        "rho": float(cost.rho),
        "pure_epsilon": float(cost.pure_epsilon) if cost.pure_epsilon < float("inf") else None,
        "failure": float(cost.failure),
        "unit": cost.unit,
        "facts": canonical_json(cost.facts),
        "charged": charge.charged,
        "holder": canonical_json(charge.holder.written),
        "state": charge.state,
        "answer": None if charge.answer is None else canonical_json(charge.answer),
        "ended": None if charge.state == PENDING else charge.charged,
    }


def _charge_of(row: Row) -> Charge:
    asked, facts, holder = (json.loads(row[name]) for name in ("asked", "facts", "holder"))
    pure_epsilon = float("inf") if row["pure_epsilon"] is None else row["pure_epsilon"]
    return Charge(
        question=Question(row["dataset"], row["content"], **asked),
        attempt=row["attempt"],
        cost=PrivacyCost(row["rho"], pure_epsilon, row["failure"], row["unit"], facts),
        charged=row["charged"],
        holder=Holder.of(holder),
        state=row["state"],
        answer=None if row["answer"] is None else json.loads(row["answer"]),
    )


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
