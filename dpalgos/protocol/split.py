"""The split of a plan's budget: the smallest ε for each target, and the rest by weights.

The half-width of a question decreases in its ε, and each question is a separate release. The smallest total
that meets all targets is the composition of the smallest ε of each question, found by bisection. Costs
compose as in a ledger: ρ of zero-concentrated DP adds up.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import ceil, floor, inf, log10

import numpy as np
import scipy

from dpalgos.accounting.budget import concentrated_rho
from dpalgos.accounting.composition import Spending
from dpalgos.protocol.questions import PlanQuestion, QuestionSet
from dpalgos.typing import FloatArray

# The ε between which targets are sought, 2% apart: the same for every plan.
_GRID = tuple(float(f"{1.02**k:.3g}") for k in range(-460, 176))
_ALL_MET = 0.95  # share of simulated tables on which all targets of a plan are met
_STEPS = 400
_NOTHING = 1e-4  # of a budget's ρ: a hundredth of ε


def likely_half_width(plan: QuestionSet, widths: FloatArray) -> float:
    """Return an upper quantile of the half-widths (m,) on simulated tables, infinite without an interval.

    All targets of a plan together are met on 95% of the tables. Half-widths are assumed to be log-normal,
    because few tables determine extreme quantiles poorly.
    """
    share = 1 - (1 - _ALL_MET) / max(1, sum(len(each.precision) for each in plan.questions))
    logs = np.log(widths[np.isfinite(widths)])
    if len(logs) <= share * len(widths):
        return inf
    z = scipy.special.ndtri(share * len(widths) / len(logs))
    return float(np.exp(logs.mean() + z * logs.std(ddof=1)))


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A question at any ε: half-widths (m,) by term on simulated tables, infinite without one; the cost."""

    half_widths: Callable[[float], Mapping[str, FloatArray]]
    cost: Callable[[float], Spending]

    def meets(self, plan: QuestionSet, question: PlanQuestion, epsilon: float) -> bool:
        widths = self.half_widths(epsilon)
        targets = question.precision.items()
        return all(likely_half_width(plan, widths[term]) <= target for term, target in targets)


@dataclass(frozen=True, kw_only=True)
class Split:
    """The ε of each released question, and what all cost together at the plan's δ.

    ``refusal`` says why the split cannot be met, and what would meet it; "" if it is met.
    """

    epsilons: Mapping[str, float]
    total: float
    refusal: str = ""


def split_budget(
    plan: QuestionSet, curves: Mapping[str, Curve], fixed: Mapping[str, float] | None = None
) -> Split:
    """Split the budget of a plan; ``fixed`` are ε of questions that were registered before."""
    epsilons, fixed = dict(fixed or {}), fixed or {}
    for each in plan.released:
        if each.precision and each.name not in fixed:
            epsilons[each.name] = smallest_epsilon(plan, each, curves[each.name])
    free = [each for each in plan.released if each.share and each.name not in fixed]
    hopeless = [name for name, epsilon in epsilons.items() if epsilon == inf]
    costs = {name: curves[name].cost(epsilon) for name, epsilon in epsilons.items() if epsilon < inf}
    rho_of_plan = concentrated_rho(plan.epsilon, plan.delta)
    rest = rho_of_plan - sum(cost.rho for cost in costs.values())
    needed = inf if hopeless else _total(plan, costs.values())
    refusal = ""
    if hopeless:
        refusal = (
            f"precision of {_listed(hopeless)} cannot be met by any epsilon up to {_GRID[-1]:g}: allow wider "
            "intervals, or bring more rows"
        )
    elif needed > plan.epsilon or (free and rest <= _NOTHING * rho_of_plan):
        refusal = _refusal(plan, costs, needed, [each.name for each in free])
    if refusal or not free:
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
        return every, _total(plan, total.values())

    step = bisect_left(range(_STEPS), True, key=lambda step: shared(step)[1] <= plan.epsilon)
    every, total = shared(step)
    return Split(epsilons=every, total=total)


def smallest_epsilon(plan: QuestionSet, question: PlanQuestion, curve: Curve) -> float:
    """Return the smallest ε of a grid that meets the targets of a question; infinite if none does."""
    index = bisect_left(_GRID, True, key=lambda epsilon: curve.meets(plan, question, epsilon))
    return _GRID[index] if index < len(_GRID) else inf


def _refusal(plan: QuestionSet, costs: Mapping[str, Spending], needed: float, free: list[str]) -> str:
    """Say which targets cannot be met together, and what would meet them."""
    left = f" before anything is left for {_listed(free)}" if free else ""
    fewer = [
        name
        for name in costs
        if _total(plan, [cost for other, cost in costs.items() if other != name]) < plan.epsilon
    ]
    enough = f"; leaving out {' or '.join(map(repr, fewer))} is enough" if fewer else ""
    return (
        f"precision of {_listed(costs)} cannot be met together at epsilon {plan.epsilon:g}, delta "
        f"{plan.delta:g}: they need epsilon {_digits(needed, 3, ceil):g}{left}; use more epsilon, wider "
        f"targets or fewer questions{enough}"
    )


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
