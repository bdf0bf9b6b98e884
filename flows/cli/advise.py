"""`dpcost advise`: which estimator, which ε, how many rows; from public declarations and simulation alone."""

import json
import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import typer

from data.store.folders import home
from flows.cli.options import AsJson, StudyArgument


def advise(
    study: StudyArgument,
    error: Annotated[
        float | None,
        typer.Option(help="That is wanted; twice what chance costs without privacy if left out."),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="The ledger's name for the data; the study's by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Foresee a study's errors and interval widths from its declarations; no data are read."""
    from data.ledger import LedgerError, open_ledger
    from flows.record.progress import counter
    from flows.studies.find_study import find_study
    from tasks.advise import advise as foresee
    from tasks.advise import release_costs
    from tasks.faults import SpecError

    if error is not None and not (math.isfinite(error) and error > 0):
        raise SpecError(f"--error must be a positive number, got {error:g}")
    spec = find_study(study)
    advice = foresee(spec, wanted=error, progress=counter("advising", "tables"))
    name = dataset or spec.name
    try:
        costs = release_costs(spec, open_ledger(home()), name)
        budget = ""
    except LedgerError as none:
        if dataset:
            raise
        costs, budget = (), str(none)
    if as_json:
        plain = asdict(advice) | {
            "risks": _risks(spec, advice),
            "costs": [asdict(cost) for cost in costs],
            "guesses": spec.guesses.model_dump(mode="json"),
        }
        typer.echo(json.dumps(_without_nan(plain), indent=1))
        return
    for line in _lines(spec, advice, costs, name, budget):
        typer.echo(line)


def _risks(spec: Any, advice: Any) -> dict[str, Any]:
    """Return what the advised release lets an attacker learn, by ε of the study."""
    from tasks.advise import risk_of_advice

    budgets = sorted({each.epsilon for each in advice.forecasts if each.private})
    best = {epsilon: advice.best(spec.headline.n, epsilon) for epsilon in budgets}
    return {f"{epsilon:g}": risk_of_advice(spec, each).to_dict() for epsilon, each in best.items() if each}


def _lines(spec: Any, advice: Any, costs: Any, name: str, budget: str) -> list[str]:
    from tasks.advise import risk_of_advice

    head, guesses, problem = spec.headline, spec.guesses, spec.head_panel.problem
    unit = problem.size_symbol
    stated = f"stated under [guesses]: {', '.join(sorted(guesses.model_fields_set - {'source'}))}"
    if not guesses.model_fields_set:
        stated = "nothing is stated under [guesses] in the study file"
    elif guesses.source:
        stated += f" ({guesses.source})"
    budgets = sorted({each.epsilon for each in advice.forecasts if each.private})
    names = list(dict.fromkeys(each.name for each in advice.forecasts))
    width = 2 + max(map(len, names))
    lines = [
        f"{spec.name}: {spec.metric_label}, as declarations and guesses foresee it; no data were read",
        "what to expect of made-up tables that are as plausible as what is stated, with a 90 % range",
        stated,
    ]
    declared = problem.declared_rows(guesses)
    if left_open := declared.left_open():
        lines.append(f"not stated, so that the range is wide: {', '.join(left_open)}")
    if far := declared.far_units():
        lines.append(
            f"units near to what is guessed lower the errors; below bounds, say of {'; of '.join(far)}"
        )
    lines += ["", f"{'':<{width}}{unit:>8}" + "".join(f"{f'ε = {epsilon:g}':>26}" for epsilon in budgets)]
    for n in sorted({each.n for each in advice.forecasts}):
        for each_name in names:
            row = {each.epsilon: each for each in advice.forecasts if (each.name, each.n) == (each_name, n)}
            told = list(row.values())
            if not told[0].private:
                lines.append(f"{each_name:<{width}}{n:>8}{_range(told[0]):>26}  without privacy")
            else:
                cells = "".join(f"{_range(row[epsilon]):>26}" for epsilon in budgets)
                lines.append(f"{each_name:<{width}}{n:>8}{cells}")
    lines.append("")
    for epsilon in budgets:
        best = advice.best(head.n, epsilon)
        if best:
            text = f"at {unit} = {head.n:,} and ε = {epsilon:g} take {best.name}: error {_range(best)}"
            if best.coordinates:
                expected, least, most = best.intervals
                text += (
                    f"; {expected:.0f} [{least:.0f}, {most:.0f}] of {best.coordinates} with a 95 % interval"
                )
            if math.isfinite(best.half_width):
                text += f", of ± {best.half_width:.3g} on average"
            lines += [text, f"  {risk_of_advice(spec, best).sentence}"]
    sparse = {item.name for item in spec.estimators_of(spec.head_panel) if "sparsity" in item.params}
    best_ones = [best for epsilon in budgets if (best := advice.best(head.n, epsilon))]
    if sparse and best_ones and sparse.isdisjoint(best.estimator for best in best_ones):
        lines.append("dense is better here: no estimator that keeps few columns is expected to be nearer")
    lines += _needs(advice, head, unit, width)
    if costs:
        first = costs[0]
        lines.append(
            f"the budget of {name!r}: ε {first.spent:.3g} of {first.budget:g} spent; one release more:"
        )
        lines += [
            f"  {cost.estimator:<{width}}at ε = {cost.epsilon:g} brings it to {cost.spent_after:.3g}"
            + (", more than there is" if cost.spent_after > cost.budget * (1 + 1e-9) else "")
            for cost in costs
        ]
    elif budget:
        lines.append(f"what a release would cost: {budget}")
    return lines


def _needs(advice: Any, head: Any, unit: str, width: int) -> list[str]:
    from tasks.advise import BUDGETS, FACTORS

    if math.isnan(advice.wanted):
        return ["no error to aim at, for no size tells what chance costs without privacy; say --error"]
    lines = [
        f"for an error of {advice.wanted:.3g}, with what plausible tables need at least and at most (of "
        "rows, where the whole table is larger or smaller, too):"
    ]
    most = max(FACTORS) * head.n
    for need in advice.needs:
        epsilon = _span(need.epsilon, "ε", lambda value: f"{value:.2g}", f"{max(BUDGETS):g}")
        rows = _span(need.n, unit, _rounded, _rounded(most))
        lines.append(
            f"  {need.estimator:<{width}}{epsilon} at {unit} = {head.n:,}; {rows} at ε = {head.epsilon:g}"
        )
    return lines


def _span(need: tuple[float, float, float], symbol: str, written: Callable[[float], str], end: str) -> str:
    """Write what is needed and in brackets the least and the most; beyond the end it is not known."""
    expected, *ends = (written(value) if math.isfinite(value) else f"> {end}" for value in need)
    return f"{symbol} = {expected} [{ends[0]}, {ends[1]}]".replace("= >", ">")


def _range(forecast: Any) -> str:
    if forecast.refused:
        return "refused"
    return f"{forecast.error:.3g} [{forecast.low:.2g}, {forecast.high:.2g}]"


def _rounded(value: float) -> str:
    """Write a number of rows in two digits."""
    digits = 10 ** max(0, math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / digits) * digits:,}"


def _without_nan(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {key: _without_nan(value) for key, value in plain.items()}
    if isinstance(plain, list | tuple):
        return [_without_nan(value) for value in plain]
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain
