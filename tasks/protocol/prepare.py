"""The split of a plan with its forecast, and the reserve of all its questions."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import count
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from data.errors import BudgetExhausted
from data.ledger import Account, Charge, Ledger, PrivacyCost, Question
from data.store.folders import atomic_write, home, read_json, sha256_files
from dpalgos.accounting.budget import Spending
from dpalgos.formula.group_table import SurvivalCells, noise_std_of
from dpalgos.formula.nested import submodel_by_formula
from dpalgos.spelling import quoted
from dpalgos.typing import FloatArray
from reports.pages.coefficient_table import INTERCEPTS
from reports.render import PageTable
from reports.writing import num
from tasks.advice.releases import LEVEL, SimulatedRelease, simulate_release
from tasks.cache import FOLDER, digest
from tasks.errors import SpecError
from tasks.protocol.plan_file import PlanFile
from tasks.protocol.questions import PlanQuestion
from tasks.protocol.registration import Registration, facts_of, registration_of
from tasks.protocol.split import Curve, Split, split_budget
from tasks.release.question import is_charged, question_parameters
from tasks.release.release import plan_on_rows, public_plan, released_model
from tasks.release.spending import require_unit, room_in, spending_of, spent_epsilon

# The folders of code that computes no result of a study.
FORECASTER = tuple(Path(__file__).resolve().parents[1] / name for name in ("advice", "protocol", "release"))


class KeptForecasts:
    """The values of one question by ε, as plain data.

    Parameters
    ----------
    module : str
        The module of the question's estimator.
    *declared
        All else that decides the values, as plain data.
    """

    def __init__(self, module: str, *declared: Any) -> None:
        code = [sha256_files(folder) for folder in FORECASTER]
        name = digest(("tasks.advice.releases", module), *code, *declared)
        self._path = home() / FOLDER / "forecasts" / f"forecast-{name}.json"
        self._values: dict[str, Any] = {}
        with suppress(OSError, ValueError):
            self._values = dict(read_json(self._path))

    def value(self, kind: str, epsilon: float, compute: Callable[[float], Any]) -> Any:
        """Return the value of a kind at an ε; compute and keep it if it is new."""
        key = f"{kind} {epsilon!r}"
        if key not in self._values:
            self._values[key] = compute(epsilon)
            atomic_write(self._path, json.dumps(self._values).encode())
        return self._values[key]


# "terms": [term, lower limit, half-width, upper limit] of each; "none": the chance of no interval;
# "guess": the guess that matters most; "nested": the same of nested models, by question
Forecast = Mapping[str, Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class PreparedPlan:
    """A plan with the ε of each question, and what to expect of it."""

    plan: PlanFile
    split: Split
    forecasts: Mapping[str, Forecast]
    registration: Registration

    @property
    def without_interval(self) -> list[str]:
        """The new questions of which no interval is expected."""
        charged = self.registration.charged
        return [n for n, each in self.forecasts.items() if n not in charged and has_no_interval(each)]

    @property
    def text_of_total(self) -> str:
        """Say what the plan costs, with the sum of the printed parts where it differs."""
        total, parts = f"{self.split.total:.4g}", (f"{each:.4g}" for each in self.split.epsilons.values())
        added = f"{sum(map(float, parts)):.4g}"
        by_addition = f" By simple addition: {added}." if added != total else ""
        return f"All together: ε {total} at δ {self.plan.plan.delta:g}.{by_addition}"

    @property
    def table(self) -> PageTable:
        return forecast_table(self.plan, self.split.epsilons, self.forecasts)


def forecast_table(
    plan: PlanFile,
    epsilons: Mapping[str, float],
    forecasts: Mapping[str, Forecast],
    released: Mapping[str, Mapping[str, float]] | None = None,
) -> PageTable:
    """Return the forecast, a line for each term; next to it the half-widths that were ``released``."""
    rows: list[list[str]] = []
    for question in plan.plan.questions:
        epsilon, forecast = epsilons.get(question.name), _forecast_of(question, forecasts)
        first = [question.name, _number(epsilon, "{:.4g}")]
        if question.submodel:
            first = [f"{question.name} (nested in {question.submodel})", "0"]
        none = _number(forecast.get("none"), "{:.0%}")
        for term, low, middle, high in forecast.get("terms", [("", *[math.nan] * 3)]):
            width = "no interval" if middle is None else _number(middle)
            has_range = None not in (low, middle, high) and math.isfinite(low + middle + high)
            span = f"{num(low)} to {num(high)}" if has_range else ""
            after = [] if released is None else [""]
            if released and question.name in released:
                after = [_number(released[question.name].get(term)) or "none"]
            rows.append([*first, term, width, span, _number(question.precision.get(term)), none, *after])
            first, none = ["", ""], ""
    columns = ["Question", "ε", "term", "± expected", "range", "target", "no interval"]
    budget = f"ε = {plan.plan.epsilon:g}, δ = {plan.plan.delta:g}"
    title = f"Half-widths of {plan.name} at {budget}, forecast without data"
    columns += ["± released"] * (released is not None)
    guesses = {each.name: _forecast_of(each, forecasts).get("guess") for each in plan.plan.released}
    notes = [
        f"The forecast of {name} depends most on your guess of `{guess}`."
        for name, guess in guesses.items()
        if guess
    ]
    if released is None:
        notes += _means_by_group(plan, forecasts)
        notes += [
            f"The curves of {curves!r} have the hazard ratios of {name!r} with less noise than "
            f"the larger model: write submodel = {curves!r} in {name!r}."
            for name, curves in plan.ratios_of_curves
        ]
    return PageTable(columns, rows, title, 3, stacked=True, notes=notes)


def has_no_interval(forecast: Forecast) -> bool:
    """Whether no term of a question is expected to have an interval."""
    return not any(middle for _, _, middle, _ in forecast.get("terms", ()))


def _means_by_group(plan: PlanFile, forecasts: Mapping[str, Forecast]) -> Iterator[str]:
    """Yield the baseline tables whose means have intervals where those of a regression have none."""
    for name, request in plan.requests.items():
        design = request.by_formula
        response = design.response if design and not design.survival else None
        if (
            design is None
            or not response
            or not response.column
            or not has_no_interval(forecasts.get(name, {}))
        ):
            continue
        groups = [group for group in design.reading.right if hasattr(design.declared[group], "levels")]
        for group in groups[:1]:
            yield (
                f"No interval is expected for {name}. Means of `{response.column}` by `{group}` have "
                f"intervals in a baseline table: "
                f"write table1 = '{quoted(group)} ~ {quoted(response.column)}'."
            )


def _forecast_of(question: PlanQuestion, forecasts: Mapping[str, Forecast]) -> Forecast:
    """Return the forecast of a question; nothing if it was not forecast."""
    if question.submodel:
        return dict(forecasts.get(question.submodel, {}).get("nested", {}).get(question.name, {}))
    return forecasts.get(question.name, {})


def _number(value: float | None, pattern: str = "") -> str:
    if value is None or not math.isfinite(value):
        return ""
    return pattern.format(value) if pattern else num(value)


def prepare_plan(
    plan: PlanFile, account: Account | None = None, progress: Callable[[int], None] = lambda _: None
) -> PreparedPlan:
    """Split the budget of a plan by forecasts; refuse one that protects another unit than its account.

    Questions that the account has registered keep their ε and their forecast. Only others are simulated,
    unless their forecast is kept.
    """
    if account:
        _check_unit(plan, account)
    registration, counts = registration_of(plan, account), count(1)
    charged, simulated = registration.charged, dict[str, _Simulated]()
    curves, forecasts = dict[str, Curve](), dict[str, Forecast]()
    for name in (each.name for each in plan.plan.released):
        charge = charged.get(name) or registration.reserved.get(name)
        if charge and (name in charged or _is_question_of(charge, plan)):
            forecasts[name] = charge.cost.facts["forecast"]
            if name not in charged:
                curves[name] = Curve(half_widths=lambda _: {}, cost=partial(_cost_of, charge))
        else:
            simulated[name] = _Simulated(plan, name, lambda: progress(next(counts)))
            curves[name] = Curve(half_widths=cache(simulated[name].half_widths), cost=simulated[name].cost)
    fixed = {name: each.epsilon for name, each in {**charged, **registration.reserved}.items()}
    fixed = {each.name: fixed[each.name] for each in plan.plan.released if each.name in fixed}
    split = split_budget(plan.plan, curves, fixed, registration.spent)
    for name, each in simulated.items():  # of targets that cannot be met, at the whole ε
        forecasts[name] = each.forecast(min(split.epsilons.get(name, inf), plan.plan.epsilon))
    return PreparedPlan(plan=plan, split=split, forecasts=forecasts, registration=registration)


def _cost_of(charge: Charge, _: float) -> Spending:
    return spending_of([charge])


def _is_question_of(charge: Charge, plan: PlanFile) -> bool:
    """Return whether a charge is of a question as a plan states it, by public declarations."""
    name = charge.reserve.partition("/")[2]
    with plan.naming(name):
        request = plan.request(name, charge.epsilon)
        drawing = public_plan(request)
    parameters = question_parameters(request.estimator, drawing.params, request.design)
    known = charge.question
    planned = replace(known, estimator=request.estimator.name, parameters=parameters, delta=request.delta)
    return planned.id == known.id


def _check_unit(plan: PlanFile, account: Account) -> None:
    for name in (each.name for each in plan.plan.released):
        with plan.naming(name):
            require_unit(account.budget, account.charges, plan.requests[name].unit)


def check_forecast(prepared: PreparedPlan, *, none_expected: bool) -> None:
    """Refuse a plan with a new question that has no interval in its forecast, unless that is stated."""
    if not none_expected and (empty := prepared.without_interval):
        raise SpecError(
            f"{prepared.plan.path.name}: nothing was reserved: no interval is expected for "
            f"{', '.join(map(repr, empty))}; use more epsilon, another kind of question or fewer columns, "
            "or pass --none-expected to release anyway"
        )


def check_reservable(prepared: PreparedPlan, account: Account | None) -> None:
    """Refuse unreachable targets, and a plan that cannot be reserved, as far as declarations show it."""
    plan, registration = prepared.plan, prepared.registration
    if prepared.split.refusal:
        raise SpecError(f"{plan.path.name}: {prepared.split.refusal}; nothing was reserved")
    if account is None:
        return
    for name in (each.name for each in plan.plan.released):
        charge = registration.charged.get(name)
        if charge and not _is_question_of(charge, plan):
            raise _changed(plan, name, charge)
    spent_charges = [each for each in account.charges if each not in registration.reserved.values()]
    costs = [
        public_plan(plan.request(name, epsilon)).cost
        for name, epsilon in prepared.split.epsilons.items()
        if name not in registration.charged
    ]
    total = sum(costs, spending_of(spent_charges)).epsilon(account.budget.delta)
    if costs and total > account.budget.epsilon * (1 + 1e-9):
        raise BudgetExhausted(
            f"the budget of {account.budget.name!r} is epsilon {account.budget.epsilon:g}, of which "
            f"{spent_epsilon(spent_charges, account.budget.delta):.4g} is spent; with this plan, all charges "
            f"need epsilon {total:.4g}: use less epsilon, or fewer questions"
        )


def _changed(plan: PlanFile, name: str, charge: Charge) -> SpecError:
    return SpecError(
        f"{plan.path.name}: question {name!r}: it must be new, or as it was charged as "
        f"{charge.reserve or charge.question.estimator!r} on {charge.charged:.10}; restore it, or ask "
        "another question under another name"
    )


class _Simulated:
    """One question of a plan on synthetic tables."""

    def __init__(self, plan: PlanFile, name: str, tick: Callable[[], None]) -> None:
        self._plan, self._name, self._tick = plan, name, tick
        self._request = plan.request(name, plan.plan.epsilon)
        budget = {"epsilon": plan.plan.epsilon, "delta": plan.plan.delta}
        declared = [each.declared for each in plan.plan.questions if name in (each.name, each.submodel)]
        module = self._request.estimator.module
        self._kept = KeptForecasts(module, plan.study_sha256, budget, declared)

    @cached_property
    def _tables(self) -> SimulatedRelease:
        return simulate_release(self._request)

    def cost(self, epsilon: float) -> Spending:
        with self._plan.naming(self._name):
            return public_plan(self._plan.request(self._name, epsilon)).cost

    def half_widths(self, epsilon: float) -> dict[str, FloatArray]:
        widths = self._kept.value("half-widths", epsilon, self._half_widths)
        return {term: np.array(each) for term, each in widths.items()}

    def _half_widths(self, epsilon: float) -> dict[str, list[float]]:
        self._tick()
        return {term: each.tolist() for term, each in self._tables.half_widths(epsilon).items()}

    def forecast(self, epsilon: float) -> Forecast:
        """Return what to expect at an ε as plain data."""
        return dict(self._kept.value("forecast", epsilon, self._forecast))

    def _forecast(self, epsilon: float) -> Forecast:
        self._tick()
        forecast, nested = self._tables.forecast(epsilon), {}
        for each in self._plan.plan.questions:
            if each.submodel == self._name:
                nested[each.name] = self._nested(each.formula, epsilon)
        known = {"none": forecast.none, "guess": forecast.guess, "nested": nested}
        return {"terms": _plain_terms(forecast.terms), **known}

    def _nested(self, formula: str, epsilon: float) -> Forecast:
        if isinstance(curves := self._request.by_group, SurvivalCells):
            return self._ratios(curves, epsilon)
        weighted_tables = [
            (submodel_by_formula(model, formula, self._request.by_formula).coefficients(), weight)
            for result, weight in self._tables.results(epsilon)
            if (model := released_model(result, self._request))
        ]
        if not weighted_tables:
            return {"terms": [], "none": 1.0}
        tables, weights = zip(*weighted_tables, strict=True)
        names = [*tables[0].terms]
        slopes = [j for j, name in enumerate(names) if name not in INTERCEPTS]
        widths = np.array([(each.limits[1] - each.limits[0]) / 2 for each in tables])[:, slopes]
        return self._summary([names[j] for j in slopes], widths, weights)

    def _ratios(self, curves: SurvivalCells, epsilon: float) -> Forecast:
        results, weights = zip(*self._tables.results(epsilon), strict=True)
        limits = [
            curves.result(result.estimate, noise_std_of(result.events), 0, LEVEL).log_hazard_ratios()[1:]
            for result in results
        ]
        return self._summary(curves.ratio_names, np.array([high - low for low, high in limits]) / 2, weights)

    def _summary(self, names: Sequence[str], widths: FloatArray, weights: Sequence[float]) -> Forecast:
        middle, (low, high), none = self._tables.summary(widths, np.array(weights))
        terms = zip(names, low, middle, high, strict=True)
        return {"terms": _plain_terms(terms), "none": none}


def _plain_terms(terms: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """Return each term with its lower limit, half-width and upper limit; None where there is none."""
    return [
        [name, *(None if math.isnan(each) else float(each) for each in widths)] for name, *widths in terms
    ]


def reserve_plan(
    prepared: PreparedPlan, ledger: Ledger, confirm: Callable[[Sequence[Charge]], None] = lambda _: None
) -> None:
    """Reserve all questions of a plan in the ledger, or none.

    Reserves of questions that changed or left the plan are given back. ``confirm`` gets them, and raises to
    change nothing. A question that was charged must be as it was.
    """
    plan, account = prepared.plan, ledger.account(prepared.plan.plan.dataset)
    registration, requests = registration_of(plan, account), dict[str, tuple[Question, PrivacyCost]]()
    for name in (each.name for each in plan.plan.released):
        facts = facts_of(plan, registration, name)
        with plan.naming(name):
            request = plan.request(name, prepared.split.epsilons[name])
            planned = plan_on_rows(ledger, account, request, plan.data)
        question, cost = planned.question, planned.cost
        same = next((each for each in account.charges if is_charged(question, cost, each)), None)
        before = same or registration.charged.get(name)
        if before and (same is None or same.reserve != facts["reserve"]):
            raise _changed(plan, name, before)
        facts["forecast"] = prepared.forecasts[name]
        cost = replace(cost, facts={**cost.facts, **facts})
        question = same.question if same else question
        requests[question.identity] = question, cost
    left = [each for each in registration.reserved.values() if each.question.identity not in requests]
    if left or not requests.keys() <= {each.question.identity for each in account.charges}:
        confirm(left)
        ids = [each.id for each in left]
        ledger.reserve(account.budget.name, [*requests.values()], room_in(account.budget), give_back=ids)
