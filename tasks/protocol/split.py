"""The split of a plan's budget: the smallest ε for each target, and the rest by weights.

The half-width of a question decreases in its ε, and each question is a separate release. The smallest total
that meets all targets is the composition of the smallest ε of each question, found by bisection. Costs
compose as in a ledger: ρ of zero-concentrated DP adds up.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, floor, inf, log10

import numpy as np
import scipy

from dpalgos.accounting.budget import Spending, concentrated_rho
from dpalgos.typing import FloatArray
from tasks.protocol.questions import PlanQuestion, QuestionSet

# The ε between which targets are sought, 2% apart: the same for every plan.
_GRID = tuple(float(f"{1.02**k:.3g}") for k in range(-460, 176))
_DOUBLING = 35  # steps of the grid
_APART = range((len(_GRID) - 1) % _DOUBLING, len(_GRID), _DOUBLING)  # up to the largest
_ALL_MET = 0.9  # share of simulated tables on which all targets are met
MOST_LIKELY_NONE = 0.25  # chance of no interval, above which a release must expect it
_STEPS = 400
_NOTHING = 1e-4  # of a budget's ρ: a hundredth of ε
_ROUNDING = 1 + 1e-9


def likely_half_width(plan: QuestionSet, widths: FloatArray) -> float:
    """Return an upper quantile of the half-widths (m,) on simulated tables.

    All targets of a plan together are met on 90% of tables, those without an interval included. Half-widths
    are assumed to be log-normal, because few tables determine extreme quantiles poorly. If a tenth of the
    tables has no interval, the half-width is infinite.
    """
    logs = np.log(widths[np.isfinite(widths)])
    share = _ALL_MET * len(widths) / max(1, len(logs))  # of tables with an interval
    if len(logs) < 2 or share >= 1:
        return inf
    share = 1 - (1 - share) / max(1, sum(len(each.precision) for each in plan.questions))
    return float(np.exp(logs.mean() + scipy.special.ndtri(share) * logs.std(ddof=1)))


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A question at any ε: half-widths (m,) by term on simulated tables, infinite without one; the cost."""

    half_widths: Callable[[float], Mapping[str, FloatArray]]
    cost: Callable[[float], Spending]

    def likely(self, plan: QuestionSet, question: PlanQuestion, epsilon: float) -> dict[str, float]:
        """Return the likely half-width of each term with a target."""
        widths = self.half_widths(epsilon)
        return {term: likely_half_width(plan, widths[term]) for term in question.precision}

    def meets(self, plan: QuestionSet, question: PlanQuestion, epsilon: float) -> bool:
        likely = self.likely(plan, question, epsilon)
        return all(likely[term] <= target for term, target in question.precision.items())


@dataclass(frozen=True, kw_only=True)
class Split:
    """The ε of each released question, and what all cost together at the plan's δ.

    ``refusal`` says why the split cannot be met, and what would meet it; "" if it is met.
    """

    epsilons: Mapping[str, float]
    total: float
    refusal: str = ""


def split_budget(
    plan: QuestionSet,
    curves: Mapping[str, Curve],
    fixed: Mapping[str, float] | None = None,
    spent: Spending | None = None,
) -> Split:
    """Split the budget of a plan.

    ``fixed`` are ε of questions that were registered before. ``spent`` is the cost of all charges of the
    plan. Questions that it includes have no curve.
    """
    epsilons, fixed, spent = dict(fixed or {}), fixed or {}, spent or Spending()
    questions = {each.name: each for each in plan.released if each.name in curves}
    if faults := [name for name in questions if curves[name].cost(plan.epsilon).failure]:
        refusal = f"{_listed(faults)} may fail and then reveal data; choose an estimator that never fails"
        return Split(epsilons=epsilons, total=inf, refusal=refusal)
    for name, each in questions.items():
        if each.precision and name not in fixed:
            epsilons[name] = smallest_epsilon(plan, each, curves[name])
    free = [each for name, each in questions.items() if each.share and name not in fixed]
    hopeless = [name for name, epsilon in epsilons.items() if epsilon == inf]
    if hopeless:
        refusal = "; ".join(_infeasible(plan, questions[name], curves[name]) for name in hopeless)
        return Split(epsilons=epsilons, total=inf, refusal=refusal)
    costs = {name: curves[name].cost(epsilons[name]) for name in questions if name in epsilons}
    rho_of_plan = concentrated_rho(plan.epsilon, plan.delta)
    rest = rho_of_plan - spent.rho - sum(cost.rho for cost in costs.values())
    needed = _total(plan, [spent, *costs.values()])
    is_full = (bool(costs) and needed > plan.epsilon * _ROUNDING) or (
        bool(free) and rest <= _NOTHING * rho_of_plan
    )
    if is_full or not free:
        refusal = _refusal(plan, curves, costs, spent, [each.name for each in free]) if is_full else ""
        return Split(epsilons=epsilons, total=needed, refusal=refusal)

    def shared(step: int) -> tuple[dict[str, float], float]:
        """Return the ε of all questions, the free ones by their weights, and the total ε."""
        every, total = dict(epsilons), dict(costs)
        for each in free:
            share = each.share / sum(one.share for one in free)
            rho = (1 - 1e-6) * 0.98**step * share * rest  # noise that is not Gaussian costs more
            more = _digits(Spending(rho=rho, pure_epsilon=inf).epsilon(plan.delta), 4, floor)
            every[each.name] = every.get(each.name, 0.0) + more
            total[each.name] = curves[each.name].cost(every[each.name])
        return every, _total(plan, [spent, *total.values()])

    step = bisect_left(range(_STEPS), True, key=lambda step: shared(step)[1] <= plan.epsilon)
    every, total = shared(step)
    return Split(epsilons=every, total=total)


