"""What the ledger admits: which data, which budget, which answer. All within one transaction."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from data.errors import AnswerLost, BudgetExhausted, ContentRefused, LedgerError
from data.ledger.chain import Chain, Entry
from data.ledger.charges import Charge, Holder, Request, TotalBudget, Verdict
from data.store.processes import ProcessIdentity

# The fields that a charge takes over from its request.
_ASKED = ("dataset", "estimator", "parameters", "epsilon", "delta", "accounting")
# The fields of a charge that are shown, in that order.
_SHOWN = ("id", "estimator", "parameters", "epsilon", "delta", "accounting", "charged")


def find_budget(chain: Chain, name: str) -> TotalBudget | None:
    opened = chain.entries("open", dataset=name)
    if not opened:
        return None
    body = opened[0].body
    return TotalBudget(name, float(body["epsilon"]), float(body["delta"]), body["time"])


def budget_of(chain: Chain, name: str) -> TotalBudget:
    """Return a dataset's budget, or refuse a name that has none."""
    budget = find_budget(chain, name)
    if budget is None:
        raise LedgerError(
            f"dataset {name!r} has no budget in this ledger; check the name, or let its owner open it, e.g. "
            f"dpcost ledger open {shlex.quote(name)} --epsilon 1 --delta 1e-6"
        )
    return budget


def charges(chain: Chain, name: str) -> list[Charge]:
    """Return everything charged to a dataset, in order, at its present cost and without the answers."""
    return [_at_cost(chain, entry) for entry in chain.entries("charge", dataset=name)]


def _at_cost(chain: Chain, entry: Entry) -> Charge:
    """Return a charge at what it costs: of several attempts all that are reserved, or those that were begun.

    Attempts that were not begun are free from the entry on that ends the charge, an answer or a loss: after
    it none can begin (`begin_attempt`). A held answer costs all of them until it is approved, since their
    number is a part of it.
    """
    charge = _as_charge(entry)
    reserved = charge.accounting.get("attempts")
    if not reserved or not _has_ended(chain, charge) or _is_held(chain, charge):
        return charge
    made = len(chain.entries("attempt", subject=charge.id))
    cost = reserved[made - 1] if made else {"epsilon": 0.0, "rho": 0.0, "pure_epsilon": 0.0, "failure": 0.0}
    others = {key: value for key, value in cost.items() if key != "epsilon"}
    return replace(
        charge, epsilon=float(cost["epsilon"]), accounting={**charge.accounting, **others, "made": made}
    )


def _has_ended(chain: Chain, charge: Charge) -> bool:
    return bool(chain.entries("release", subject=charge.id) or chain.entries("lost", subject=charge.id))


def _is_held(chain: Chain, charge: Charge) -> bool:
    return bool(chain.entries("hold", subject=charge.id)) and not chain.entries("approve", subject=charge.id)


def begin_attempt(chain: Chain, charge: Charge, number: int, time: str) -> None:
    """Write down that the next attempt of a charge begins, or refuse one out of turn or beyond the charge."""
    require_unanswered(chain, charge)
    made = len(chain.entries("attempt", subject=charge.id))
    reserved = len(charge.accounting.get("attempts", ()))
    if charge.release is not None or number != made + 1 or number > reserved:
        raise LedgerError(
            f"attempt {number} of charge {charge.id} cannot begin: {made} of {reserved} were begun"
            f"{', and it was answered' if charge.release is not None else ''}; charge another request"
        )
    chain.append("attempt", charge.dataset, charge.id, {"number": number, "time": time})


def end_abandoned(chain: Chain, name: str, time: str) -> None:
    """End the charges whose process on this machine is gone, so that attempts not begun are free again."""
    for charge in charges(chain, name):
        reserved = charge.accounting.get("attempts")
        if reserved and not charge.holder.may_answer() and not _has_ended(chain, charge):
            chain.append("lost", name, charge.id, {"reason": "its process ended", "time": time})


