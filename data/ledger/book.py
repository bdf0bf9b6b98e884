"""The ledger's two tables within one transaction: read, checked, and added to.

A charge is one row of ``charges``. The content of a charge never changes. Its hash follows from that content,
its budget and the hash of the charge before: a chain, whose last hash is the head. The state changes when a
reserve is charged or given back. State and result are written once more when the result exists. Their seal
follows from the hash. A budget's seal covers its last charge, which reveals charges that were cut off at the
end. Nothing here is keyed: a person who can rewrite the ledger can read its key, too. The chain shows
accidents, slips and, with a head that was noted elsewhere, that an older ledger was put back.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import sqlalchemy as sa

from data.errors import LedgerBroken, LedgerError
from data.ledger.charges import (
    PENDING,
    RELEASED,
    RESERVED,
    RETURNED,
    Account,
    Charge,
    PrivacyCost,
    Question,
    TotalBudget,
    canonical_json,
)
from data.ledger.database import BUDGETS, CHARGES, columns_of

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
        self._budgets = [{"unit": None, **row} for row in self._rows(BUDGETS)]
        if any(row["key_id"] != key_id for row in self._budgets):
            raise LedgerError(
                f"the ledger {location} was written with another key than the ledger.key that is here; copy "
                "that file from the machine that opened the ledger, or restore it from a backup"
            )

    @property
    def head(self) -> str:
        return str(self._tail["hash"]) if self._tail else START

    @cached_property
    def hashes(self) -> set[str]:
        """All heads that the ledger ever had."""
        return {START, *(row["hash"] for row in self._rows(CHARGES))}

    def budgets(self) -> list[TotalBudget]:
        names = _OPENED[:4]
        return [
            TotalBudget(**{name: row[name] for name in names}, unit=row["unit"] or "")
            for row in self._budgets
        ]

    def charges(self, **values: str) -> list[Charge]:
        """Return the charges with given values (``dataset``, ``question``), in order."""
        return [_charge_of(row) for row in self._rows(CHARGES, **values)]

    def charges_of(self, question: Question) -> list[Charge]:
        """Return the charges of a question, of which the rows must be as they were written."""
        of_table = {} if question.exact else {"content": question.content}
        request = canonical_json(question.request)
        rows = self._rows(CHARGES, dataset=question.dataset, asked=request, **of_table)
        self._require_links(rows)
        return [_charge_of(row) for row in rows]

    def contents(self) -> dict[str, str]:
        """Return the dataset of each content that was charged, without charges that were given back."""
        if self.connection is None:
            return {}
        columns = sa.select(CHARGES.c.content, CHARGES.c.dataset).distinct()
        columns = columns.where(CHARGES.c.state != RETURNED)
        return {row.content: row.dataset for row in self.connection.execute(columns)}

    def account(self, name: str) -> Account:
        for budget in self.budgets():
            if budget.name == name:
                charges = [each for each in self.charges(dataset=name) if each.state != RETURNED]
                return Account(budget, charges, self.contents(), self.head)
        raise LedgerError(
            f"dataset {name!r} has no budget in this ledger; check the name, or let its owner open it, e.g. "
            f"dpcost ledger open {shlex.quote(name)} --epsilon 1 --delta 1e-6"
        )

    def open(self, budget: TotalBudget) -> None:
        row = asdict(budget) | {"number": len(self._budgets) + 1, "key_id": self._key_id, "last": START}
        row["unit"] = budget.unit or None
        row["seal"] = _budget_seal(row)
        self._execute(sa.insert(BUDGETS).values(row))
        self._budgets.append(row)

    def add(self, charge: Charge) -> None:
        """Write a charge at the end of the chain, whose last link and whose budget must be whole."""
        budget = next(each for each in self._budgets if each["name"] == charge.question.dataset)
        row = _row_of(charge) | {"number": (self._tail or {"number": 0})["number"] + 1, "previous": self.head}
        row["hash"] = _hash(budget, row)
        row["seal"] = _seal(row)
        self._execute(sa.insert(CHARGES).values(row))
        of_budget = sa.update(BUDGETS).where(BUDGETS.c.name == budget["name"])
        budget["last"] = row["hash"]
        self._execute(of_budget.values(last=budget["last"], seal=_budget_seal(budget)))

    def release(self, charge: Charge, answer: Mapping[str, Any]) -> None:
        self._advance(charge, PENDING, RELEASED, answer=canonical_json(answer), ended=timestamp())

    def begin(self, charge: Charge) -> Charge:
        """Turn a reserve into a charge whose noise may be drawn."""
        self._advance(charge, RESERVED, PENDING)
        return replace(charge, state=PENDING)

    def give_back(self, charge: Charge) -> None:
        """Give a reserve back, of which nothing was drawn."""
        self._advance(charge, RESERVED, RETURNED, ended=timestamp())

    def _advance(self, charge: Charge, before: str, state: str, **changed: str) -> None:
        same = {"question": charge.question.id, "attempt": charge.attempt, "state": before}
        (row,) = self._rows(CHARGES, **same)
        row |= {"state": state, **changed}
        row["seal"] = _seal(row)
        of_charge = sa.update(CHARGES).where(CHARGES.c.number == row["number"])
        self._execute(of_charge.values({name: row[name] for name in _SEALED_LATER}))

    def require_whole(self) -> None:
        """Check the whole chain: the room for a new charge depends on all earlier ones."""
        if problems := self.problems():
            raise self._broken(problems[0])

    def _require_links(self, rows: Sequence[Row]) -> None:
        of = {row["name"]: row for row in self._budgets}
        for row in rows:
            owner = of.get(row["dataset"])
            if owner is None or row["hash"] != _hash(owner, row) or row["seal"] != _seal(row):
                raise self._broken(f"charge {row['number']} was edited")

    def _broken(self, problem: str) -> LedgerBroken:
        return LedgerBroken(
            f"the ledger {self._location} is not as it was written: {problem}; nothing was written: run "
            "dpcost ledger verify, and restore a backup"
        )

    @property
    def _tail(self) -> Row | None:
        if self.connection is None:
            return None
        last = sa.select(CHARGES).order_by(CHARGES.c.number.desc()).limit(1)
        row = self.connection.execute(last).mappings().first()
        return dict(row) if row else None

    def _rows(self, table: sa.Table, **values: object) -> list[dict[str, Any]]:
        if self.connection is None:
            return []
        columns = [table.c[name] for name in columns_of(self.connection, table)]
        chosen = sa.select(*columns).where(*(table.c[name] == value for name, value in values.items()))
        return [dict(row) for row in self.connection.execute(chosen.order_by(table.c.number)).mappings()]

    def verify(self, noted: str | None = None) -> VerifyReport:
        """Check every row; ``noted`` is a head from an earlier report, which the chain must still contain."""
        problems = self.problems()
        if noted is not None and noted not in self.hashes:
            problems.append("the head noted earlier is not in the chain: an older ledger, or another one")
        charges = self._rows(CHARGES)
        n_releases = sum(row["state"] == RELEASED for row in charges)
        counts = len(self._budgets), len(charges), n_releases
        return VerifyReport(not problems, *counts, self.head, tuple(problems[:MAX_PROBLEMS]))

    def problems(self) -> list[str]:
        """Return what is not as it was written; no stored value is in a sentence."""
        faults, last = [], START
        names: dict[str, str] = {}  # dataset of each content; what was given back binds none
        budgets = {row["name"]: row for row in self._budgets}
        last_of = dict.fromkeys(budgets, START)
        for number, row in enumerate(self._rows(CHARGES), start=1):
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
                faults.append(f"the state or the result of charge {number} was edited")
            elif (
                row["state"] != RETURNED
                and names.setdefault(row["content"], row["dataset"]) != row["dataset"]
            ):
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


def _row_of(charge: Charge) -> dict[str, Any]:
    question, cost = charge.question, charge.cost
    return {
        "dataset": question.dataset,
        "content": question.content,
        "question": question.id,
        "attempt": charge.attempt,
        "asked": canonical_json(question.request),
        "rho": float(cost.rho),
        "pure_epsilon": float(cost.pure_epsilon) if cost.pure_epsilon < float("inf") else None,
        "failure": float(cost.failure),
        "unit": cost.unit,
        "facts": canonical_json(cost.facts),
        "charged": charge.charged,
        "holder": "",
        "state": charge.state,
        "answer": None,
        "ended": None,
    }


def _charge_of(row: Row) -> Charge:
    request, facts = (json.loads(row[name]) for name in ("asked", "facts"))
    pure_epsilon = float("inf") if row["pure_epsilon"] is None else row["pure_epsilon"]
    return Charge(
        question=Question(row["dataset"], row["content"], **request),
        attempt=row["attempt"],
        cost=PrivacyCost(row["rho"], pure_epsilon, row["failure"], row["unit"], facts),
        charged=row["charged"],
        answer=None if row["answer"] is None else json.loads(row["answer"]),
        state=row["state"],
    )


def _hash(budget: Row, row: Row) -> str:
    return _digest([budget[name] for name in _OPENED], [row[name] for name in _CHARGED])


def _seal(row: Row) -> str:
    return _digest([row[name] for name in ("hash", "state", "answer", "ended")])


def _budget_seal(row: Row) -> str:
    unit = [row["unit"]] if row["unit"] else []
    return _digest([row[name] for name in (*_OPENED, "last")] + unit)


def _digest(*parts: object) -> str:
    try:
        return hashlib.sha256(canonical_json(parts).encode()).hexdigest()
    except (TypeError, ValueError):  # something that the ledger never writes, e.g. raw bytes
        return ""
