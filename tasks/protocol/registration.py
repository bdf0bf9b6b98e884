"""The registration of a plan in the ledger: the ε of each question, the plan, and later changes.

A plan is registered when its questions are reserved. Each reserve stores the plan as it was registered first,
with its date and hash, which the ledger's chain seals. A question that was charged cannot change. Before
that, its reserve is given back and made anew with the same ε.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from data.ledger import Account, Charge
from data.ledger.book import timestamp
from tasks.protocol.plan_file import PlanFile

Registration = Mapping[str, list[Charge]]  # the charges of a plan by question, without those given back


def registration_of(plan: PlanFile, account: Account | None) -> Registration:
    """Return what an account knows of a plan; nothing without a budget."""
    registration: dict[str, list[Charge]] = {}
    for charge in account.charges if account else ():
        name, _, question = charge.reserve.partition("/")
        if name == plan.name:
            registration.setdefault(question, []).append(charge)
    return registration


def registered_plan(plan: PlanFile, registration: Registration) -> dict[str, Any]:
    """Return a plan as it was registered first; as it is now before."""
    for charges in registration.values():
        return dict(charges[-1].cost.facts["plan"])
    questions = {each.name: each.declared for each in plan.plan.questions}
    budget = {"epsilon": plan.plan.epsilon, "delta": plan.plan.delta}
    return {"date": timestamp(), "sha256": plan.sha256, **budget, "questions": questions}


def deviations(plan: PlanFile, registration: Registration) -> Iterator[str]:
    """Yield what differs between the plan as registered and as it is now."""
    first = registered_plan(plan, registration)
    for name in ("epsilon", "delta"):
        if first[name] != (value := getattr(plan.plan, name)):
            yield f"{name} of the plan was {first[name]:g} and is now {value:g}."
    before, now = first["questions"], {each.name: each.declared for each in plan.plan.questions}
    for name in dict.fromkeys([*now, *before]):
        if name not in before or name not in now:
            yield f"Question {name!r} was {'added' if name in now else 'dropped'} after registration."
            continue
        for key in sorted({*before[name], *now[name]}):
            if (old := before[name].get(key)) != (new := now[name].get(key)):
                yield f"Question {name!r} changed after registration: {key} was {old!r} and is now {new!r}."
    for name, charges in registration.items():
        if len(charges) > 1:
            yield f"Question {name!r} was charged {len(charges)} times, since an estimate was lost."
