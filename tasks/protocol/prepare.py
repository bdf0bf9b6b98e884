"""The split of a plan with its forecast, and the reserve of all its questions."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import count
from typing import Any

import numpy as np

from data.ledger import Account, Ledger, PrivacyCost, Question
from data.ledger.charges import RESERVED
from dpalgos.accounting.composition import Spending
from dpalgos.protocol.split import Curve, Split, split_budget
from dpalgos.typing import FloatArray
from reports.render import PageTable
from reports.writing import num
from tasks.advice.releases import AskedRelease, SimulatedRelease, simulate_release
from tasks.errors import SpecError
from tasks.protocol.plan_file import PlanFile
from tasks.protocol.registration import registered_plan, registration_of
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

    @property
    def table(self) -> PageTable:
        return forecast_table(self.plan, self.split.epsilons, self.forecasts)


def forecast_table(
    plan: PlanFile,
    epsilons: Mapping[str, float],
    forecasts: Mapping[str, Terms],
    released: Mapping[str, Mapping[str, float]] | None = None,
) -> PageTable:
    """Return the forecast, a line for each term; next to it the half-widths that were ``released``."""
    rows: list[list[str]] = []
    for question in plan.plan.questions:
        epsilon, forecast = epsilons.get(question.name), forecasts.get(question.name, {})
        first = [question.name, "0" if question.submodel else _number(epsilon, "{:.4g}")]
        nothing = f"nested in {question.submodel}" if question.submodel else ""
        none = _number(forecast.get("none"), "{:.0%}")
        for term, low, middle, high in forecast.get("terms", [(nothing, *[math.nan] * 3)]):
            width = "no interval" if middle is None else _number(middle)
            span = f"{num(low)} to {num(high)}" if middle and math.isfinite(middle) else ""
            after = [] if released is None else [""]
            if released and question.name in released and not question.submodel:
                after = [_number(released[question.name].get(term)) or "none"]
            rows.append([*first, term, width, span, _number(question.precision.get(term)), none, *after])
            first, none = ["", ""], ""
    columns = ["Question", "ε", "term", "± expected", "range", "target", "no interval"]
    budget = f"ε = {plan.plan.epsilon:g}, δ = {plan.plan.delta:g}"
    title = f"Half-widths of {plan.name} at {budget}, forecast without data"
    columns += ["± released"] * (released is not None)
    return PageTable(columns, rows, title, 3, stacked=True)


def _number(value: float | None, form: str = "") -> str:
    if value is None or not math.isfinite(value):
        return ""
    return form.format(value) if form else num(value)


def prepare_plan(
    plan: PlanFile, account: Account | None = None, progress: Callable[[int], None] = lambda _: None
) -> PreparedPlan:
    """Split the budget of a plan by forecasts; questions that the account has registered keep their ε."""
    counts, names = count(1), [each.name for each in plan.plan.released]
    simulated = {name: _Simulated(plan, name, lambda: progress(next(counts))) for name in names}
    registered = registration_of(plan, account).items()
    fixed = {name: charges[-1].epsilon for name, charges in registered if name in names}
    split = split_budget(plan.plan, {name: each.curve for name, each in simulated.items()}, fixed)
    budget = plan.plan.epsilon  # for a forecast of targets that cannot be met
    forecasts = {
        name: each.forecast(min(split.epsilons.get(name, budget), budget)) for name, each in simulated.items()
    }
    return PreparedPlan(plan=plan, split=split, forecasts=forecasts)


class _Simulated:
    """One question of a plan on synthetic tables."""

    def __init__(self, plan: PlanFile, name: str, tick: Callable[[], None]) -> None:
        self._plan, self._name, self._tick = plan, name, tick
        self._request = plan.request(name, plan.plan.epsilon)
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

    def _half_widths(self, epsilon: float) -> dict[str, FloatArray]:
        """Return half-widths (tables,) by term in the units of the file, infinite without an interval."""
        self._tick()
        widths = np.full((len(self._tables.tables), len(self._tables.names)), np.inf)
        for row, (low, high) in zip(widths, self._tables.limits(epsilon), strict=False):
            row[:] = np.where(np.isnan(high - low), np.inf, (high - low) / 2)
        names, widths = self._units.half_widths(self._tables.names, widths)
        return dict(zip(names, widths.T, strict=True))

    def forecast(self, epsilon: float) -> Terms:
        """Return what to expect at an ε as plain data; nothing without an interval."""
        if self._request.level is None:
            return {}
        forecast = self._tables.forecast(epsilon)
        widths = np.stack([forecast.ends[0], forecast.half_widths, forecast.ends[1]])
        names, widths = self._units.half_widths(forecast.names, widths)
        known = [[None if math.isnan(each) else float(each) for each in column] for column in widths.T]
        terms = [[name, *each] for name, each in zip(names, known, strict=True)]
        return {"terms": terms, "none": forecast.chance_of_none}


def reserve_plan(prepared: PreparedPlan, ledger: Ledger, confirm: Callable[[], None] = lambda: None) -> None:
    """Reserve all questions of a plan in the ledger, or none; ``confirm`` raises to change nothing.

    Reserves of questions that changed or left the plan are given back. A question that was charged must be as
    it was.
    """
    plan, account = prepared.plan, ledger.account(prepared.plan.plan.dataset)
    registration, requests = registration_of(plan, account), dict[str, tuple[Question, PrivacyCost]]()
    first, charged = registered_plan(plan, registration), {each.question.id: each for each in account.charges}
    for name in (each.name for each in plan.plan.released):
        with plan.naming(name):
            request = plan.request(name, prepared.split.epsilons[name])
            planned = plan_on_rows(ledger, account, request, plan.data)
            kept = [each for each in registration.get(name, []) if each.state != RESERVED]
            same = charged.get(planned.question.id)
            reserve = f"{plan.name}/{name}"
            if (kept and same is None) or (same is not None and same.reserve != reserve):
                before = same or kept[-1]
                raise SpecError(
                    "it must be new, or as it was registered, got one that was charged as "
                    f"{before.reserve or before.question.estimator!r} on {before.charged:.10}; restore it, "
                    "or ask another question under another name"
                )
        facts = {"reserve": reserve, "plan": first, "forecast": prepared.forecasts[name]}
        cost = replace(planned.cost, facts={**planned.cost.facts, **facts})
        requests[planned.question.id] = planned.question, cost
    kept = [charges[-1] for charges in registration.values()]
    left = [each.id for each in kept if each.state == RESERVED and each.question.id not in requests]
    if left or not requests.keys() <= charged.keys():
        confirm()
        ledger.reserve(account.budget.name, [*requests.values()], room_in(account.budget), give_back=left)
