"""Forecasts of a plan's questions by ε and by size, from its study file and plan: no row is read."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from threading import Lock
from typing import Any

from dpalgos.formula.group_table import SurvivalCells
from reports.writing import num
from tasks.advice.releases import ReleaseForecast, SimulatedRelease, simulate_release
from tasks.protocol.plan_file import PlanFile
from tasks.release.request import ReleaseRequest

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_FAR = 10  # times as many rows are as far as two forecasts tell
_MOST = 64  # plans and questions that are kept
_NEAR = 1.5
Line = Sequence[tuple[float, float]]  # half-widths by ε or size


class Forecasts:
    """Forecasts, each made once for the same files; one at a time in a thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._simulated: dict[tuple[str, str, int], SimulatedRelease] = {}
        self._found: dict[tuple[str, str, int, float], ReleaseForecast] = {}

    def of(self, plan: PlanFile, question: str, epsilon: float, times: int = 1) -> ReleaseForecast:
        """Return the forecast of a question at an ε, with ``times`` as many rows or persons."""
        key = plan.digest, question, times
        with self._lock:
            if len(self._simulated) > _MOST:
                self._simulated, self._found = {}, {}
            if key not in self._simulated:
                self._simulated[key] = simulate_release(_larger(plan, question, times))
            if (*key, epsilon) not in self._found:
                self._found[*key, epsilon] = self._simulated[key].forecast(epsilon)
            return self._found[*key, epsilon]


def _larger(plan: PlanFile, question: str, times: int) -> ReleaseRequest:
    request = plan.request(question, plan.plan.epsilon)
    if times == 1 or request.own is None:
        return request
    data = request.own.data
    size = {"users": times * data.users} if data.users else {"rows": times * (data.rows or 1)}
    return replace(request, own=request.own.model_copy(update={"data": data.model_copy(update=size)}))


def lines_of(series: Sequence[tuple[float, ReleaseForecast]]) -> dict[str, list[tuple[float, float]]]:
    """Return half-widths by term against ε or size, where there are any."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for at, foreseen in series:
        for name, _, middle, _ in foreseen.terms:
            if math.isfinite(middle):
                lines.setdefault(str(name), []).append((at, middle))
    return lines


def rows_of(foreseen: ReleaseForecast) -> list[tuple[str, str, str]]:
    """Return term, half-width and 90% range, as text."""
    return [
        (
            str(name),
            f"± {num(middle)}" if math.isfinite(middle) else "no interval",
            f"{num(low)} to {num(high)}" if math.isfinite(low + high) else "",
        )
        for name, low, middle, high in foreseen.terms
    ]


def unit_of_response(request: ReleaseRequest) -> str:
    """Return the declared unit of a linear model's response; empty of others."""
    response = request.design.response
    if not (request.table and response) or request.family or request.by_group:
        return ""
    return next((each.unit for each in request.table.columns if each.name == response.name), "")


def text_of_forecast(foreseen: ReleaseForecast, *, of_effects: bool, unit: str = "") -> str:
    """Say in words how precise a release will be; empty if no term has an interval."""
    widths = [(middle, str(name)) for name, _, middle, _ in foreseen.terms if math.isfinite(middle)]
    if not widths:
        return ""
    widest, name = max(widths)
    sentences = [f"The widest interval is that of {name}: ± {num(widest)}."]
    if of_effects:
        above = f"{num(widest)} {unit}".rstrip()
        sentences = [f"Effects of {name} above {above} will differ significantly from zero."]
    if foreseen.none:
        sentences.append(f"On {foreseen.none:.0%} of the synthetic tables, no term has an interval.")
    if not any(math.isfinite(low) for _, low, _, _ in foreseen.terms):
        sentences.append("Guesses of the shares of all categories give ranges.")
    return " ".join(sentences)


def lines_by_time(cells: SurvivalCells, foreseen: ReleaseForecast) -> dict[str, list[tuple[float, float]]]:
    """Return half-widths of survival by group against time, where there are any."""
    middles = {str(name): middle for name, _, middle, _ in foreseen.terms}
    places = zip(product(cells.groups, cells.survival.periods[1:]), cells.terms, strict=True)
    lines: dict[str, list[tuple[float, float]]] = {}
    for (group, time), term in places:
        if math.isfinite(middle := middles.get(term, math.nan)):
            lines.setdefault(str(group) or "all", []).append((time, middle))
    return lines


@dataclass(frozen=True)
class PastForecast:
    """The half-width of a released interval, next to its forecast and the 90% range of that."""

    question: str
    term: str
    expected: float
    limits: tuple[float, float]
    released: float

    @property
    def is_in_range(self) -> bool | None:
        """Whether it lies in the range of its forecast; None without a range."""
        low, high = self.limits
        return low <= self.released <= high if math.isfinite(low + high) else None


def past_forecasts(accounts: Iterable[Mapping[str, Any]]) -> list[PastForecast]:
    """Return the forecasts that plans registered in accounts, as a ledger shows them, with what came."""
    forecasts = []
    for account in accounts:
        for charge in account["charges"]:
            limits = (charge["answer"] or {}).get("interval", {})
            for term, *numbers in charge["cost"]["facts"].get("forecast", {}).get("terms", ()):
                low, middle, high = (math.nan if each is None else each for each in numbers)
                ends = limits.get(term) or [None, None]
                if None not in ends and math.isfinite(middle):
                    of = f"{account['name']}: {charge['reserve']}"
                    forecasts.append(PastForecast(of, term, middle, (low, high), (ends[1] - ends[0]) / 2))
    return forecasts


def text_of_past(past: Sequence[PastForecast]) -> str:
    """Say how good forecasts were."""
    if not past:
        return "No interval with a forecast has been released yet."
    near = sum(max(each.released / each.expected, each.expected / each.released) <= _NEAR for each in past)
    ranges = [each.is_in_range for each in past if each.is_in_range is not None]
    text = f"{near} of {len(past)} released half-widths are within a factor of {_NEAR} of their forecast"
    return f"{text}; {sum(ranges)} of {len(ranges)} lie in its 90% range." if ranges else f"{text}."


def needed(line: Line, half_width: float) -> str | None:
    """Return where a line reaches a half-width, interpolated on logarithmic axes; None if nowhere."""
    first = next((number for number, (_, width) in enumerate(line) if width <= half_width), None)
    if first is None:
        return None
    if first == 0:
        return num(line[0][0])
    return num(_reached(*line[first - 1], *line[first], half_width))


def needed_times(line: Line, half_width: float) -> str | None:
    """Return how many times as many rows reach a half-width, from the forecasts of one and two times."""
    if len(line) < 2 or not line[1][1] < line[0][1]:
        return None
    times = _reached(*line[0], *line[1], half_width)
    return num(times) if 1 < times < _FAR else None


def _reached(a: float, wide: float, b: float, narrow: float, half_width: float) -> float:
    """Return where the line through two points, on logarithmic axes, has a half-width."""
    return float(a * (b / a) ** (math.log(wide / half_width) / math.log(wide / narrow)))
