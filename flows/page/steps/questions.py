"""The second step: the questions that one budget pays for."""

from shiny import Inputs, reactive, render, ui

from dpalgos.spelling import quoted
from flows.page.parts import check_boxes, faults_of, folded, grid, select_field, table, text_field
from flows.page.state import State, text_of
from tasks.protocol.draft import KINDS, QuestionDraft, text_of_question

_ASKS = {  # a picture of 24 × 24, and the question in words, with places for columns
    "regression": ("M3 21V3M3 21h18M5 18L20 6M8 12v.1M12 15v.1M15 7v.1", "Is {left} explained by {right}?"),
    "table1": ("M3 4h18v16H3zM3 9h18M3 14h18M10 4v16", "What do groups of {left} look like: {right}?"),
    "survival": ("M3 3v18h18M3 5h4v4h4v4h5v3h4", "How long until {event}, by {right}?"),
    "hazard": ("M3 21V3M3 21h18M4 6h5v4h6v3h5M4 6h3v7h5v4h8", "Is the rate of {event} changed by {right}?"),
    "mean": ("M12 3v18M4 18q8 -28 16 0", "What is the mean of {left}?"),
}
_FAMILIES = {"": "linear", "logistic": "logistic (yes or no)", "poisson": "Poisson (counts)"}
_TARGETS = {"robust": "outliers count less", "least squares": "least squares"}
_EVENTS = {"first": "the first event", "all": "all events"}
_OF_TIMES = ["survival", "hazard"]
_HAS_TIMES = f"{_OF_TIMES}.includes(input.kind)"
_IS_MODEL = "['regression', 'hazard'].includes(input.kind)"
_LEFT = {"regression": "Response", "table1": "Groups", "mean": "Column"}


def screen(state: State) -> ui.Tag:
    names = [each["name"] for each in state.files.columns]
    if not names:
        return ui.div(ui.h1("Questions"), ui.p("Choose columns first, in step 1."))
    panel_if = ui.panel_conditional
    times = _first(state, is_event=False), _first(state, is_event=True)
    return ui.div(
        ui.h1("Questions"),
        grid(select_field("kind", "Kind of question", KINDS), ui.output_ui("in_words")),
        grid(
            panel_if("input.kind == 'regression'", select_field("family", "Family", _FAMILIES)),
            panel_if(f"!{_HAS_TIMES}", select_field("left", "Response", names)),
            panel_if(_HAS_TIMES, select_field("time", "Time of follow-up", names, times[0])),
            panel_if(_HAS_TIMES, select_field("event", "Event, 0 or 1", names, times[1])),
        ),
        panel_if("input.kind != 'mean'", check_boxes("right", "By, or covariates", names)),
        ui.input_text(
            "formula", "The question; edit it for interactions, powers or logarithms", width="100%"
        ),
        folded(
            "More: hypotheses, nested models, no intervals",
            grid(
                panel_if(
                    "input.kind == 'regression' && input.family == ''",
                    select_field("target", "Intervals cover", _TARGETS),
                ),
                panel_if("input.kind == 'hazard'", select_field("events", "Events of a person", _EVENTS)),
                panel_if(_IS_MODEL, ui.output_ui("larger")),
                panel_if(
                    _IS_MODEL,
                    text_field("test", "Hypothesis to test", help="E.g. age = 0. It costs nothing."),
                ),
                panel_if("input.kind == 'regression'", ui.output_ui("levels")),
            ),
            ui.input_checkbox("no_interval", "Estimates without intervals, which are more precise", False)
            if state.files.has_intervals
            else ui.p("Estimates have no intervals, since persons of a group resemble each other (step 1)."),
        ),
        ui.input_task_button("add", "Add the question", label_busy="Checking …"),
        ui.h2("The questions so far"),
        ui.output_ui("questions_so_far"),
        ui.h2("Still missing or wrong"),
        ui.output_ui("question_faults"),
    )


def _first(state: State, is_event: bool) -> str | None:
    """Return the first column that, by its bounds, may be an event or a time from 0 on."""
    fitting = (
        each["name"]
        for each in state.files.columns
        if each.get("lower") == 0 and (each["upper"] == 1) == is_event
    )
    return next(fitting, None)


