"""The ledger's operations: open a budget, charge it, store and replay answers, show, verify, back up."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from data.errors import (
    AnswerLost,
    BudgetExhausted,
    ContentRefused,
    LedgerBroken,
    LedgerError,
    LedgerUnavailable,
)
from data.ledger import backup, content, key
from data.ledger.book import Book, VerifyReport, timestamp
from data.ledger.charges import (
    PENDING,
    RESERVED,
    RETURNED,
    Account,
    Charge,
    PrivacyCost,
    Question,
    TotalBudget,
    plain,
    require_name,
    require_privacy,
)
from data.ledger.database import Database, SQLiteDatabase
from data.ledger.postgresql import PostgreSQLDatabase
from data.store import folders as store

_log = logging.getLogger(__name__)
URL_VARIABLE = "DPCOST_LEDGER_URL"
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
        store_timeout: float = 60.0,  # seconds for which a drawn result waits to be stored
    ) -> None:
        self._home, self._store_timeout = home, store_timeout
        self._database: Database = (
            PostgreSQLDatabase(url, lock_timeout=lock_timeout)
            if url
            else SQLiteDatabase(home / "ledger.sqlite", lock_timeout=lock_timeout)
        )

    @property
    def location(self) -> str:
        """Where the ledger is, without a password."""
        return self._database.location

    def fingerprinter(
        self,
        contents: Mapping[str, str],
        dataset: str = "",
        *,
        read: Mapping[str, Collection[str]] | None = None,
        allow_new_content: bool = False,
    ) -> content.Fingerprinter:
        """Return a reader of a table, which refuses early what is not the ``dataset``'s.

        ``contents`` are those of the ledger.
        """
        return content.Fingerprinter(
            key.load_keys(self._home, create=False).fingerprint,
            read=read,
            dataset=dataset,
            known=[] if allow_new_content else [each for each, name in contents.items() if name == dataset],
        )

    def open_dataset(self, name: str, epsilon: float, delta: float, unit: str = "") -> TotalBudget:
        """Set the total budget of a dataset; it is never changed, neither up nor down.

        ``unit`` is the id column of the persons that it protects. Their tables share the budget.
        """
        require_name("the dataset's name", name)
        if unit:
            require_name("the unit", unit)
        new = TotalBudget(name, *require_privacy(epsilon, delta), opened=timestamp(), unit=unit)
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
        if unit not in ("", known.unit):
            declared = f"the unit {known.unit!r}" if known.unit else "no unit"
            raise LedgerError(
                f"dataset {name!r} was opened with {declared}, got {unit!r}; a budget is never changed, so "
                "use it as it is"
            )
        return known

    @contextmanager
    def answering(
        self,
        question: Question,
        cost: PrivacyCost,
        require_room: RequireRoom,
        *,
        allow_new_content: bool = False,
        again: bool = False,
    ) -> Iterator[tuple[Charge, Account]]:
        """Yield the charge that answered a question, or a new one, which is on the disk; others wait.

        With it comes the dataset's account, this charge included.

        If the charge's ``answer`` is ``None``, draw it now, and hand it to `store` before anybody sees it. If
        a charge has no answer and its process is gone, which frees the lock, the result is lost. The request
        is refused: noise is never drawn a second time under one charge. ``again=True`` makes a second charge.

        ``require_room`` gets the dataset's charges so far and the new one, and raises `BudgetExhausted` if
        they cost more than the budget together. With ``allow_new_content`` the owner states that other data
        than before share the budget of the name. Data that are known under another name are still refused
        (`ContentRefused`).
        """
        with self._database.answering(question.dataset):
            with self._writing() as book:
                book.require_whole()
                charge = _answered(book, question, require_room, again)
                if charge and charge.state == RESERVED:
                    charge = book.begin(_same_cost(charge, cost))
                account = book.account(question.dataset)
                if charge is None:
                    charge = _new_charge(
                        book, question, cost, require_room, allow_new_content=allow_new_content
                    )
                    account = book.account(question.dataset)
            yield charge, account

    def reserve(
        self,
        dataset: str,
        requests: Sequence[tuple[Question, PrivacyCost]],
        require_room: RequireRoom,
        *,
        give_back: Collection[str] = (),
    ) -> Account:
        """Charge several questions before any is drawn: all of them, or none.

        `answering` turns a reserve into a charge before noise is drawn. Reserves with an ``id`` in
        ``give_back`` are given back first; a charge whose noise may have been drawn is refused. A question
        that is charged or reserved stays as it is.
        """
        with self._database.answering(dataset), self._writing() as book:
            book.require_whole()
            for charge in book.account(dataset).charges:
                if charge.id in give_back:
                    if charge.state != RESERVED:
                        raise LedgerError(
                            f"{charge.reserve or charge.id!r} cannot be given back: its noise may have been "
                            "drawn, so what was charged stays spent"
                        )
                    book.give_back(charge)
            for question, cost in requests:
                if not _charges_of(book, question):
                    _new_charge(book, question, cost, require_room, state=RESERVED)
            return book.account(dataset)

    def store(self, charge: Charge, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """Store the result of a charge, once, and return it; only then may it be shown.

        The result is anything that JSON can hold; floats come back bit by bit. While the ledger cannot be
        written, e.g. because its disk is full, the result waits for ``store_timeout`` seconds. Then it is
        lost (`AnswerLost`).
        """
        answer, end, pause = plain(answer, "answer"), time.monotonic() + self._store_timeout, 0.5
        while True:
            try:
                return self._stored(charge, answer)
            except LedgerUnavailable as error:
                if time.monotonic() + pause > end:
                    raise AnswerLost(
                        "the request was charged, and its result is lost, since it could not be stored: "
                        f"{error} To pay once more, add --again"
                    ) from None
                _log.warning("The result was drawn and cannot be stored yet (%s). It waits.", self.location)
                time.sleep(pause)
                pause = min(2 * pause, 5.0)

    def _stored(self, charge: Charge, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        with self._writing() as book:
            charges = book.charges_of(charge.question)
            if not charges or charges[-1].id != charge.id:
                raise LedgerError(
                    f"charge {charge.id:.90} is not the last one of its question, and gets no result; "
                    "repeat the request"
                )
            if charges[-1].answer is None:
                book.release(charge, answer)
            elif charges[-1].answer != answer:
                raise LedgerError(f"charge {charge.id:.90} has another answer already; show that one")
        return answer

    def account(self, name: str) -> Account:
        """Return a dataset's budget and charges; refuse a name without a budget."""
        with self._reading() as book:
            return book.account(name)

    def show(self, name: str | None = None) -> list[dict[str, Any]]:
        """Return one dataset, or all, as plain data: budget, contents, charges, their states and answers.

        ``epsilon_charged`` and ``delta_charged`` are plain sums: an upper bound on what the charges cost
        together.
        """
        with self._reading(require_whole=True) as book:
            names = [budget.name for budget in book.budgets()] if name is None else [name]
            return [_overview(book.account(each)) for each in names]

    def verify(self, noted: str | None = None) -> VerifyReport:
        """Check that everything is as it was written; an empty ledger is.

        An older copy of the whole ledger put back is found only with ``noted``, the ``head`` of an earlier
        report.
        """
        try:
            with self._reading() as book:
                return book.verify(noted)
        except LedgerBroken as problem:
            return VerifyReport(False, problems=(str(problem),))

    def backup(self, path: Path) -> VerifyReport:
        """Write the ledger with its key into one file; it may replace only a backup that it continues."""
        with self._reading() as book:
            return backup.write_backup(book, self._home, path)

    def restore(self, path: Path, *, noted: str | None = None, forget_newer: bool = False) -> VerifyReport:
        """Replace the ledger by a backup, unless later charges would be lost.

        If the last head that was ``noted`` is in the backup, nothing that was known then is forgotten. It is
        needed if the ledger is damaged or gone. With ``forget_newer`` the owner accepts an older state.
        """
        backup.restore_backup(self._database, self._home, path, noted=noted, forget_newer=forget_newer)
        return self.verify(noted)

    @contextmanager
    def _writing(self) -> Iterator[Book]:
        with self._database.writing() as (connection, is_new):
            if is_new:
                key.require_unused(self._home, self._database.name)
            yield Book(connection, key.load_keys(self._home, create=is_new).id, self.location)
        key.mark_used(self._home, self._database.name)

    @contextmanager
    def _reading(self, *, require_whole: bool = False) -> Iterator[Book]:
        with self._database.reading() as connection:
            if connection is None:
                key.require_unused(self._home, self._database.name)
                yield Book(None, "", self.location)
                return
            book = Book(connection, key.load_keys(self._home, create=False).id, self.location)
            if require_whole:
                book.require_whole()
            yield book