def answers(chain: Chain, request: Request) -> list[Charge]:
    """Return the answered charges of an estimator about the rows of a request that may be shown, in order."""
    found = [
        _with_release(chain, entry)
        for entry in chain.entries("charge", dataset=request.dataset)
        if entry.body["content"] == request.fingerprint.content
        and entry.body["estimator"] == request.estimator
    ]
    return [charge for charge in found if charge.release is not None and not charge.is_held]


def attempts(chain: Chain, request_id: str) -> list[Charge]:
    """Return the charges for one request with their answers, in order; more than one if answers were lost.

    Only the last one can have an answer: there is a next one only if this one had none, and from then on it
    gets none (`require_unanswered`), so that there is never a choice which answer to replay.
    """
    return [_with_release(chain, entry) for entry in chain.entries("charge", subject=request_id)]


def charge_of(chain: Chain, charge_id: str) -> Charge:
    """Return a charge with its answer, or refuse an id that was never charged."""
    for charge in attempts(chain, charge_id.rpartition("-")[0]):
        if charge.id == charge_id:
            return charge
    raise LedgerError(
        f"there is no charge {charge_id!r:.90} in this ledger; pass the id of one, see dpcost ledger show"
    )


def settle(chain: Chain, attempts: Sequence[Charge], *, waited: bool, again: bool) -> Charge | None:
    """Return the last charge of a request if its answer is there or may still come; refuse a lost one.

    ``None`` means: charge the request.
    """
    if not attempts:
        return None
    last = attempts[-1]
    if last.release is not None:
        return last
    may_come = last.holder.may_answer() and not (waited and last.holder.is_remote)
    if may_come and not chain.entries("lost", subject=last.id):
        return last
    if again:
        return None
    raise AnswerLost(
        f"this request was charged to {last.dataset!r} at {last.charged} (epsilon {last.epsilon:g}, delta "
        f"{last.delta:g}), and its answer was lost before it was stored; asking again costs as much again: "
        "if you want that, add --again"
    )


def bind(chain: Chain, request: Request, *, allow_new_content: bool, time: str) -> None:
    """Bind the data to the dataset, or refuse data or a name that are bound otherwise."""
    content = request.fingerprint.content
    names = {entry.dataset for entry in chain.entries("bind", subject=content)}
    if request.dataset in names:
        return
    if names:
        raise ContentRefused(
            f"these data (the same rows, perhaps in another order) are known as {min(names)!r} and cannot "
            f"have a second budget as {request.dataset!r}; charge {min(names)!r}"
        )
    is_new = bool(chain.entries("bind", dataset=request.dataset))
    if is_new and not allow_new_content:
        raise ContentRefused(
            f"the data are not those that {request.dataset!r} was charged for so far; pass those, or open a "
            "dataset of another name if these are data of other people, or say that they belong to the same "
            "people and share the one budget, and add --new-content"
        )
    body = {**asdict(request.fingerprint), "new_content": is_new, "time": time}
    chain.append("bind", request.dataset, content, body)


def new_charge(request: Request, *, attempt: int, time: str) -> Charge:
    """Return a charge to the asking thread, not written yet."""
    asked = {name: getattr(request, name) for name in _ASKED}
    return Charge(f"{request.id}-{attempt}", request.id, **asked, charged=time, holder=Holder.here())


def require_fits(
    budget: TotalBudget,
    previous: Sequence[Charge],
    new: Charge,
    fits: Callable[[Sequence[Charge], Charge], Verdict],
) -> None:
    """Refuse a charge that does not fit by the caller's arithmetic."""
    verdict = fits(previous, new)
    if not isinstance(verdict, Verdict):  # anything else might be taken for a yes
        raise TypeError(f"fits must return a Verdict, got {type(verdict).__name__}")
    if verdict.accepted is True:
        return
    note = f"; {verdict.note}" if verdict.note else ""
    raise BudgetExhausted(
        f"the budget of {budget.name!r} is epsilon {budget.epsilon:g}, delta {budget.delta:g}; spent is "
        f"epsilon {verdict.spent_epsilon:g}, delta {verdict.spent_delta:g} in {len(previous)} charges; asked "
        f"is epsilon {new.epsilon:g}, delta {new.delta:g}{note}: ask for less, or use the answers that were "
        "released"
    )


