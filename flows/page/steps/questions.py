"""The second step: the questions that one budget pays for."""

from typing import Any

from shiny import Inputs, reactive, render, ui

from flows.page.files import quoted
from flows.page.state import State

KINDS = {
    "regression": "Regression",
    "table1": "Baseline table",
    "survival": "Survival curves",
    "hazard": "Hazard ratios",
    "mean": "Mean of a column",
}
_FAMILIES = {"": "linear", "logistic": "logistic (yes or no)", "poisson": "Poisson (counts)"}
_TARGETS = {"robust": "outliers count less", "least squares": "least squares"}


def screen(state: State) -> ui.Tag:
    names = [each["name"] for each in state.files.columns]
    has_times = "input.kind == 'survival' || input.kind == 'hazard'"
    return ui.div(
        ui.h2("Questions"),
        ui.layout_columns(
            ui.input_select("kind", "Kind of question", KINDS),
            ui.panel_conditional(
                "input.kind == 'regression'", ui.input_select("family", "Family", _FAMILIES)
            ),
            ui.panel_conditional(
                "input.kind == 'regression' && input.family == ''",
                ui.input_select("target", "What intervals cover", _TARGETS),
            ),
            ui.panel_conditional(
                f"!({has_times})", ui.input_select("left", "Response, group or column", names)
            ),
            ui.panel_conditional(
                has_times,
                ui.input_select("time", "Time of follow-up", names),
                ui.input_select("event", "Event", names),
            ),
            ui.panel_conditional(
                "input.kind != 'mean'",
                ui.input_selectize("right", "Covariates, or columns of the table", names, multiple=True),
            ),
        ),
        ui.input_text("formula", "Formula; edit it for interactions, powers or logarithms", width="100%"),
        ui.input_action_button("add", "Add the question", class_="btn-primary"),
        ui.h3("The questions so far"),
        ui.output_ui("questions_so_far"),
        ui.h3("Still missing or wrong"),
        ui.output_ui("question_faults"),
    )


def serve(input: Inputs, state: State) -> None:
    files = state.files

    @reactive.effect
    def write_formula() -> None:
        right = " + ".join(map(quoted, input.right() or ())) or "1"
        kind = input.kind()
        left = quoted(input.left() or "")
        if kind in ("survival", "hazard"):
            left = f"Surv({quoted(input.time() or '')}, {quoted(input.event() or '')})"
        ui.update_text("formula", value=left if kind == "mean" else f"{left} ~ {right}")

    @reactive.effect
    @reactive.event(input.add)
    def add() -> None:
        question = question_of(
            input.kind(), input.formula().strip(), input.family(), input.target(), files.questions
        )
        with state.editing():
            files.questions.append(question)

    @reactive.effect
    @reactive.event(input.remove)
    def remove() -> None:
        with state.editing():
            files.questions[:] = [each for each in files.questions if each["name"] != input.which()]

    @render.ui
    def questions_so_far() -> ui.Tag:
        state.changed()
        if not files.questions:
            return ui.p("None yet.")
        rows = [
            ui.tags.tr(ui.tags.td(each["name"]), ui.tags.td(ui.code(text_of(each))))
            for each in files.questions
        ]
        names = [each["name"] for each in files.questions]
        return ui.div(
            ui.div(
                ui.tags.table(ui.tags.tr(ui.tags.th("name"), ui.tags.th("question")), *rows), class_="table"
            ),
            ui.layout_columns(
                ui.input_select("which", "Question to remove", names),
                ui.input_action_button("remove", "Remove it"),
                col_widths=(4, 3),
            ),
        )

    @render.ui
    def question_faults() -> ui.Tag:
        plan = state.plan()
        return ui.p(plan) if isinstance(plan, str) else ui.p("Nothing. The plan is complete.", class_="ok")


def question_of(
    kind: str, formula: str, family: str, target: str, others: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return a question as a plan has it, under a name that no other has."""
    taken = {each["name"] for each in others}
    title = KINDS[kind].lower().removesuffix("s")
    names = (title if number == 1 else f"{title} {number}" for number in range(1, len(taken) + 2))
    question: dict[str, Any] = {"name": next(name for name in names if name not in taken)}
    if kind in ("table1", "survival", "mean"):
        return question | {kind: formula}
    question["formula"] = formula
    if kind == "regression" and family:
        question["family"] = family
    elif kind == "regression":
        question["params"] = {"interval_target": target}
    return question


def text_of(question: dict[str, Any]) -> str:
    """Return a question as one line."""
    text = next(str(question[key]) for key in ("formula", "table1", "survival", "mean") if key in question)
    return f"{text} ({question['family']})" if "family" in question else text
