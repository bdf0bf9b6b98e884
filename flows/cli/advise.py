"""`dpcost advise`: which estimator, which ε and how many rows, from public declarations and simulation."""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from flows.cli.options import AsJson, StudyArgument, option, show
from tasks import SpecError

if TYPE_CHECKING:
    from dpalgos.accounting.risk import AttackRisk
    from tasks.advice.forecasts import Advice, Forecast
    from tasks.study.spec import StudySpec


def advise(
    study: StudyArgument,
    error: Annotated[
        float | None, option("NUMBER", "Target error; default: twice the sampling error without privacy.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Forecast errors and interval widths from a study file; reads no data."""
    from flows.progress import counter
    from flows.studies.find_study import find_study
    from tasks.advice.forecasts import advise as foresee
    from tasks.advice.forecasts import risk_of_advice

    if error is not None and not (math.isfinite(error) and error > 0):
        raise SpecError(f"--error must be a positive number, got {error:g}")
    spec = find_study(study)
    advice = foresee(spec, target=error, progress=counter("advising", "tables"))
    budgets = sorted({each.epsilon for each in advice.forecasts if each.private})
    best = {epsilon: each for epsilon in budgets if (each := advice.best(spec.headline.n, epsilon))}
    risks = {epsilon: risk_of_advice(spec, each) for epsilon, each in best.items()}
    plain = asdict(advice) | {
        "risks": {f"{epsilon:g}": risk.to_dict() for epsilon, risk in risks.items()},
        "guesses": spec.guesses.model_dump(mode="json"),
    }
    width = 2 + max(len(each.name) for each in advice.forecasts)
    lines = (
        *_introduction(spec),
        *_errors(spec, advice, budgets, width),
        *_choices(spec, advice, best, risks),
        *([f"the guess that matters most: {advice.guess}"] if advice.guess else []),
        *_needs(spec, advice, error is None, width),
    )
    show(plain, lines, as_json)


def _introduction(spec: "StudySpec") -> Iterator[str]:
    from tasks.advice.forecasts import on_a_table

    guesses = spec.guesses
    yield f"{spec.name}: forecast from declarations and guesses; no data were read"
    yield f"error: {spec.metric_label}"
    yield "each forecast is the median over simulated tables that agree with them, with a range in brackets"
    yield "real tables have outliers, collinear columns and nonlinear effects: some errors exceed their range"
    if not guesses.model_fields_set:
        yield "the study file states no [guesses]"
    else:
        source = f" ({guesses.source})" * bool(guesses.source)
        yield f"stated under [guesses]: {', '.join(sorted(guesses.model_fields_set - {'source'}))}{source}"
    declared = on_a_table(spec, spec.head_panel).simulator(guesses)
    if left_open := declared.left_open():
        yield f"the range is wide because these are not stated: {', '.join(left_open)}"


def _errors(spec: "StudySpec", advice: "Advice", budgets: list[float], width: int) -> Iterator[str]:
    """Yield a table of forecasts: a line for each size and estimator, a column for each ε."""
    symbol = spec.head_panel.problem.traits.size_symbol
    yield f"\n{'':<{width}}{symbol:>8}" + "".join(f"{f'ε = {epsilon:g}':>26}" for epsilon in budgets)
    rows: dict[tuple[int, str], list[Forecast]] = {}
    for each in sorted(advice.forecasts, key=lambda each: each.n):
        rows.setdefault((each.n, each.name), []).append(each)
    for (n, name), row in rows.items():
        cells = "".join(f"{_range(each):>26}" for each in sorted(row, key=lambda each: each.epsilon))
        yield f"{name:<{width}}{n:>8}{cells}" + "  without privacy" * (not row[0].private)
    yield ""


def _choices(
    spec: "StudySpec", advice: "Advice", best: "dict[float, Forecast]", risks: "dict[float, AttackRisk]"
) -> Iterator[str]:
    """Yield the best estimator at each ε, zero included, and what it lets an attacker learn."""
    symbol = spec.head_panel.problem.traits.size_symbol
    for epsilon, each in best.items():
        if each.error >= (zero := advice.zero(each.n)):
            yield (
                f"best at {symbol} = {each.n:,} and ε = {epsilon:g}: zero, error {zero:.3g}; "
                f"the smallest private error is {_range(each)} ({each.name})"
            )
            continue
        text = f"best at {symbol} = {each.n:,} and ε = {epsilon:g}: {each.name}, error {_range(each)}"
        if each.coordinates:
            expected, least, most = each.intervals
            text += f"; {expected:.0f} [{least:.0f}, {most:.0f}] of {each.coordinates} have a 95% interval"
        if math.isfinite(each.half_width):
            text += f", ± {each.half_width:.3g} on average"
        yield text
        yield f"  {risks[epsilon].sentence}"
    sparse = {item.name for item in spec.estimators_of(spec.head_panel) if "sparsity" in item.params}
    if sparse and best and sparse.isdisjoint(each.estimator for each in best.values()):
        yield "estimators with few nonzero coefficients are not expected to be better here"


def _needs(spec: "StudySpec", advice: "Advice", is_default: bool, width: int) -> Iterator[str]:
    if math.isnan(advice.wanted):
        yield "no target error: the sampling error without privacy is unknown; pass --error"
        return
    target = f"{advice.wanted:.3g}" + " (twice the sampling error without privacy)" * is_default
    yield f"needed for an error of {target}, with the range over simulated tables in brackets:"
    head, grid = spec.headline, spec.grid_of(spec.head_panel)
    symbol = spec.head_panel.problem.traits.size_symbol
    for need in advice.needs:
        epsilon = _span(need.epsilon, "ε", lambda value: f"{value:.2g}", f"{max(grid.epsilon):g}")
        rows = _span(need.n, symbol, _rounded, f"{max(grid.n):,}")
        yield f"  {need.estimator:<{width}}{epsilon} at {symbol} = {head.n:,}; {rows} at ε = {head.epsilon:g}"


def _span(need: tuple[float, float, float], symbol: str, written: Callable[[float], str], end: str) -> str:
    """Format a needed value with its range in brackets; values above ``end`` are unknown."""
    expected, *ends = (written(value) if math.isfinite(value) else f"> {end}" for value in need)
    return f"{symbol} = {expected} [{ends[0]}, {ends[1]}]".replace("= >", ">")


def _range(forecast: "Forecast") -> str:
    if forecast.refused:
        return "refused"
    return f"{forecast.error:.3g} [{forecast.low:.2g}, {forecast.high:.2g}]"


def _rounded(value: float) -> str:
    """Write a number of rows in two digits."""
    digits = 10 ** max(0, math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / digits) * digits:,}"
