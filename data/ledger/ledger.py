"""The ledger's operations: open a budget, charge it, store and replay answers, show, verify, back up."""

from __future__ import annotations

import math
import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from data.errors import (
    AnswerLost,
    AnswerPending,
    ContentRefused,
    LedgerBroken,
    LedgerError,
    LedgerUnavailable,
)
from data.ledger import backup, content, key
from data.ledger.book import Book, VerifyReport, timestamp
from data.ledger.charges import (
    LOST,
    PENDING,
    RELEASED,
    Charge,
    Holder,
    PrivacyCost,
    Question,
    TotalBudget,
    canonical_json,
    plain,
    require_name,
    require_privacy,
)
from data.ledger.database import Database, PostgreSQLDatabase, SQLiteDatabase
from data.store import folders as store

URL_VARIABLE = "DPCOST_LEDGER_URL"
RESERVE = 2**20
FIRST_POLL, LAST_POLL = 0.02, 0.5

# Raises `BudgetExhausted` if, after the dataset's charges so far, a new one does not fit into its budget.
RequireRoom = Callable[[Sequence[Charge], Charge], None]


def open_ledger(home: Path | None = None) -> Ledger:
    """Return the ledger in PostgreSQL if ``DPCOST_LEDGER_URL`` is set, else in ``home/ledger.sqlite``.

    ``home`` is ``DPCOST_HOME`` by default. Nothing is created yet.
    """
    return Ledger(home or store.home(), os.environ.get(URL_VARIABLE) or None)


