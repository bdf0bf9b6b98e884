"""The split of a plan with its forecast, and the reserve of all its questions."""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import count
from typing import Any

import numpy as np

from data.errors import LedgerError
from data.ledger import Account, Ledger, PrivacyCost, Question
from data.ledger.charges import RESERVED
from dpalgos.accounting.composition import Spending
from dpalgos.protocol.split import Curve, Split, likely_half_widths, split_budget
from reports.render import PageTable
from reports.writing import num
from tasks.advice.releases import MOST_LIKELY_NONE, AskedRelease, SimulatedRelease, simulate_release
from tasks.errors import SpecError
from tasks.protocol.plan_file import PlanFile
from tasks.protocol.registration import Registration, deviations, facts_of, registration_of, unchanged
from tasks.release.release import plan_on_rows, public_plan
from tasks.release.spending import room_in

# "terms": [term, lower limit, half-width, upper limit] of each; "none": the chance of no interval
Terms = Mapping[str, Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class PreparedPlan:
    """A plan with the ε of each question, and what to expect of it."""

    plan: PlanFile
    split: Split
    forecasts: Mapping[str, Terms]
    registration: Registration
    account: Account | None

    @property
    def is_reserved(self) -> bool:
        """Whether the ledger has all questions as they are now, and no others."""
        released = [each.name for each in self.plan.plan.released]
        return set(released) == set(self.registration.kept) == unchanged(self.plan, self.registration)

    @property
    def deviations(self) -> list[str]:
        return list(deviations(self.plan, self.registration))

    @property
    def without_intervals(self) -> list[str]:
        """The questions that are not registered, and probably get no interval."""
        likely = [name for name, each in self.forecasts.items() if each.get("none", 0.0) > MOST_LIKELY_NONE]
        return [name for name in likely if name not in self.registration.epsilons]

    def table(self, released: Mapping[str, Mapping[str, float]] | None = None) -> PageTable:
        """Return the forecast, a line for each term; next to it the half-widths that were ``released``."""
        rows: list[list[str]] = []
        for question in self.plan.plan.questions:
            if question.submodel:
                rows.append([question.name, "0", f"nested in {question.submodel}", *[""] * 4])
                continue
            epsilon, forecast = self.split.epsilons[question.name], self.forecasts.get(question.name, {})
            none = f"{forecast['none']:.0%}" if forecast else ""
            first = [question.name, f"{epsilon:.4g}" if epsilon < math.inf else ""]
            for term, low, middle, high in forecast.get("terms", [("", None, None, None)]):
                target = question.precision.get(term)
                widths = [_width(middle), "" if low is None else f"{num(low)} to {num(high)}"]
                rows.append([*first, term, *widths, "" if target is None else num(target), none])
                if released is not None:
                    width = released.get(question.name, {}).get(term, math.nan)
                    rows[-1].append("none" if math.isnan(width) else num(width))
                first, none = ["", ""], ""
        columns = ["Question", "ε", "term", "± expected", "range", "target", "no interval"]
        columns += ["± released"] * (released is not None)
        budget = f"ε = {self.plan.plan.epsilon:g}, δ = {self.plan.plan.delta:g}"
        title = f"Half-widths of {self.plan.name} at {budget}, forecast without data"
        return PageTable(columns, [row + [""] * (len(columns) - len(row)) for row in rows], title)


def _width(value: float | None) -> str:
    return "no interval" if value is None else num(value)


def prepare_plan(
    plan: PlanFile, ledger: Ledger, progress: Callable[[int], None] = lambda _: None
) -> PreparedPlan:
    """Split the budget of a plan by forecasts; questions that the ledger has registered keep their ε."""
    account = None
    with suppress(LedgerError):  # no budget is open yet
        account = ledger.account(plan.plan.dataset)
    registration = registration_of(plan, account)
    names = [each.name for each in plan.plan.released]
    fixed = {name: each for name, each in registration.epsilons.items() if name in names}
    counts = count(1)
    simulated = {name: _Simulated(plan, name, lambda: progress(next(counts))) for name in names}
    split = split_budget(plan.plan, {name: each.curve for name, each in simulated.items()}, fixed)
    same, facts = unchanged(plan, registration), registration.facts
    forecasts = {
        name: facts[name]["plan"]["forecast"]
        if name in same
        else each.forecast(min(split.epsilons.get(name, math.inf), plan.plan.epsilon))
        for name, each in simulated.items()
    }
    epsilons = dict.fromkeys(names, math.nan) | dict(split.epsilons)
    return PreparedPlan(
        plan=plan,
        split=replace(split, epsilons=epsilons),
        forecasts=forecasts,
        registration=registration,
        account=account,
    )


class _Simulated:
    """One question of a plan on synthetic tables."""

    def __init__(self, plan: PlanFile, name: str, tick: Callable[[], None]) -> None:
        self._plan, self._name, self._tick = plan, name, tick
        self._request = plan.request(name, plan.plan.epsilon)
        with plan.naming(name):
            self._units, _ = public_plan(self._request)

    @property
    def curve(self) -> Curve:
        return Curve(half_widths=cache(self._half_widths), cost=self._cost)

    @cached_property
    def _tables(self) -> SimulatedRelease:
        assert self._request.study is not None
        return simulate_release(self._request.study, AskedRelease.of(self._request))

    def _cost(self, epsilon: float) -> Spending:
        request = self._plan.request(self._name, epsilon)
        with self._plan.naming(self._name):
            return public_plan(request)[1].cost

    def _half_widths(self, epsilon: float) -> dict[str, float]:
        """Return half-widths by term in the units of the file that are rarely exceeded."""
        self._tick()
        ends, names = self._tables.limits(epsilon), self._tables.names
        widths = np.array([(high - low) / 2 for low, high in ends]).reshape(-1, len(names))
        likely = likely_half_widths(self._plan.plan, widths, len(self._tables.tables))
        names, likely = self._units.half_widths(names, likely)
        return dict(zip(names, likely.tolist(), strict=True))

    def forecast(self, epsilon: float) -> dict[str, Any]:
        """Return what to expect at an ε as plain data; nothing without an interval."""
        if self._request.level is None:
            return {}
        forecast = self._tables.forecast(epsilon)
        widths = np.stack([forecast.ends[0], forecast.half_widths, forecast.ends[1]])
        names, widths = self._units.half_widths(forecast.names, widths)
        known = [[None if math.isnan(each) else float(each) for each in column] for column in widths.T]
        terms = [[name, *each] for name, each in zip(names, known, strict=True)]
        return {"terms": terms, "none": forecast.chance_of_none}


def reserve_plan(prepared: PreparedPlan, ledger: Ledger) -> None:
    """Reserve all questions of a plan in the ledger, or none.

    Reserves of questions that changed or left the plan are given back. A question that was charged must be as
    it was.
    """
    plan, registration = prepared.plan, prepared.registration
    requests: list[tuple[Question, PrivacyCost]] = []
    account, same = ledger.account(plan.plan.dataset), set()
    charged = {each.question.id: each for each in account.charges}
    for each in plan.plan.released:
        request = plan.request(each.name, prepared.split.epsilons[each.name])
        with plan.naming(each.name):
            planned = plan_on_rows(ledger, account, request, plan.data)
        kept, known = registration.kept.get(each.name), charged.get(planned.question.id)
        if known and (kept is None or kept.question.id != known.question.id):
            where = f" as {known.reserve!r}" if known.reserve else ""
            raise SpecError(
                f"question {each.name!r} must not be in this plan, since it was charged on "
                f"{known.charged:.10}{where}; leave it out, or keep the name of the plan"
            )
        if known:
            same.add(each.name)
            continue
        if kept is not None and kept.state != RESERVED:
            raise SpecError(
                f"question {each.name!r} must be as it was registered, since it was charged on "
                f"{kept.charged:.10}; restore it, and ask the changed question under another name"
            )
        facts = {**planned.cost.facts, **facts_of(plan, each.name, prepared.forecasts[each.name])}
        requests.append((planned.question, replace(planned.cost, facts=facts)))
    left = [
        charge.id
        for name, charge in registration.kept.items()
        if name not in same and charge.state == RESERVED
    ]
    ledger.reserve(plan.plan.dataset, requests, room_in(account.budget), give_back=left)
