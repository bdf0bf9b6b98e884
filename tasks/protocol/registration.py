"""The registration of a plan in the ledger: the ε of each question, the plan, and later changes.

A plan is registered when its questions are reserved. Each reserve stores the whole plan with its hash, which
the ledger's chain seals. A question that was charged cannot change. Before that, its reserve is given back
and made anew with the same ε.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from data.ledger import Account, Charge
from data.ledger.charges import RETURNED
from tasks.protocol.plan_file import PlanFile

_TARGETS = ("precision", "weight")  # a release does not depend on them


@dataclass(frozen=True, eq=False, kw_only=True)
class Registration:
    """The charges of a plan in the order in which they were made, those that were given back included."""

    charges: Sequence[Charge]

    @property
    def kept(self) -> dict[str, Charge]:
        """The last charge of each question that was not given back."""
        return {question_of(each): each for each in self.charges if each.state != RETURNED}

    @property
    def last(self) -> dict[str, Charge]:
        """The last charge of each question that was ever registered."""
        return {question_of(each): each for each in self.charges}

    @property
    def first(self) -> dict[str, Any]:
        """The plan as it was registered: sha256, epsilon, delta, questions; empty before."""
        return dict(self.charges[0].cost.facts["plan"]) if self.charges else {}


def question_of(charge: Charge) -> str:
    return charge.reserve.partition("/")[2]


def registration_of(plan: PlanFile, account: Account | None) -> Registration:
    """Return what an account knows of a plan; nothing without a budget."""
    every = [*account.charges, *account.returned] if account else []
    charges = (each for each in every if each.reserve.partition("/")[0] == plan.name)
    return Registration(charges=sorted(charges, key=lambda each: each.charged))


def facts_of(plan: PlanFile, question: str, forecast: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a reserve stores of its plan."""
    questions = {each.name: each.declared for each in plan.plan.questions}
    about = {"sha256": plan.sha256, "epsilon": plan.plan.epsilon, "delta": plan.plan.delta}
    return {
        "reserve": f"{plan.name}/{question}",
        "plan": {**about, "questions": questions, "forecast": forecast},
    }


def unchanged(plan: PlanFile, registration: Registration) -> set[str]:
    """Return the names of registered questions that are the same in all that their release depends on."""
    before = {name: each.cost.facts["plan"]["questions"][name] for name, each in registration.last.items()}
    now = {each.name: each.declared for each in plan.plan.released}
    keys = {name: {*now[name], *before[name]} - {*_TARGETS} for name in now if name in before}
    return {name for name in keys if all(now[name].get(key) == before[name].get(key) for key in keys[name])}


def deviations(plan: PlanFile, registration: Registration) -> Iterator[str]:
    """Yield what differs between the plan as registered and as it is now."""
    if not (first := registration.first):
        return
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
    names = [question_of(each) for each in registration.charges if each.state != RETURNED]
    for name in now:
        if (times := names.count(name)) > 1:
            yield f"Question {name!r} was charged {times} times, since an estimate was lost."
