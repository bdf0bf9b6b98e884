"""The total cost of the charges of one dataset, and whether one more fits into its budget.

The rule is the filter of :mod:`dpalgos.accounting.budget`. The part of δ that it sets aside for failures is
what the first charge takes, which is chosen before any answer: usually nothing. Later charges that may fail
are refused.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from typing import Any

import numpy as np

from data.errors import BudgetExhausted, LedgerError
from data.ledger import Account, Charge, TotalBudget, open_ledger
from data.store.folders import home
from dpalgos import InputError
from dpalgos.accounting.budget import Spending, concentrated_rho
from dpalgos.accounting.events import Event

# What is stored of events with equal numbers; another version may have stored more.
EVENT_FIELDS = ("label", "mechanism", "count", "noise_multiplier", "epsilon", "delta", "sensitivity")


def account_if_open(dataset: str) -> Account | None:
    """Return the budget and the charges of a dataset; None if no budget is open."""
    with suppress(LedgerError):
        return open_ledger(home()).account(dataset)
    return None


def accounts() -> list[dict[str, Any]]:
    """Return all budgets with their charges, as plain data; none of a ledger that is damaged."""
    with suppress(LedgerError):
        return open_ledger(home()).show()
    return []


def spending_of(charges: Sequence[Charge]) -> Spending:
    """Return the total cost of charges, lost results included."""
    total = Spending()
    for charge in charges:
        cost = charge.cost
        total = total + Spending(rho=cost.rho, pure_epsilon=cost.pure_epsilon, failure=cost.failure)
    return total


def spent_epsilon(charges: Sequence[Charge], delta: float) -> float:
    set_aside = charges[0].cost.failure if charges else 0.0
    return spending_of(charges).epsilon(delta, set_aside)


def epsilon_left(charges: Sequence[Charge], epsilon: float, delta: float) -> float:
    """Return the ε of one more Gaussian release that fits into an (ε, δ)."""
    rest = concentrated_rho(epsilon, delta) - spending_of(charges).rho
    return Spending(rho=max(rest, 0.0), pure_epsilon=inf).epsilon(delta)


def spent_of(account: Account) -> dict[str, Any]:
    budget, charges = account.budget, account.charges
    return {
        "epsilon_spent": spent_epsilon(charges, budget.delta),
        "epsilon_budget": budget.epsilon,
        "delta_budget": budget.delta,
        "spent_note": why_another(charges, budget.delta),
    }


def why_another(charges: Sequence[Charge], delta: float) -> str:
    """Say why charges together cost another ε than the sum of theirs; empty where they do not."""
    total, added = spent_epsilon(charges, delta), sum(charge.epsilon for charge in charges)
    if f"{total:.4g}" == f"{added:.4g}":
        return ""
    return (
        f"together they cost ε = {total:.4g} at δ = {delta:g} (simple addition: {added:.4g}). They are added "
        "in ρ of zero-concentrated privacy; next to Gaussian noise, pure ε is ρ = ε²/2"
    )


def unit_of(column: str | None) -> str:
    """Return the unit that one budget protects: a row, or a user by a column of ids."""
    return f"user by {column}" if column else "row"


def protected_unit(budget: TotalBudget, charges: Sequence[Charge]) -> str | None:
    """Return the unit of privacy of a budget: the declared one, or that of the first charge, if any."""
    if budget.unit:
        return unit_of(budget.unit)
    return charges[0].cost.unit if charges else None


def require_unit(budget: TotalBudget, charges: Sequence[Charge], unit: str) -> None:
    """Refuse a release that protects another unit than the charges do; it needs no row."""
    if (protected := protected_unit(budget, charges)) in (None, unit):
        return
    since, remedy = "since its first charge", f"request releases that protect each {protected}"
    if budget.unit:
        since = "since it was opened"
        remedy = f"declare user_id = {budget.unit!r} in the study file, also if each person has one row"
    raise InputError(
        f"the budget of {budget.name!r} protects each {protected} {since}, got a release that protects each "
        f"{unit}; the two do not add up: {remedy}"
    )


def room_in(budget: TotalBudget) -> Callable[[Sequence[Charge], Charge], None]:
    """Return the arithmetic by which the ledger admits a charge to a budget, or refuses it."""

    def require_room(charges: Sequence[Charge], new: Charge) -> None:
        require_unit(budget, charges, new.cost.unit)
        all_charges, spent = [*charges, new], spent_epsilon(charges, budget.delta)
        if spent_epsilon(all_charges, budget.delta) <= budget.epsilon * (1 + 1e-9):
            return
        note = f"; {why}" if (why := why_another(all_charges, budget.delta)) else ""
        if new.cost.failure > 0:
            note += (
                f"; it may fail with probability {new.cost.failure:g}, for which a budget sets aside only "
                "what its first release takes: choose an estimator that never fails"
            )
        raise BudgetExhausted(
            f"the budget of {budget.name!r} is epsilon {budget.epsilon:g}, delta {budget.delta:g}; "
            f"charges so far ({len(charges)}) spent epsilon {spent:g}, delta "
            f"{budget.delta if charges else 0.0:g}; "
            f"the request needs epsilon {new.epsilon:g}, delta {new.question.delta:g}{note}: "
            "request less, or use existing releases"
        )

    return require_room


def event_entries(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return events as plain data, equal ones counted together."""
    counts: dict[tuple[Any, ...], int] = {}
    for event in events:
        key = (
            event.label,
            type(event).__name__,
            *(getattr(event, name, 0.0) or None for name in ("noise_multiplier", "epsilon", "delta")),
            None if event.sensitivity is None else float(np.max(event.sensitivity)),
        )
        counts[key] = counts.get(key, 0) + event.n_charges
    return [
        dict(zip(EVENT_FIELDS, (*key[:2], count, *key[2:]), strict=True)) for key, count in counts.items()
    ]


def give_back(name: str, reserve: str) -> str:
    """Give back the reserve of a question of a plan, and say so in a sentence.

    Raises
    ------
    LedgerError
        There is no such reserve, or its noise may have been drawn.
    """
    ledger = open_ledger(home())
    account = ledger.account(name)
    charges = [charge for charge in account.charges if charge.reserve == reserve]
    if not charges:
        raise LedgerError(f"RESERVE must be one that dpcost ledger show {name} prints, got {reserve!r}")
    ledger.reserve(name, [], room_in(account.budget), give_back=[charge.id for charge in charges])
    return f"{name}: epsilon {charges[-1].epsilon:g} of {reserve} is given back; nothing was drawn"
