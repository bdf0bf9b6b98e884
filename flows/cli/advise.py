"""`dpcost advise`: which estimator, which ε and how many rows, from public declarations and simulation."""

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from flows.cli.options import AsJson, StudyArgument, option, rendered, show
from tasks import SpecError

if TYPE_CHECKING:
    from tasks.advice.forecasts import Forecast


def advise(
    study: StudyArgument,
    error: Annotated[
        float | None,
        option("NUMBER", "Target error; default: twice the error of a new sample without privacy."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Forecast errors and interval widths from a study file; reads no data."""
    from flows.progress import counter
    from flows.studies.find_study import find_study
    from tasks.advice.forecasts import advise as foresee
    from tasks.advice.forecasts import on_a_table, release_of_advice, risk_of_advice
    from tasks.protocol.split import MOST_LIKELY_NONE

    if error is not None and not (math.isfinite(error) and error > 0):
        raise SpecError(f"--error must be a positive number, got {error:g}")
    spec = find_study(study)
    advice = foresee(spec, target=error, progress=counter("advising", "tables"))
    budgets = sorted({each.epsilon for each in advice.forecasts if each.private})
    best = {epsilon: each for epsilon in budgets if (each := advice.best(spec.headline.n, epsilon))}
    releases = {epsilon: release_of_advice(spec, each) for epsilon, each in best.items()}
    risks = {epsilon: risk_of_advice(spec, each) for epsilon, each in best.items()}
    plain = asdict(advice) | {
        "risks": {f"{epsilon:g}": risk.to_dict() for epsilon, risk in risks.items()},
        "guesses": spec.guesses.model_dump(mode="json"),
        "releases": {
            f"{epsilon:g}": {"intervals": each.intervals, "of": len(each.names), "none": each.none}
            for epsilon, each in releases.items()
            if each
        },
    }
    grid, symbol = spec.grid_of(spec.head_panel), spec.head_panel.problem.traits.size_symbol
    rows: dict[tuple[int, str], list[Forecast]] = {}
    for forecast in sorted(advice.forecasts, key=lambda each: each.n):
        rows.setdefault((forecast.n, forecast.name), []).append(forecast)
    sparse = {item.name for item in spec.estimators_of(spec.head_panel) if "sparsity" in item.params}
    needs = []
    for need in advice.needs:
        epsilon = _span(need["epsilon"], "ε", lambda value: f"{value:.2g}", f"{max(grid.epsilon):g}")
        needs.append((need["estimator"], epsilon, _span(need["n"], symbol, _rounded, f"{max(grid.n):,}")))
    text = rendered(
        "advice.txt.jinja",
        spec=spec,
        advice=advice,
        stated=spec.guesses.model_fields_set,
        left_open=on_a_table(spec).simulator(spec.guesses).left_open(),
        symbol=symbol,
        infinity=math.inf,
        first=f"<{2 + max(len(each.name) for each in advice.forecasts)}",
        budgets=budgets,
        rows=rows,
        best=best,
        risks=risks,
        releases=releases,
        most_likely_none=MOST_LIKELY_NONE,
        is_sparse_worse=sparse and best and sparse.isdisjoint(each.estimator for each in best.values()),
        is_default=error is None,
        needs=needs,
    )
    show(plain, text, as_json)


def _span(need: tuple[float, float, float], symbol: str, written: Callable[[float], str], end: str) -> str:
    """Format a needed value with its range in brackets; values above ``end`` are unknown."""
    expected, *ends = (written(value) if math.isfinite(value) else f"> {end}" for value in need)
    return f"{symbol} = {expected} [{ends[0]}, {ends[1]}]".replace("= >", ">")


def _rounded(value: float) -> str:
    """Write a number of rows in two digits."""
    digits = 10 ** max(0, math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / digits) * digits:,}"
