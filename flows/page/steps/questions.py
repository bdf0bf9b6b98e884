"""The second step: the questions that one budget pays for."""

from typing import Any

from shiny import Inputs, reactive, render, ui

from dpalgos.spelling import quoted
from flows.page.parts import check_boxes, faults_of, grid, select_field, table, text_field
from flows.page.state import State, text_of

KINDS = {
    "regression": "Regression",
    "table1": "Baseline table",
    "survival": "Survival curves",
    "hazard": "Hazard ratios",
    "mean": "Mean of a column",
}
_FAMILIES = {"": "linear", "logistic": "logistic (yes or no)", "poisson": "Poisson (counts)"}
_TARGETS = {"robust": "outliers count less", "least squares": "least squares"}
_EVENTS = {"first": "the first event", "all": "all events"}
_OF_TIMES, _OF_COLUMNS = ["survival", "hazard"], ["table1", "survival", "mean"]
_HAS_TIMES = f"{_OF_TIMES}.includes(input.kind)"
_HAS_TEST = "['regression', 'hazard'].includes(input.kind)"


def screen(state: State) -> ui.Tag:
    names = [each["name"] for each in state.files.columns]
    if not names:
        return ui.div(ui.h1("Questions"), ui.p("Choose columns first, in step 1."))
    shown = ui.panel_conditional
    return ui.div(
        ui.h1("Questions"),
        grid(
            select_field("kind", "Kind of question", KINDS),
            shown("input.kind == 'regression'", select_field("family", "Family", _FAMILIES)),
            shown(
                "input.kind == 'regression' && input.family == ''",
                select_field("target", "Intervals cover", _TARGETS),
            ),
            shown(f"!{_HAS_TIMES}", select_field("left", "Response, group or column", names)),
            shown(
                _HAS_TIMES, select_field("time", "Time of follow-up", names, _first(state, is_event=False))
            ),
            shown(_HAS_TIMES, select_field("event", "Event, 0 or 1", names, _first(state, is_event=True))),
            shown("input.kind == 'hazard'", select_field("events", "Events of a person", _EVENTS)),
            shown(_HAS_TEST, ui.output_ui("larger")),
        ),
        shown("input.kind != 'mean'", check_boxes("right", "By, or covariates", names)),
        ui.input_text(
            "formula", "The question; edit it for interactions, powers or logarithms", width="100%"
        ),
        shown(
            _HAS_TEST,
            text_field("test", "Hypothesis to test (optional, costs nothing)", placeholder="e.g. age = 0"),
        ),
        ui.input_action_button("add", "Add the question", class_="btn-primary"),
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


def serve(input: Inputs, state: State) -> None:
    files = state.files

    @reactive.effect
    def write_formula() -> None:
        kind, left = input.kind(), quoted(input.left())
        if kind in _OF_TIMES:
            left = f"Surv({quoted(input.time())}, {quoted(input.event())})"
        right = " + ".join(map(quoted, input.right())) or "1"
        ui.update_text("formula", value=input.left() if kind == "mean" else f"{left} ~ {right}")

    @render.ui
    def larger() -> ui.Tag:
        state.changed()
        names = {each["name"]: each["name"] for each in files.questions if {"formula", "survival"} & {*each}}
        return select_field("nested_in", "Nested in (costs nothing)", {"": "no other question", **names})

    @reactive.effect
    @reactive.event(input.add)
    def add() -> None:
        question = question_of(
            input.kind(),
            input.formula(),
            files.questions,
            family=input.family(),
            target=input.target(),
            events=input.events(),
            test=input.test(),
            nested_in=text_of(input.nested_in),
        )
        with state.editing():
            files.questions.append(question)
        with reactive.isolate():
            refusal = state.plan()
        if isinstance(refusal, str):
            ui.notification_show(refusal, type="error", duration=None)
            with state.editing():
                files.questions.pop()

    @reactive.effect
    @reactive.event(input.remove)
    def remove() -> None:
        with state.editing():
            files.questions[:] = [each for each in files.questions if each["name"] != input.which()]

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


def question_of(
    kind: str,
    formula: str,
    others: list[dict[str, Any]],
    *,
    family: str = "",
    target: str = "robust",
    events: str = "first",
    test: str = "",
    nested_in: str = "",
) -> dict[str, Any]:
    """Return a question as a plan has it, under a name that no other question has."""
    taken = {each["name"] for each in others}
    title = KINDS[kind].lower()
    names = (title if number == 1 else f"{title} {number}" for number in range(1, len(taken) + 2))
    question: dict[str, Any] = {"name": next(name for name in names if name not in taken)}
    if kind in _OF_COLUMNS:
        return question | {kind: formula.strip()}
    question["formula"] = formula.strip()
    if nested_in:
        question["submodel"] = nested_in
    elif kind == "regression":
        question |= {"family": family} if family else {"params": {"interval_target": target}}
    elif kind == "hazard" and events != "first":
        question["params"] = {"events": events}
    return question | ({"test": [test.strip()]} if test.strip() else {})


def text_of_question(question: dict[str, Any]) -> str:
    """Return a question as one line."""
    text = next(str(question[key]) for key in ("formula", "table1", "survival", "mean") if key in question)
    targets = [f"{term} within ± {width}" for term, width in question.get("precision", {}).items()]
    about = question.get("family") or ("submodel" in question and f"nested in {question['submodel']}")
    return "; ".join([f"{text} ({about})" if about else text, *targets])