class Ledger:
    """The durable record of charges and answers, for several threads, and after a fork.

    Every method raises `LedgerUnavailable` if the ledger cannot be had and `LedgerBroken` if it is not as it
    was written; both are kinds of `LedgerError`.
    """

    def __init__(
        self,
        home: Path,  # the folder with ledger.key and, without a URL, ledger.sqlite
        url: str | None = None,  # postgresql://...; all machines that use it need the same ledger.key
        *,
        lock_timeout: float = 60.0,  # seconds to wait until other processes have written
        answer_timeout: float = 60.0,  # seconds to wait for an answer that another process is working on
    ) -> None:
        self._home = home
        self._answer_timeout = answer_timeout
        self._database: Database = (
            PostgreSQLDatabase(url, lock_timeout=lock_timeout)
            if url
            else SQLiteDatabase(home / "ledger.sqlite", lock_timeout=lock_timeout)
        )

    @property
    def location(self) -> str:
        """Where the ledger is, without a password."""
        return self._database.location

    def fingerprinter(self) -> content.Fingerprinter:
        return content.Fingerprinter(key.load_keys(self._home, create=False).fingerprint)

    def open_dataset(self, name: str, epsilon: float, delta: float) -> TotalBudget:
        """Set the total budget of a dataset; it is never changed, neither up nor down."""
        require_name("the dataset's name", name)
        new = TotalBudget(name, *require_privacy(epsilon, delta), opened=timestamp())
        with self._writing() as book:
            known = next((budget for budget in book.budgets() if budget.name == name), None)
            if known is None:
                book.open(new)
                return new
        if (known.epsilon, known.delta) != (new.epsilon, new.delta):
            raise LedgerError(
                f"dataset {name!r} was opened with epsilon {known.epsilon:g} and delta {known.delta:g}, got "
                f"epsilon {epsilon:g} and delta {delta:g}; a budget is never changed, so use it as it is"
            )
        return known

    def charge(
        self,
        question: Question,
        cost: PrivacyCost,
        require_room: RequireRoom,
        *,
        allow_new_content: bool = False,
        again: bool = False,
    ) -> Charge:
        """Return the charge that answered a question, or charge for it, committed before this returns.

        If the charge's ``answer`` is ``None``, draw it now, and hand it to `store` before anybody sees it.
        Where another process or thread is working on the answer, this waits for it. An answer that was lost,
        because its process is gone, is refused, for noise is never drawn a second time under one charge;
        ``again=True`` makes it a second charge. Whether a process on another machine lives cannot be known:
        its answer counts as lost when it has not come within `answer_timeout`.

        ``require_room`` gets the dataset's charges so far and the new one, while every other process waits,
        and raises `BudgetExhausted` if they cost more than the budget together. ``allow_new_content`` is the
        owner's word that other data than before share the name's one budget; data that are known under
        another name are refused all the same (`ContentRefused`).
        """
        deadline = time.monotonic() + self._answer_timeout
        while True:
            waited = time.monotonic() >= deadline
            with self._writing() as book:
                _budget_of(book, question.dataset)
                earlier = book.charges(question=question.id)
                pending = find_existing_charge(earlier, waited=waited, again=again)
                if pending and pending.state == RELEASED:
                    return pending
                if pending is None:
                    _require_content(book, question, allow_new_content=allow_new_content)
                    cost = replace(cost, facts=plain(cost.facts, "facts"))
                    new = Charge(question, len(earlier) + 1, cost, timestamp(), Holder.here())
                    if require_room(book.charges(dataset=question.dataset), new) is not None:  # type: ignore[func-returns-value]
                        raise TypeError("require_room must raise to refuse a charge, and return nothing")
                    book.add(new)
                    # More than the answer takes: it names each column again, with a few numbers.
                    self._database.reserve(RESERVE + 16 * len(canonical_json(question.parameters)))
                    return new
            if waited:
                raise AnswerPending(
                    f"the same request is being answered by process {pending.holder.pid} since "
                    f"{pending.charged}, longer than {self._answer_timeout:g} s; wait for it, or end it"
                )
            self._wait_for(pending, deadline)

    def store(self, charge: Charge, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """Store the answer to a charge of this process, once, and return it; only then may it be shown.

        The answer is anything that JSON can hold; floats come back bit by bit.
        """
        answer = plain(answer, "answer")
        try:
            self._store(charge.id, answer)
        except LedgerUnavailable:
            if not self._database.free_reserve():
                raise
            self._store(charge.id, answer)
        return answer

    def _store(self, charge_id: str, answer: Mapping[str, Any]) -> None:
        with self._writing() as book:
            charge = _charge_of(book, charge_id)
            if charge.state != RELEASED:
                _require_open(book, charge)
                book.release(charge, answer)
            elif charge.answer != answer:
                raise LedgerError(f"charge {charge.id} has another answer already; show that one")

    def budget(self, name: str) -> TotalBudget:
        with self._reading() as book:
            return _budget_of(book, name)

    def charges(self, name: str) -> list[Charge]:
        with self._reading() as book:
            _budget_of(book, name)
            return book.charges(dataset=name)

    def show(self, name: str | None = None) -> list[dict[str, Any]]:
        """Return one dataset, or all, as plain data: budget, contents, charges, their states and answers.

        ``epsilon_charged`` and ``delta_charged`` are plain sums: an upper bound on what the charges cost
        together.
        """
        with self._reading() as book:
            budgets = book.budgets() if name is None else [_budget_of(book, name)]
            return [_overview(budget, book.charges(dataset=budget.name)) for budget in budgets]

    def verify(self, noted: str | None = None) -> VerifyReport:
        """Check that everything is as it was written; an empty ledger is.

        An older copy of the whole ledger put back is found only with ``noted``, the ``head`` of an earlier
        report.
        """
        try:
            with self._reading(require_whole=False) as book:
                return book.verify(noted)
        except LedgerBroken as problem:
            return VerifyReport(False, problems=(str(problem),))

    def backup(self, path: Path) -> VerifyReport:
        """Write the ledger with its key into one file; it may replace only a backup that it continues."""
        with self._reading(require_whole=False) as book:
            return backup.write_backup(book, self._home, path)

    def restore(self, path: Path, *, noted: str | None = None, forget_newer: bool = False) -> VerifyReport:
        """Replace the ledger by a backup, unless later charges would be lost.

        If the last head that was ``noted`` is in the backup, nothing that was known then is forgotten: needed
        where the ledger itself cannot say, because it is damaged or gone. ``forget_newer`` is the owner's
        word that an older state is meant.
        """
        backup.restore_backup(self._database, self._home, path, noted=noted, forget_newer=forget_newer)
        return self.verify(noted)

    def _wait_for(self, charge: Charge, deadline: float) -> None:
        """Wait until the answer is stored, its process is gone, or the time is over."""
        pause = FIRST_POLL
        while (left := deadline - time.monotonic()) > 0 and charge.holder.may_answer():
            time.sleep(min(pause, left))
            pause = min(2 * pause, LAST_POLL)
            with self._reading() as book:
                if _charge_of(book, charge.id).state != PENDING:
                    return

    @contextmanager
    def _writing(self) -> Iterator[Book]:
        with self._database.writing() as (connection, is_new):
            if is_new:
                key.require_unused(self._home, self._database.name)
            book = Book(connection, key.load_keys(self._home, create=is_new).id, self.location)
            book.require_whole()
            yield book
        key.mark_used(self._home, self._database.name)

    @contextmanager
    def _reading(self, *, require_whole: bool = True) -> Iterator[Book]:
        with self._database.reading() as connection:
            if connection is None:
                key.require_unused(self._home, self._database.name)
                yield Book(None, "", self.location)
                return
            book = Book(connection, key.load_keys(self._home, create=False).id, self.location)
            if require_whole:
                book.require_whole()
            yield book


def find_existing_charge(earlier: Sequence[Charge], *, waited: bool, again: bool) -> Charge | None:
    """Return the last charge for a question if its answer is there or may still come; refuse a lost one.

    ``None`` means: charge the question. Only the last charge can have an answer: there is a next one only if
    this one had none, and from then on it gets none (`_require_open`).
    """
    if not earlier:
        return None
    last = earlier[-1]
    may_still_come = last.state == PENDING and last.holder.may_answer()
    if last.state == RELEASED or (may_still_come and not (waited and last.holder.is_remote)):
        return last
    if again:
        return None
    raise AnswerLost(
        f"this request was charged to {last.question.dataset!r} at {last.charged} (epsilon {last.epsilon:g}, "
        f"delta {last.question.delta:g}), and its answer was lost before it was stored; asking again costs "
        "as much again: if you want that, add --again"
    )


def _budget_of(book: Book, name: str) -> TotalBudget:
    for budget in book.budgets():
        if budget.name == name:
            return budget
    raise LedgerError(
        f"dataset {name!r} has no budget in this ledger; check the name, or let its owner open it, e.g. "
        f"dpcost ledger open {shlex.quote(name)} --epsilon 1 --delta 1e-6"
    )


def _charge_of(book: Book, charge_id: str) -> Charge:
    for charge in book.charges(question=charge_id.rpartition("-")[0]):
        if charge.id == charge_id:
            return charge
    raise LedgerError(
        f"there is no charge {charge_id!r:.90} in this ledger; pass the id of one, see dpcost ledger show"
    )


def _require_content(book: Book, question: Question, *, allow_new_content: bool) -> None:
    names = {charge.question.dataset for charge in book.charges(content=question.content)}
    if question.dataset in names:
        return
    if names:
        raise ContentRefused(
            f"these data (the same rows, perhaps in another order) are known as {min(names)!r} and cannot "
            f"have a second budget as {question.dataset!r}; charge {min(names)!r}"
        )
    if book.charges(dataset=question.dataset) and not allow_new_content:
        raise ContentRefused(
            f"the data are not those that {question.dataset!r} was charged for so far; pass those, or open a "
            "dataset of another name if these are data of other people, or say that they belong to the same "
            "people and share the one budget, and add --new-content"
        )


def _require_open(book: Book, charge: Charge) -> None:
    """Check that this process holds the charge, and that it was not charged again since."""
    if not charge.holder.is_this_process:
        raise LedgerError(
            f"charge {charge.id} was made to process {charge.holder.pid} on {charge.holder.host}, which "
            "alone may answer it; charge the request in this process"
        )
    if charge.state != PENDING or book.charges(question=charge.question.id)[-1].id != charge.id:
        raise LedgerError(
            f"charge {charge.id} was taken for lost and charged again by another process; ask for its answer"
        )


def _overview(budget: TotalBudget, charges: Sequence[Charge]) -> dict[str, Any]:
    return {
        **asdict(budget),
        "epsilon_charged": math.fsum(charge.epsilon for charge in charges),
        "delta_charged": math.fsum(charge.question.delta for charge in charges),
        "contents": list(dict.fromkeys(charge.question.content for charge in charges)),
        "charges": [_plain_charge(charge) for charge in charges],
    }


def _plain_charge(charge: Charge) -> dict[str, Any]:
    cost = asdict(charge.cost)
    is_lost = charge.state == PENDING and not charge.holder.may_answer()
    return {
        "id": charge.id,
        "estimator": charge.question.estimator,
        "parameters": charge.question.parameters,
        "epsilon": charge.epsilon,
        "delta": charge.question.delta,
        "cost": cost | {"pure_epsilon": None if cost["pure_epsilon"] == math.inf else cost["pure_epsilon"]},
        "charged": charge.charged,
        "state": LOST if is_lost else charge.state,
        "answer": charge.answer if charge.state == RELEASED else None,
    }
