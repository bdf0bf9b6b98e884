"""The ledger's operations: open a budget, charge it, store and replay answers, show, verify, back up."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from data.errors import AnswerPending, LedgerBroken, LedgerError, LedgerUnavailable
from data.ledger import charging_rules as rules
from data.ledger import content, secret
from data.ledger.backup import restore_backup, write_backup
from data.ledger.chain import Chain, VerifyReport, verify_chain
from data.ledger.charges import (
    Charge,
    Request,
    TotalBudget,
    Verdict,
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


def open_ledger(home: Path | None = None) -> Ledger:
    """Return the ledger in PostgreSQL if ``DPCOST_LEDGER_URL`` is set, else in ``home/ledger.sqlite``.

    ``home`` is ``DPCOST_HOME`` by default. Nothing is created yet.
    """
    return Ledger(home or store.home(), os.environ.get(URL_VARIABLE) or None)


class Ledger:
    """The durable record of charges and answers, for several threads, and after a fork.

    Every method raises `LedgerUnavailable` if the ledger cannot be had and `LedgerBroken` if it was tampered
    with; both are kinds of `LedgerError`.
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
    def place(self) -> str:
        """Where the ledger is, without a password."""
        return self._database.place

    def fingerprinter(self, names: Sequence[str]) -> content.Fingerprinter:
        """Return a reader of a table with these columns that makes its fingerprint with the ledger's key."""
        with self._reading() as chain:
            keys = secret.load_keys(self._home, create=not chain.was_written)
        return content.Fingerprinter(names, keys.fingerprint)

    def open_dataset(self, name: str, epsilon: float, delta: float) -> TotalBudget:
        """Set the total budget of a dataset, once and for all: it is never changed, neither up nor down."""
        require_name("the dataset's name", name)
        epsilon, delta = require_privacy(epsilon, delta)
        with self._writing() as chain:
            known = rules.find_budget(chain, name)
            if known is None:
                chain.append("open", name, "", {"epsilon": epsilon, "delta": delta, "time": _now()})
                return rules.budget_of(chain, name)
        if (known.epsilon, known.delta) != (epsilon, delta):
            raise LedgerError(
                f"dataset {name!r} was opened with epsilon {known.epsilon:g} and delta {known.delta:g}, got "
                f"epsilon {epsilon:g} and delta {delta:g}; a budget is never changed, so use it as it is"
            )
        return known

    def charge(
        self,
        request: Request,
        fits: Callable[[Sequence[Charge], Charge], Verdict],
        *,
        allow_new_content: bool = False,
        again: bool = False,
        hold_by: str = "",
    ) -> Charge:
        """Return the stored answer to a request, or charge for it, committed before this returns.

        The first charge binds the data to the dataset's name. If the same request was charged before and

        - was answered: that answer is returned, and nothing is charged;
        - another process or thread is working on the answer: this waits for it;
        - the answer was lost, because the process is gone or gave up: refused, for noise is never drawn a
          second time under one charge. ``again=True`` makes it a second charge instead.

        Whether a process on another machine lives cannot be known; its answer counts as lost when it has not
        come within `answer_timeout`. That is safe, since asking again is charged again.

        ``fits`` decides, given the dataset's charges so far and the new one, whether that may be added, while
        every other process waits; if not, `BudgetExhausted` is raised. ``allow_new_content`` is the owner's
        word that these other data are meant: they share the name's one budget from now on. Data known under
        another name are refused all the same (`ContentRefused`). ``hold_by`` is the person who asks, if a
        second person has to approve the answer before it is shown.

        If the charge's ``release`` is ``None``, draw the answer now, and hand it to `store_release` before
        anybody sees it. Otherwise that is the answer.
        """
        started = time.monotonic()
        while True:
            waited = time.monotonic() - started >= self._answer_timeout
            with self._writing() as chain:
                budget = rules.budget_of(chain, request.dataset)
                attempts = rules.attempts(chain, request.id)
                pending = rules.settle(chain, attempts, waited=waited, again=again)
                if pending and pending.release is not None:
                    return pending
                if pending is None:
                    chain.require_every_entry()
                    rules.end_abandoned(chain, request.dataset, time=_now())
                    rules.bind(chain, request, allow_new_content=allow_new_content, time=_now())
                    new = rules.new_charge(request, attempt=len(attempts) + 1, time=_now())
                    rules.require_fits(budget, rules.charges(chain, request.dataset), new, fits)
                    self._database.reserve(_room_for_answer(request))
                    rules.write_charge(chain, request, new)
                    if hold_by:
                        chain.append("hold", request.dataset, new.id, {"by": hold_by, "time": _now()})
                    return new
            if waited:
                raise AnswerPending(
                    f"the same request is being answered by process {pending.holder.process.pid} since "
                    f"{pending.charged}, longer than {self._answer_timeout:g} s; wait for it, or end it",
                    transient=True,
                )
            self._wait_for(pending, started + self._answer_timeout)

    def store_release(self, charge_id: str, payload: Mapping[str, Any]) -> Charge:
        """Store the answer to a charge of this process, once; only then may it be shown.

        ``payload`` is anything that JSON can hold; floats come back bit by bit. The charge that is returned
        has the answer as it will be replayed.
        """
        answer = plain(payload, "payload")
        try:
            return self._store(charge_id, answer)
        except LedgerUnavailable:
            if not self._database.free_reserve():
                raise
            return self._store(charge_id, answer)

    def _store(self, charge_id: str, answer: dict[str, Any]) -> Charge:
        with self._writing() as chain:
            charge = rules.charge_of(chain, charge_id)
            if charge.release is None:
                rules.require_unanswered(chain, charge)
                chain.append("release", charge.dataset, charge_id, {"payload": answer, "time": _now()})
            elif charge.release != answer:
                raise LedgerError(f"charge {charge_id} has another answer already; show that one")
            return rules.charge_of(chain, charge_id)

    def begin_attempt(self, charge_id: str, number: int) -> None:
        """Write down, durably, that an attempt of a charge of this process begins; draw only afterwards.

        A charge whose ``accounting`` lists ``attempts``, each with what all up to it cost together, is
        charged the last one, until an answer is stored or the charge is given up: from then on, the last one
        that was begun. Attempts begin in turn, with 1.
        """
        with self._writing() as chain:
            rules.begin_attempt(chain, rules.charge_of(chain, charge_id), number, time=_now())

    def give_up(self, charge_id: str, reason: str) -> None:
        """Write down that a charge of this process will not be answered; its budget stays spent."""
        with self._writing() as chain:
            charge = rules.charge_of(chain, charge_id)
            if charge.release is not None:
                raise LedgerError(f"charge {charge_id} was answered and cannot be given up; show the answer")
            rules.require_unanswered(chain, charge)
            chain.append("lost", charge.dataset, charge_id, {"reason": reason, "time": _now()})

    def approve(self, charge_id: str, by: str) -> Charge:
        """Write down that a second person approves an answer that is held; from then on it may be shown."""
        with self._writing() as chain:
            rules.approve(chain, rules.charge_of(chain, charge_id), by, time=_now())
            return rules.charge_of(chain, charge_id)

    def answers(self, request: Request) -> list[Charge]:
        """Return earlier charges of a request's estimator about its rows, with answers that may be shown."""
        with self._reading() as chain:
            return rules.answers(chain, request)

    def budget(self, name: str) -> TotalBudget:
        """Return the total budget of a dataset, or refuse a name that was never opened."""
        with self._reading() as chain:
            return rules.budget_of(chain, name)

    def names_of(self, fingerprint: content.Fingerprint) -> tuple[str, ...]:
        """Return the datasets whose charges were about these rows, in any order; at most one by the rules."""
        with self._reading() as chain:
            found = {entry.dataset for entry in chain.entries("bind", subject=fingerprint.content)}
        return tuple(sorted(found))

    def charges(self, name: str) -> list[Charge]:
        """Return everything charged to a dataset, in order, without the answers; lost ones count, too."""
        with self._reading() as chain:
            rules.budget_of(chain, name)
            return rules.charges(chain, name)

    def show(self, name: str | None = None) -> list[dict[str, Any]]:
        """Return one dataset, or all, as plain data: budget, contents, charges and their states.

        A charge's ``state`` is ``released``, ``held``, ``pending`` or ``lost``. ``epsilon_charged`` and
        ``delta_charged`` are plain sums: an upper bound on what the charges cost together.
        """
        with self._reading() as chain:
            names = chain.datasets() if name is None else [name]
            return [rules.overview(chain, each) for each in names]

    def head(self) -> str:
        """Return the head of the chain, which `verify` finds again later."""
        with self._reading() as chain:
            return chain.head

    def verify(self, noted: str | None = None) -> VerifyReport:
        """Recompute the chain and replay its entries; an empty ledger is whole.

        Entries that were edited, removed (in the middle or at the end), inserted or moved are found, unless
        by a person who has ``ledger.key``; so is a deleted ledger whose key is still there. An older copy of
        the whole ledger put back is found only with ``noted``, the ``head`` of an earlier report.
        """
        try:
            with self._reading(require_whole=False) as chain:
                return verify_chain(chain, noted)
        except LedgerBroken as problem:
            return VerifyReport(False, problems=(str(problem),))

    def backup(self, path: Path) -> VerifyReport:
        """Write the ledger with its key into one file; it may replace only a backup that it continues."""
        with self._reading() as chain:
            return write_backup(chain, self._home, path)

    def restore(self, path: Path, *, noted: str | None = None, forget_newer: bool = False) -> VerifyReport:
        """Replace the ledger by a backup, unless later charges would be lost.

        If the last head that was ``noted`` is in the backup, nothing that was known then is forgotten: needed
        where the ledger itself cannot say, because it is damaged or gone. ``forget_newer`` is the owner's
        word that an older state is meant.
        """
        restore_backup(self._database, self._home, path, noted=noted, forget_newer=forget_newer)
        return self.verify(noted)

    def _wait_for(self, charge: Charge, deadline: float) -> None:
        """Wait until the answer is stored, its process is gone, or the time is over."""
        pause = FIRST_POLL
        while (left := deadline - time.monotonic()) > 0 and charge.holder.may_answer():
            time.sleep(min(pause, left))
            pause = min(2 * pause, LAST_POLL)
            with self._reading() as chain:
                if rules.charge_of(chain, charge.id).release is not None:
                    return

    @contextmanager
    def _writing(self) -> Iterator[Chain]:
        with self._database.writing() as (connection, is_new):
            if is_new:
                secret.require_unused(self._home, self._database.name)
            chain = Chain(connection, self._home, self.place, is_new=is_new)
            chain.require_whole()
            yield chain
        secret.mark_used(self._home, self._database.name)

    @contextmanager
    def _reading(self, *, require_whole: bool = True) -> Iterator[Chain]:
        with self._database.reading() as connection:
            if connection is None:
                secret.require_unused(self._home, self._database.name)
            chain = Chain(connection, self._home, self.place)
            if require_whole:
                chain.require_whole()
            yield chain


def _room_for_answer(request: Request) -> int:
    """Return more bytes than the answer takes: it names each column again, with a few numbers."""
    return RESERVE + 16 * len(canonical_json(request.parameters))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
