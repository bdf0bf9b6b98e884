"""The third step: what intervals to expect, from declarations and guesses alone."""

import asyncio
import math
from typing import Any

from shiny import Inputs, reactive, render, ui

from flows.page.files import number_of
from flows.page.forecasts import EPSILONS, forecast
from flows.page.pictures import chart
from flows.page.state import REFUSED, State
from reports.writing import num
from tasks.advice.releases import ReleaseForecast


def screen(state: State) -> ui.Tag:
    names = [each["name"] for each in state.files.questions if "submodel" not in each]
    guesses = state.files.declared["guesses"]
    return ui.div(
        ui.h2("Forecast"),
        ui.p(
            "Half-widths of 95% intervals on synthetic tables, made from declarations and guesses. "
            "No row is read."
        ),
        ui.layout_columns(
            ui.input_select("asked", "Question", names),
            ui.input_slider("log_epsilon", "ε, as a power of ten", -1.0, 1.0, 0.0, step=0.05),
            ui.input_text("wanted", "Wanted half-width", update_on="blur"),
            ui.input_select("term", "of the term", []),
        ),
        ui.output_ui("needed"),
        ui.layout_columns(ui.output_ui("half_widths"), ui.output_ui("against_epsilon")),
        ui.h3("Guesses"),
        ui.p(
            "Guesses narrow the forecast and change no estimate. "
            "Take them from earlier studies, never from these rows."
        ),
        ui.layout_columns(
            ui.input_text(
                "explained",
                "Share of the variance that covariates explain",
                value=_shown(guesses.get("explained")),
                update_on="blur",
            ),
            ui.input_select("guessed", "Column", [each["name"] for each in state.files.columns]),
            ui.output_ui("guess_fields"),
        ),
    )


def serve(input: Inputs, state: State) -> None:
    def epsilon() -> float:
        return float(f"{10 ** input.log_epsilon():.2g}")

    @reactive.calc
    def found() -> ReleaseForecast | str:
        plan = state.plan()
        if isinstance(plan, str):
            return plan
        try:
            return forecast(plan, input.asked(), epsilon())
        except REFUSED as error:
            return str(error)

    @render.ui
    def half_widths() -> ui.Tag:
        foreseen = found()
        return ui.p(foreseen) if isinstance(foreseen, str) else _table(foreseen, epsilon())

    @reactive.extended_task
    async def series(plan: Any, question: str) -> list[ReleaseForecast]:
        return [await asyncio.to_thread(forecast, plan, question, each) for each in EPSILONS]

    @reactive.effect
    def start_series() -> None:
        plan = state.plan()
        if not isinstance(plan, str) and input.asked():
            series.cancel()
            series(plan, input.asked())

    @render.ui
    def against_epsilon() -> ui.HTML:
        return ui.HTML(chart(_lines(series.result()), epsilon()))

    @reactive.effect
    def offer_terms() -> None:
        foreseen = found()
        if not isinstance(foreseen, str):
            with reactive.isolate():
                chosen = input.term()
            ui.update_select("term", choices=[str(each[0]) for each in foreseen.terms], selected=chosen)

    @render.ui
    def needed() -> ui.Tag | None:
        wanted = number_of(input.wanted())
        if isinstance(wanted, str) or not input.term():
            return None
        line = _lines(series.result()).get(input.term(), [])
        return ui.p(_needed(line, float(wanted)), class_="banner")

    _serve_guesses(input, state)


def _serve_guesses(input: Inputs, state: State) -> None:
    files = state.files

    @render.ui
    def guess_fields() -> ui.Tag:
        name, guesses = input.guessed(), files.declared["guesses"]
        column = next((each for each in files.columns if each["name"] == name), {})
        if "categories" in column:
            shares = guesses.get("shares", {}).get(name, [])
            label = f"Shares of {', '.join(map(str, column['categories']))}, by commas"
            return ui.input_text("shares", label, value=", ".join(map(str, shares)), update_on="blur")
        return ui.div(
            ui.input_text(
                "mean", f"Mean of {name}", value=_shown(guesses.get("mean", {}).get(name)), update_on="blur"
            ),
            ui.input_text(
                "std",
                f"Standard deviation of {name}",
                value=_shown(guesses.get("std", {}).get(name)),
                update_on="blur",
            ),
        )

    @reactive.effect
    @reactive.event(input.explained, ignore_init=True)
    def keep_explained() -> None:
        _keep(state, ["explained"], input.explained())

    for key in ("mean", "std", "shares"):
        _serve_guess(input, state, key)


def _serve_guess(input: Inputs, state: State, key: str) -> None:
    @reactive.effect
    @reactive.event(input[key], ignore_init=True)
    def keep() -> None:
        with reactive.isolate():
            _keep(state, [key, input.guessed()], input[key]())


def _keep(state: State, place: list[str], text: str) -> None:
    """Write a guess into the study file, or take it out where its field is empty."""
    guesses = state.files.declared["guesses"]
    table = guesses if len(place) == 1 else guesses.setdefault(place[0], {})
    numbers = [number_of(each) for each in text.split(",")]
    value = numbers if place[0] == "shares" else numbers[0]
    if (table.get(place[-1]) if text.strip() else None) == (value if text.strip() else table.get(place[-1])):
        return
    with state.editing():
        if text.strip():
            table[place[-1]] = value
            guesses.setdefault("source", "stated on the page")
        else:
            table.pop(place[-1], None)


def _table(foreseen: ReleaseForecast, epsilon: float) -> ui.Tag:
    rows = [
        ui.tags.tr(
            ui.tags.td(str(name)),
            ui.tags.td(f"± {num(middle)}" if math.isfinite(middle) else "no interval"),
            ui.tags.td(f"{num(low)} to {num(high)}" if math.isfinite(low + high) else ""),
        )
        for name, low, middle, high in foreseen.terms
    ]
    head = ui.tags.tr(*[ui.tags.th(each) for each in ("term", "half-width", "90% range")])
    guess = f" The forecast depends most on your guess of {foreseen.guess}." if foreseen.guess else ""
    none = (
        f"On {foreseen.none:.0%} of the synthetic tables, no term has an interval." if foreseen.none else ""
    )
    return ui.div(
        ui.tags.table(ui.tags.caption(f"At ε = {epsilon:g}"), head, *rows), ui.p(none + guess), id="foreseen"
    )


def _lines(series: list[ReleaseForecast]) -> dict[str, list[tuple[float, float]]]:
    """Return half-widths against ε by term, where there are any."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for epsilon, foreseen in zip(EPSILONS, series, strict=True):
        for name, _, middle, _ in foreseen.terms:
            if math.isfinite(middle):
                lines.setdefault(str(name), []).append((epsilon, middle))
    return lines


def _needed(line: list[tuple[float, float]], wanted: float) -> str:
    """Say which ε a half-width needs, by interpolation of logarithms."""
    enough = [place for place, (_, width) in enumerate(line) if width <= wanted]
    if not enough:
        return (
            f"At no ε up to {EPSILONS[-1]:g} is ± {num(wanted)} forecast. Use more rows or narrower bounds."
        )
    at = enough[0]
    if at == 0:
        return f"ε = {line[0][0]:g} is forecast to be enough for ± {num(wanted)}."
    (e0, w0), (e1, w1) = line[at - 1], line[at]
    share = math.log(w0 / wanted) / math.log(w0 / w1)
    return f"ε of about {num(e0 * (e1 / e0) ** share)} is forecast to be enough for ± {num(wanted)}."


def _shown(value: Any) -> str:
    return "" if value is None else str(value)
