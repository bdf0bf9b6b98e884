"""The third step: the intervals to expect, from declarations and guesses alone."""

import asyncio
from typing import Any

from shiny import Inputs, reactive, render, ui

from dpalgos.formula.group_table import SurvivalCells
from flows.page.parts import banner, chart, folded, grid, select_field, table, text_field
from flows.page.state import REFUSED, State, text_of
from reports.charts.budgets import half_width_chart
from reports.writing import num
from tasks.advice.releases import ReleaseForecast
from tasks.own_table.typed import OPEN, number_of
from tasks.protocol.foreseen import (
    EPSILONS,
    lines_by_time,
    lines_of,
    needed,
    needed_times,
    past_forecasts,
    rows_of,
    text_of_forecast,
    text_of_past,
    unit_of_response,
)
from tasks.protocol.plan_file import PlanFile
from tasks.release.request import ReleaseRequest
from tasks.release.spending import accounts

TITLE = "3 Forecast"
_ABOUT = (
    "Half-widths of 95% intervals on synthetic tables, made from declarations and guesses. No row is read."
)
_OF_GUESSES = "Guesses change no estimate. Take them from earlier studies, never from these rows."
_GUESSES = {
    "explained": "share of the variance that covariates explain",
    "correlation": "correlation of any two columns",
    "rows_per_user": "rows of a person",
    "within_users": "correlation of the rows of a person",
}
_OF_TARGETS = "E.g. 2 points. A target gets the ε at which most tables reach it, unlucky ones too."
_NO_INTERVAL = (
    "No interval is expected at this ε. A larger ε, more rows or fewer columns help; with protected groups, "
    "step 1 offers persons without intervals."
)
_WITHOUT = (
    "The release of this question has no intervals. These numbers show how far estimates would be off if "
    "persons of a group resembled each other no more than others do. Otherwise errors are larger."
)
_MOST_ROWS = 12
Series = list[tuple[float, ReleaseForecast]]


def screen(state: State) -> ui.Tag:
    names = [each["name"] for each in state.files.questions if "submodel" not in each]
    if not names:
        return ui.div(ui.h1("Forecast"), ui.p("Add a question first, in step 2."))
    return ui.div(
        ui.h1("Forecast"),
        ui.p(_ABOUT),
        grid(
            select_field("asked", "Question", names),
            ui.input_slider("epsilon", "ε", 0.1, 10.0, 1.0, step=0.1, width="100%"),
        ),
        ui.h2("How precise must it be?"),
        grid(
            ui.output_ui("term_field"),
            text_field("wanted", "Wanted half-width; empty for no target", help=_OF_TARGETS),
            ui.input_action_button("aim", "Make it a target of the plan"),
        ),
        ui.output_ui("needed_budget"),
        ui.h2("What to expect"),
        ui.layout_column_wrap(
            ui.output_ui("half_widths"),
            ui.output_ui("against_epsilon"),
            width="24rem",
            fill=False,
            heights_equal="row",
        ),
        ui.h2("Guesses"),
        ui.output_ui("guess_that_matters"),
        grid(select_field("guessed", "Guess", _guesses(state)), ui.output_ui("guess_field")),
        folded("Earlier forecasts, next to what was released", ui.output_ui("past")),
    )


def serve(input: Inputs, state: State) -> None:
    def epsilon() -> float:
        return float(input.epsilon())

    def plan_shown() -> PlanFile | None:
        """Return the plan while this step is shown: a forecast under way slows other steps down."""
        plan = state.plan() if input.step() == TITLE else ""
        return None if isinstance(plan, str) else plan

    @reactive.extended_task
    async def one(plan: PlanFile, question: str, epsilon: float) -> ReleaseForecast | str:
        try:
            return await asyncio.to_thread(state.forecasts.of, plan, question, epsilon)
        except REFUSED as error:
            return str(error)

    @reactive.extended_task
    async def series(plan: PlanFile, question: str) -> tuple[Series, Series]:
        async def each(epsilon: float, times: int) -> ReleaseForecast:
            return await asyncio.to_thread(state.forecasts.of, plan, question, epsilon, times)

        try:
            first = [(epsilon, await each(epsilon, 1)) for epsilon in EPSILONS]
            return first, [(times, await each(1.0, times)) for times in (1, 2)]
        except REFUSED:
            return [], []

    @reactive.effect
    def start() -> None:
        one.cancel()
        if (plan := plan_shown()) and input.asked() in plan.requests:
            one(plan, input.asked(), epsilon())

    @reactive.effect
    def start_series() -> None:
        series.cancel()
        if (plan := plan_shown()) and input.asked() in plan.requests:
            series(plan, input.asked())

    @render.ui
    def half_widths() -> ui.Tag:
        plan = state.plan()
        foreseen = plan if isinstance(plan, str) else one.result()
        if isinstance(plan, str) or isinstance(foreseen, str):
            return banner(str(foreseen))
        asked = next(each for each in plan.plan.questions if each.name == input.asked())
        return _table(foreseen, epsilon(), asked.interval is not None, plan.requests[asked.name])

    @render.ui
    def against_epsilon() -> ui.Tag:
        return chart(half_width_chart(lines_of(series.result()[0]), epsilon()), "Half-widths against ε")

    @render.ui
    def term_field() -> ui.Tag:
        foreseen = one.result()
        terms = [] if isinstance(foreseen, str) else [str(each[0]) for each in foreseen.terms]
        with reactive.isolate():
            return select_field("term", "Term", terms, text_of(input.term))

    @reactive.effect
    def offer() -> None:
        foreseen = one.result()
        if not isinstance(foreseen, str):
            with reactive.isolate():
                if foreseen.guess in _guesses(state):
                    ui.update_select("guessed", selected=foreseen.guess)

    @render.ui
    def past() -> ui.Tag:
        state.charged()
        forecasts = past_forecasts(accounts())
        rows = [
            (each.question, each.term, *map(num, (each.expected, each.released)))
            for each in reversed(forecasts)
        ]
        head = ("question", "term", "± expected", "± released")
        return ui.div(ui.p(text_of_past(forecasts)), table(head, rows[:_MOST_ROWS]) if rows else None)

    _serve_target(input, state, series)
    _serve_guess(input, state, one)