def _answered(book: Book, question: Question, require_room: RequireRoom, again: bool) -> Charge | None:
    """Return the charge with the result of a question, or None: charge it. A lost result is refused."""
    charges = _charges_of(book, question)
    if charges and (charges[-1].answer is not None or charges[-1].state == RESERVED):
        return charges[-1]
    if charges and not again:
        remedy = "A repeated request is charged again; to do so, add --again"
        try:
            require_room(book.account(question.dataset).charges, charges[-1])
        except BudgetExhausted as error:
            remedy = f"It cannot be charged again: {error}"
        raise AnswerLost(
            f"this request was charged to {question.dataset!r} at {charges[-1].charged} (epsilon "
            f"{question.epsilon:g}, delta {question.delta:g}), and its result was lost before it was "
            f"stored. {remedy}"
        )
    return None


def _charges_of(book: Book, question: Question) -> list[Charge]:
    """Return the charges of a question, without reserves that were given back."""
    return [charge for charge in book.charges_of(question) if charge.state != RETURNED]


def _same_cost(reserve: Charge, cost: PrivacyCost) -> Charge:
    """Return a reserve; refuse one whose release would now have another cost."""
    # Two plans of one question may differ in the last digits of ρ, as sums in another order do.
    rho = reserve.cost.rho if math.isclose(reserve.cost.rho, cost.rho, rel_tol=1e-9) else cost.rho
    if replace(reserve.cost, facts={}) != replace(cost, rho=rho, facts={}):
        raise LedgerError(
            f"the reserve {reserve.reserve!r} must have the cost of its release, got another; nothing was "
            "drawn: give it back with dpcost ledger give-back, and repeat the request"
        )
    return reserve