def smallest_epsilon(plan: QuestionSet, question: PlanQuestion, curve: Curve) -> float:
    """Return the smallest ε of a grid that meets the targets of a question; infinite if none does.

    On simulated tables, half-widths decrease only roughly. If bisection finds no ε within the plan's, all ε
    that are a factor of two apart are tried.
    """

    def smallest(low: int, high: int) -> int:
        return low + bisect_left(_GRID[low:high], True, key=lambda each: curve.meets(plan, question, each))

    index = smallest(0, len(_GRID))
    if index == len(_GRID) or _GRID[index] > plan.epsilon:
        met = (each for each in _APART if each < index and curve.meets(plan, question, _GRID[each]))
        if (first := next(met, None)) is not None:
            index = smallest(max(0, first - _DOUBLING + 1), first)
    return _GRID[index] if index < len(_GRID) else inf


def _infeasible(plan: QuestionSet, question: PlanQuestion, curve: Curve) -> str:
    """Name the smallest half-widths of a question whose targets no ε meets."""
    at = [curve.likely(plan, question, _GRID[each]) for each in _APART]
    limits = {term: min(each[term] for each in at) for term in question.precision}
    return (
        f"precision of {question.name!r} cannot be met by any epsilon up to {_GRID[-1]:g}: "
        f"{_smallest(limits)}; allow wider intervals, or use more rows"
    )


def _smallest(limits: Mapping[str, float]) -> str:
    """Write half-widths that can be met, by term."""
    return ", ".join(
        f"the smallest half-width that can be met is {_digits(width, 3, ceil):g} for {term!r}"
        if width < inf
        else f"{term!r} has no interval on a tenth of simulated tables or more"
        for term, width in limits.items()
    )


def _refusal(
    plan: QuestionSet,
    curves: Mapping[str, Curve],
    costs: Mapping[str, Spending],
    spent: Spending,
    free: list[str],
) -> str:
    """Say which targets cannot be met together, and what would meet them."""
    charged = f"epsilon {_total(plan, [spent]):.4g} is charged" if spent.rho else ""
    if not costs:
        return (
            f"nothing is left of epsilon {plan.epsilon:g} for {_listed(free)}: {charged}; use more epsilon, "
            "or leave them out"
        )
    needed = _total(plan, [spent, *costs.values()])
    left = f" before anything is left for {_listed(free)}" if free else ""
    fewer = [
        name
        for name in costs
        if _total(plan, [spent, *(cost for other, cost in costs.items() if other != name)]) < plan.epsilon
    ]
    enough = f"; leaving out {' or '.join(map(repr, fewer))} is enough" if fewer else ""
    alone = "".join(f"; {each}" for each in _alone(plan, curves, costs, spent))
    with_charges = f", of which {charged}" if charged else ""
    return (
        f"precision of {_listed(costs)} cannot be met together at epsilon {plan.epsilon:g}, delta "
        f"{plan.delta:g}: they need epsilon {_digits(needed, 3, ceil):g}{with_charges}{left}; use more "
        f"epsilon, wider targets or fewer questions{enough}{alone}"
    )


def _alone(
    plan: QuestionSet, curves: Mapping[str, Curve], costs: Mapping[str, Spending], spent: Spending
) -> Iterator[str]:
    """Yield what can be met of each question whose targets need more than the plan's ε even alone."""
    for each in plan.released:
        if each.precision and each.name in costs and _total(plan, [spent, costs[each.name]]) > plan.epsilon:
            cost = curves[each.name].cost
            index = bisect_left(_GRID, True, key=lambda e: _total(plan, [spent, cost(e)]) > plan.epsilon)
            if index:
                limits = curves[each.name].likely(plan, each, _GRID[index - 1])
                yield f"for {each.name!r} alone, {_smallest(limits)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _total(plan: QuestionSet, costs: Iterable[Spending]) -> float:
    """Return the ε at the plan's δ that releases prove together."""
    return sum(costs, Spending()).epsilon(plan.delta, 0.0)


def _digits(value: float, digits: int, to: Callable[[float], int]) -> float:
    """Round a positive number up or down to some significant digits."""
    if not 0 < value < inf:
        return value
    scale = 10.0 ** (digits - 1 - floor(log10(value)))
    return to(value * scale) / scale
