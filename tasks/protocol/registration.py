"""The registration of a plan in the ledger: the ε of each question, the plan, and later changes.

A plan is registered when its questions are reserved. Each reserve stores the plan as it was registered first,
with its date and hash, and the file that it was made from. The ledger's chain seals both. A file belongs to
a registration by its content, or else by its path. A question that was charged cannot change. Before that,
its reserve is given back and made anew with the same ε.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from data.ledger import Account, Charge
from data.ledger.book import timestamp
from data.ledger.charges import PENDING, RESERVED
from dpalgos.accounting.budget import Spending
from tasks.errors import SpecError
from tasks.protocol.plan_file import PlanFile
from tasks.release.spending import epsilon_left, spending_of, spent_epsilon


@dataclass(frozen=True, eq=False, kw_only=True)
class Registration:
    """All charges of a registered plan by question, without those given back; ``name`` begins their names."""

    name: str
    charges: dict[str, list[Charge]] = field(default_factory=dict)

    @property
    def all_charges(self) -> list[Charge]:
        return sorted((one for each in self.charges.values() for one in each), key=lambda one: one.charged)

    @property
    def reserved(self) -> dict[str, Charge]:
        """The reserves of which nothing was drawn, by question."""
        return {name: each[-1] for name, each in self.charges.items() if each[-1].state == RESERVED}

    @property
    def charged(self) -> dict[str, Charge]:
        """The last charge of each question whose noise may have been drawn."""
        return {name: each[-1] for name, each in self.charges.items() if each[-1].state != RESERVED}

    @property
    def spent(self) -> Spending:
        """The cost of all charges whose noise may have been drawn."""
        return spending_of([each for each in self.all_charges if each.state != RESERVED])


def registration_of(plan: PlanFile, account: Account | None) -> Registration:
    """Return what an account knows of a plan; a new registration if it knows nothing."""
    known: dict[str, Registration] = {}
    for charge in account.charges if account else ():
        name, is_of_plan, question = charge.reserve.partition("/")
        if is_of_plan:
            known.setdefault(name, Registration(name=name)).charges.setdefault(question, []).append(charge)
    for belongs in (_has_content, _has_path):
        if matches := [each for each in known.values() if belongs(plan, each)]:
            return matches[-1]
    names = (f"{plan.name}{end}" for end in ("", *(f"-{number}" for number in range(2, len(known) + 3))))
    return Registration(name=next(name for name in names if name not in known))


def text_of_payment(registration: Registration, delta: float) -> str:
    """Say what was paid for a plan, and what is reserved."""
    charged, reserved = registration.charged, registration.reserved
    paid = [each for each in registration.all_charges if each.state != RESERVED]
    sentences = ["Nothing was paid for this plan."]
    if charged:
        sentences = [f"ε {spent_epsilon(paid, delta):.4g} was paid for {', '.join(charged)}."]
    if lost := [name for name, each in charged.items() if each.state == PENDING]:
        sentences.append(f"There is no estimate yet of {', '.join(lost)}.")
    if reserved:
        total = spent_epsilon([*reserved.values()], delta)
        sentences.append(f"ε {total:.4g} is reserved for {', '.join(reserved)}.")
    return " ".join(sentences)


def is_released(plan: PlanFile, account: Account) -> bool:
    """Whether the ledger has an estimate for each question of a plan, from its file as it is now."""
    charged = registration_of(plan, account).charged
    last = [charged.get(each.name) for each in plan.plan.released]
    return all(
        each and each.answer and each.cost.facts.get("file", {}).get("digest") == plan.digest for each in last
    )


def _has_content(plan: PlanFile, known: Registration) -> bool:
    facts = [charge.cost.facts for charge in known.all_charges]
    return any(plan.sha256 == each.get(part, {}).get("sha256") for each in facts for part in ("plan", "file"))


def _has_path(plan: PlanFile, known: Registration) -> bool:
    """Return whether a charge was made from the file; up to version 2.1, the file's name decides."""
    files = [charge.cost.facts.get("file") for charge in known.all_charges]
    path = str(plan.path.resolve())
    return any(file["path"] == path if file else known.name == plan.name for file in files)


def facts_of(plan: PlanFile, registration: Registration, question: str) -> dict[str, Any]:
    """Return the facts that identify a question of a registration, to store with its reserve."""
    file = {
        "path": str(plan.path.resolve()),
        "sha256": plan.sha256,
        "digest": plan.digest,
        "epsilon": plan.plan.epsilon,
    }
    return {
        "reserve": f"{registration.name}/{question}",
        "plan": registered_plan(plan, registration),
        "file": file,
    }


def registered_plan(plan: PlanFile, registration: Registration) -> dict[str, Any]:
    """Return a plan as it was registered first; as it is now before."""
    for charge in registration.all_charges:
        return dict(charge.cost.facts["plan"])
    questions = {each.name: each.declared for each in plan.plan.questions}
    budget = {"epsilon": plan.plan.epsilon, "delta": plan.plan.delta}
    return {"date": timestamp(), "sha256": plan.sha256, **budget, "questions": questions}


def deviations(plan: PlanFile, registration: Registration) -> Iterator[str]:
    """Yield what differs between the plan as registered, as it was charged, and as it is now."""
    first = registered_plan(plan, registration)
    for name in ("epsilon", "delta"):
        if first[name] != (value := getattr(plan.plan, name)):
            yield f"{name} of the plan was {first[name]:g} and is now {value:g}."
    before, now = first["questions"], {each.name: each.declared for each in plan.plan.questions}
    for name in dict.fromkeys([*now, *before, *registration.charges]):
        charges = registration.charges.get(name, [])
        cost = f"; it cost epsilon {charges[-1].epsilon:.4g}" if charges else ""
        if name not in before and name not in now:
            yield f"Question {name!r} was added after registration, and dropped again{cost}."
            continue
        if name not in before or name not in now:
            yield f"Question {name!r} was {'added' if name in now else 'dropped'} after registration{cost}."
            continue
        for key in sorted({*before[name], *now[name]}):
            if (old := before[name].get(key)) != (new := now[name].get(key)):
                yield f"Question {name!r} changed after registration: {key} was {old!r} and is now {new!r}."
    for name, charges in registration.charges.items():
        for epsilon in sorted({each.cost.facts.get("file", first)["epsilon"] for each in charges}):
            if epsilon not in (first["epsilon"], plan.plan.epsilon):
                yield f"Question {name!r} was charged when epsilon of the plan was {epsilon:g}."
        if len(charges) > 1:
            yield f"Question {name!r} was charged {len(charges)} times, since an estimate was lost."


def check_again(plan: PlanFile, registration: Registration, name: str) -> None:
    """Refuse to charge a question whose estimate was lost again, if the plan's ε does not suffice."""
    charges, delta = registration.all_charges, plan.plan.delta
    lost = registration.charges[name][-1]
    if lost.state != PENDING:
        return
    total = spent_epsilon([*charges, lost], delta)
    if total > plan.plan.epsilon * (1 + 1e-9):
        left = epsilon_left(charges, plan.plan.epsilon, delta)
        raise SpecError(
            f"its estimate was lost after epsilon {lost.epsilon:.4g} was charged. Another charge needs as "
            f"much, and {left:.2g} of epsilon {plan.plan.epsilon:g} is left. Raise epsilon under [plan] to "
            f"{total:.4g}, which the page reports, or leave the question out"
        )