def _new_charge(
    book: Book,
    question: Question,
    cost: PrivacyCost,
    require_room: RequireRoom,
    *,
    allow_new_content: bool = False,
    state: str = PENDING,
) -> Charge:
    """Charge a question at the end of the chain, if data and budget allow it."""
    account = book.account(question.dataset)
    known = account.contents
    name = known.get(question.content)
    if name not in (None, question.dataset):
        raise ContentRefused(
            f"these data (the same rows, perhaps in another order) are known as {name!r} and cannot "
            f"have a second budget as {question.dataset!r}; charge {name!r}"
        )
    former = [known[each] for each in known if not each.startswith(content.VERSION)]
    if name is None and former:
        raise ContentRefused(
            f"these data cannot be compared with those of {min(former)!r}, which version 1.1 charged; make "
            "one release with dpcost 2.1, which can still read them, or use another DPCOST_HOME for data of "
            "other people"
        )
    is_joined = allow_new_content or account.budget.unit  # the tables of a cohort share its budget
    if account.charges and name is None and not is_joined:
        raise content.other_data(question.dataset)
    attempt = len(book.charges_of(question)) + 1
    cost = replace(cost, facts=plain(cost.facts, "facts"))
    new = Charge(question, attempt, cost, timestamp(), state=state)
    if require_room(account.charges, new) is not None:  # type: ignore[func-returns-value]
        raise TypeError("require_room must raise to refuse a charge, and return nothing")
    book.add(new)
    return new


def _overview(account: Account) -> dict[str, Any]:
    charges = account.charges
    return {
        **asdict(account.budget),
        "epsilon_charged": math.fsum(charge.epsilon for charge in charges),
        "delta_charged": math.fsum(charge.question.delta for charge in charges),
        "contents": list(dict.fromkeys(charge.question.content for charge in charges)),
        "charges": [_plain_charge(charge) for charge in charges],
    }


def _plain_charge(charge: Charge) -> dict[str, Any]:
    cost = asdict(charge.cost)
    return {
        "id": charge.id,
        "estimator": charge.question.estimator,
        "parameters": charge.question.parameters,
        "epsilon": charge.epsilon,
        "delta": charge.question.delta,
        "cost": cost | {"pure_epsilon": None if cost["pure_epsilon"] == math.inf else cost["pure_epsilon"]},
        "charged": charge.charged,
        "state": "no answer" if charge.state == PENDING else charge.state,
        "reserve": charge.reserve,
        "answer": charge.answer,
    }