def _serve_target(input: Inputs, state: State, series: Any) -> None:
    """Say which ε or size a half-width needs, and make it a target."""

    @render.ui
    def needed_budget() -> ui.Tag | None:
        wanted = number_of(input.wanted())
        if isinstance(wanted, str) or wanted <= 0 or not input.term():
            return None
        by_epsilon, by_size = (lines_of(each).get(input.term(), []) for each in series.result())
        epsilon = needed(by_epsilon, wanted)
        times = needed_times(by_size, wanted)
        reach = f"needs ε of about {epsilon}" if epsilon else f"cannot be reached below ε = {EPSILONS[-1]:g}"
        more = f" At ε = 1 it needs about {times} times as many rows or persons." if times else ""
        return banner(f"± {num(wanted)} {reach}.{more}")

    @reactive.effect
    @reactive.event(input.aim)
    def aim() -> None:
        with state.trying() as files:
            question = next(each for each in files.questions if each["name"] == input.asked())
            targets = {**question.pop("precision", {}), input.term(): number_of(input.wanted())}
            targets = {term: wanted for term, wanted in targets.items() if wanted != OPEN}
            question |= {"precision": targets} if targets else {}


def _serve_guess(input: Inputs, state: State, one: Any) -> None:
    files = state.files

    def name_of_guess(key: str, column: str) -> str:  # one that was drawn before belongs to its own guess
        return f"guess_{key}_{list(files.kinds).index(column)}" if column else f"guess_{key}"

    @render.ui
    def guess_that_matters() -> ui.Tag:
        foreseen = one.result()
        guess = "" if isinstance(foreseen, str) else foreseen.guess
        matters = f"The forecast depends most on your guess of: {_GUESSES.get(guess, guess)}. "
        return ui.p((matters if guess else "") + _OF_GUESSES)

    @render.ui
    def guess_field() -> ui.Tag:
        state.changed()
        key, column = files.guess_places()[input.guessed()]
        column_facts = next((each for each in files.columns if each["name"] == column), {})
        levels = ", ".join(map(str, column_facts.get("categories", [])))
        label = f"Shares of {levels}" if key == "shares" else "Its value; empty if you do not know it"
        return text_field(name_of_guess(key, column), label, files.guess(key, column))

    @reactive.effect
    def keep() -> None:
        key, column = files.guess_places()[input.guessed()]
        field = input[name_of_guess(key, column)]
        guesses = files.guesses_with(key, column, field()) if field.is_set() else files.declared["guesses"]
        if guesses != files.declared["guesses"]:
            with state.editing():
                files.declared["guesses"] = {"source": "stated on the page", **guesses}


def _guesses(state: State) -> dict[str, str]:
    """Return the guesses that a person can state, by the names that forecasts give them."""
    return {name: _GUESSES.get(name, name) for name in state.files.guess_places()}


def _table(foreseen: ReleaseForecast, epsilon: float, has_interval: bool, request: ReleaseRequest) -> ui.Tag:
    """Return the half-widths of each term; of curves a picture, with the table folded."""
    rows, by_group, unit = rows_of(foreseen), request.by_group, unit_of_response(request)
    by_time = lines_by_time(by_group, foreseen) if isinstance(by_group, SurvivalCells) else {}
    head, n_rows = ("term", "half-width", "90% range"), 0 if by_time else _MOST_ROWS
    picture = chart(half_width_chart(by_time, None, "time"), "Half-widths over time") if by_time else None
    return ui.div(
        None if has_interval else banner(_WITHOUT),
        picture or table(head, rows[:n_rows], f"At ε = {epsilon:g}"),
        folded(f"{len(rows) - n_rows} terms more", table(head, rows[n_rows:]))
        if len(rows) > n_rows
        else None,
        ui.p(text_of_forecast(foreseen, of_effects=by_group is None, unit=unit) or _NO_INTERVAL),
    )