def _choices(state: State, kind: str) -> tuple[list[str], list[str]]:
    """Return the columns that a kind of question may have on its left, and on its right."""
    names = [each["name"] for each in state.files.columns]
    groups = [each["name"] for each in state.files.columns if "categories" in each or "levels" in each]
    numbers = [name for name in names if name not in groups]
    lefts = {"table1": groups, "regression": numbers, "mean": numbers}
    return lefts.get(kind, names) or names, groups if kind == "survival" and groups else names


def serve(input: Inputs, state: State) -> None:
    files = state.files
    serve_wording(input, state)

    @render.ui
    def larger() -> ui.Tag:
        state.changed()
        names = {each["name"]: each["name"] for each in files.questions if {"formula", "survival"} & {*each}}
        return select_field("nested_in", "Nested in (costs nothing)", {"": "no other question", **names})

    @reactive.effect
    @reactive.event(input.add)
    def add() -> None:
        question = QuestionDraft(
            kind=input.kind(),
            formula=input.formula(),
            family=input.family(),
            target=input.target(),
            events=input.events(),
            test=input.test(),
            submodel=text_of(input.nested_in),
            has_interval=files.has_intervals and not input.no_interval(),
        ).named(files.questions)
        if same := files.same_as(question):
            ui.notification_show(f"The plan has this question as {same!r}.", type="warning")
            return
        with state.trying():
            files.questions.append(question)
            if input.kind() == "regression" and (by := text_of(input.by_level)):
                files.means_by[question["name"]] = by

    @reactive.effect
    @reactive.event(input.remove)
    def remove() -> None:
        with state.editing():
            files.without(input.which())

    @render.ui
    def questions_so_far() -> ui.Tag:
        state.changed()
        names = [each["name"] for each in files.questions]
        if not names:
            return ui.p("None yet.")
        rows = [(each["name"], ui.code(text_of_question(each))) for each in files.questions]
        remove = ui.input_action_button("remove", "Remove it")
        return ui.div(
            table(("name", "question"), rows),
            grid(select_field("which", "Question to remove", names), remove),
        )

    @render.ui
    def question_faults() -> ui.Tag:
        plan = state.plan()
        return faults_of([plan] if isinstance(plan, str) else [], "Nothing. Go on with step 3.")


def serve_wording(input: Inputs, state: State) -> None:
    """Show the fields, the formula and the words of a kind of question."""

    @reactive.effect
    @reactive.event(input.kind)
    def other_kind() -> None:  # a kind keeps only its own fields
        left, right = _choices(state, input.kind())
        ui.update_select("left", label=_LEFT.get(input.kind(), "Response"), choices=left)
        label = {"survival": "By", "table1": "Rows of the table"}.get(input.kind(), "Explained by")
        ui.update_checkbox_group("right", label=label, choices=right, selected=[])

    @reactive.effect
    def write_formula() -> None:
        kind, left = input.kind(), quoted(input.left())
        if kind in _OF_TIMES:
            left = f"Surv({quoted(input.time())}, {quoted(input.event())})"
        right = " + ".join(map(quoted, _right(input))) or "1"
        ui.update_text("formula", value=input.left() if kind == "mean" else f"{left} ~ {right}")

    @render.ui
    def in_words() -> ui.Tag:
        path, words = _ASKS[input.kind()]
        right = ", ".join(_right(input)) or "…"
        picture = (
            f'<svg viewBox="0 0 24 24" class="kind" aria-hidden="true"><path d="{path}" fill="none" '
            'stroke="currentColor" stroke-width="1.5" stroke-linecap="round"/></svg>'
        )
        return ui.p(ui.HTML(picture), words.format(left=input.left(), event=input.event(), right=right))

    @render.ui
    def levels() -> ui.Tag:
        groups = [name for name in _right(input) if name in _choices(state, "table1")[0]]
        return select_field(
            "by_level", "Also the mean response by", {"": "none", **{each: each for each in groups}}
        )


def _right(input: Inputs) -> list[str]:
    """Return the chosen covariates; the response is none of them."""
    is_other = input.kind() in _OF_TIMES
    return [name for name in input.right() if is_other or name != input.left()]