def write_charge(chain: Chain, request: Request, charge: Charge) -> None:
    body = {
        **request.question,
        "attempt": int(charge.id.rpartition("-")[2]),
        "accounting": charge.accounting,
        "holder": asdict(charge.holder),
        "time": charge.charged,
    }
    chain.append("charge", charge.dataset, charge.request_id, body)


def approve(chain: Chain, charge: Charge, by: str, time: str) -> None:
    """Approve an answer that is held, or refuse: only another person than the one who asked may."""
    held = chain.entries("hold", subject=charge.id)
    if not held or charge.release is None:
        raise LedgerError(f"charge {charge.id} has no answer that waits for approval; see dpcost ledger show")
    if not charge.is_held:
        raise LedgerError(f"charge {charge.id} was approved already; ask the same question to see the answer")
    if held[0].body["by"] == by:
        raise LedgerError(
            f"charge {charge.id} was requested by {by!r}, and a second person has to approve it; let "
            "another person run the command, from an account of their own"
        )
    chain.append("approve", charge.dataset, charge.id, {"by": by, "time": time})


def require_unanswered(chain: Chain, charge: Charge) -> None:
    """Check that this process holds the charge, and that it was neither given up nor charged again."""
    if not charge.holder.is_this_process:
        holder = charge.holder.process
        raise LedgerError(
            f"charge {charge.id} was made to process {holder.pid} on {holder.host}, which alone may answer "
            "it; charge the request in this process"
        )
    if chain.entries("lost", subject=charge.id):
        raise LedgerError(f"charge {charge.id} was given up; charge the request again")
    if attempts(chain, charge.request_id)[-1].id != charge.id:
        raise LedgerError(
            f"charge {charge.id} was taken for lost and charged again by another process; ask for its answer"
        )


def overview(chain: Chain, name: str) -> dict[str, Any]:
    budget = budget_of(chain, name)
    released = chain.subjects("release", dataset=name)
    lost = chain.subjects("lost", dataset=name)
    held = chain.subjects("hold", dataset=name) - chain.subjects("approve", dataset=name)
    charged = charges(chain, name)

    def state(charge: Charge) -> str:
        if charge.id in released:
            return "held" if charge.id in held else "released"
        return "lost" if charge.id in lost or not charge.holder.may_answer() else "pending"

    return {
        **asdict(budget),
        "epsilon_charged": math.fsum(charge.epsilon for charge in charged),
        "delta_charged": math.fsum(charge.delta for charge in charged),
        "contents": [entry.body for entry in chain.entries("bind", dataset=name)],
        "charges": [
            {name: getattr(charge, name) for name in _SHOWN} | {"state": state(charge)} for charge in charged
        ],
    }


def _as_charge(entry: Entry) -> Charge:
    body = entry.body
    return Charge(
        id=f"{entry.subject}-{body['attempt']}",
        request_id=entry.subject,
        dataset=entry.dataset,
        estimator=body["estimator"],
        parameters=body["parameters"],
        epsilon=float(body["epsilon"]),
        delta=float(body["delta"]),
        accounting=body["accounting"],
        charged=body["time"],
        holder=Holder(ProcessIdentity(**body["holder"]["process"]), body["holder"]["thread"]),
    )


def _with_release(chain: Chain, entry: Entry) -> Charge:
    charge = _at_cost(chain, entry)
    stored = chain.entries("release", subject=charge.id)
    if not stored:
        return charge
    return replace(charge, release=stored[0].body["payload"], is_held=_is_held(chain, charge))
