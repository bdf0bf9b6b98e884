"""The split of a plan's budget: the smallest ε for each target, and the rest by weights.

The half-width of a question decreases in its ε, and each question is a separate release. The smallest total
that meets all targets is the composition of the smallest ε of each question, found by bisection. Costs
compose as in a ledger: ρ of zero-concentrated DP adds up.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
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
_ALL_MET = 0.95  # share of simulated tables on which all targets are met
_STEPS = 400
_NOTHING = 1e-4  # of a budget's ρ: a hundredth of ε


def likely_half_widths(plan: QuestionSet, widths: FloatArray, n_tables: int) -> FloatArray:
    """Return upper quantiles (k,) of the half-widths on simulated tables, (m, k).

    All targets of a plan together are met on 95% of the tables. A table without an interval meets none.
    Half-widths are assumed to be log-normal, because few tables determine extreme quantiles poorly.
    """
    share = 1 - (1 - _ALL_MET) / max(1, sum(len(each.precision) for each in plan.questions))
    likely = np.full(widths.shape[1], inf)
    for j, column in enumerate(widths.T):
        logs = np.log(column[np.isfinite(column)])
        if len(logs) > share * n_tables:
            z = scipy.special.ndtri(share * n_tables / len(logs))
            likely[j] = np.exp(logs.mean() + z * logs.std(ddof=1))
    return likely


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A question at any ε: half-widths by term that are rarely exceeded, and the cost."""

    half_widths: Callable[[float], Mapping[str, float]]
    cost: Callable[[float], Spending]

    def meets(self, question: PlanQuestion, epsilon: float) -> bool:
        widths = self.half_widths(epsilon)
        return all(widths.get(term, inf) <= target for term, target in question.precision.items())


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
    open_questions = [each for each in plan.released if each.name not in (fixed or {})]
    minimum = dict(fixed or {})
    for each in open_questions:
        if each.precision:
            minimum[each.name] = smallest_epsilon(each, curves[each.name])
    free = [each for each in open_questions if each.weight]
    costs = {name: curves[name].cost(epsilon) for name, epsilon in minimum.items() if epsilon < inf}
    needed = _total(plan, costs.values()) if len(costs) == len(minimum) else inf
    refusal = _refusal(plan, minimum, costs, needed, free)
    if refusal or not free:
        return Split(epsilons=minimum, total=needed, refusal=refusal)
    epsilons, costs = _shared(plan, curves, minimum, costs, free)
    return Split(epsilons=epsilons, total=_total(plan, costs.values()))


def smallest_epsilon(question: PlanQuestion, curve: Curve) -> float:
    """Return the smallest ε of a grid that meets the targets of a question; infinite if none does."""
    index = bisect_left(_GRID, True, key=lambda epsilon: curve.meets(question, epsilon))
    return _GRID[index] if index < len(_GRID) else inf


def _shared(
    plan: QuestionSet,
    curves: Mapping[str, Curve],
    minimum: Mapping[str, float],
    costs: Mapping[str, Spending],
    free: Sequence[PlanQuestion],
) -> tuple[dict[str, float], dict[str, Spending]]:
    """Return the ε and the costs of all questions, the free ones by their weights, within the budget."""
    rho_of_plan = concentrated_rho(plan.epsilon, plan.delta)
    rest = (rho_of_plan - sum(cost.rho for cost in costs.values())) / sum(each.weight for each in free)

    def shared(step: int) -> tuple[dict[str, float], dict[str, Spending]]:
        epsilons, total = dict(minimum), dict(costs)
        for each in free:
            rho = (1 - 1e-6) * 0.98**step * each.weight * rest  # noise that is not Gaussian costs more
            more = _digits(Spending(rho=rho, pure_epsilon=inf).epsilon(plan.delta), 4, floor)
            epsilons[each.name] = epsilons.get(each.name, 0.0) + more if each.precision else more
            total[each.name] = curves[each.name].cost(epsilons[each.name])
        return epsilons, total

    def fits(step: int) -> bool:
        return _total(plan, shared(step)[1].values()) <= plan.epsilon

    return shared(bisect_left(range(_STEPS), True, key=fits))


def _refusal(
    plan: QuestionSet,
    minimum: Mapping[str, float],
    costs: Mapping[str, Spending],
    needed: float,
    free: Sequence[PlanQuestion],
) -> str:
    """Say which targets cannot be met, and what would meet them; "" if all can."""
    if hopeless := [name for name in minimum if name not in costs]:
        return (
            f"precision of {_listed(hopeless)} cannot be met by any epsilon up to {_GRID[-1]:g}: allow wider "
            "intervals, or bring more rows"
        )
    rho_of_plan = concentrated_rho(plan.epsilon, plan.delta)
    room = rho_of_plan * (1 - _NOTHING) if free else inf
    if needed <= plan.epsilon and sum(cost.rho for cost in costs.values()) < room:
        return ""
    left = f" before anything is left for {_listed([each.name for each in free])}" if free else ""
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
