"""The last step: a typed confirmation, the release, and its results."""

import shlex

from shiny import Inputs, reactive, render, ui

from flows.page.state import State
from flows.page.steps.budget import account_of, split_table

_SHOWN = (".docx", ".tex", ".md", ".csv", ".html")


def screen(state: State) -> ui.Tag:
    return ui.div(
        ui.h2("Release"),
        ui.output_ui("to_release"),
        ui.output_ui("progress"),
        ui.output_ui("results"),
        ui.h3("What this page did, as commands"),
        ui.tags.pre("\n".join(commands(state))),
    )


def serve(input: Inputs, state: State) -> None:
    releasing = state.releasing

    @render.ui
    def to_release() -> ui.Tag:
        found = state.forecast()
        if found is None:
            return ui.p("Forecast all questions and divide ε first, in step 4; again after each change.")
        if account_of(state) is None:
            return ui.p("Open the budget first, in step 4.")
        return ui.div(
            split_table(found),
            ui.input_text(
                "confirm", f"To charge ε {found.split.total:.4g} and release, type {found.plan.plan.dataset}"
            ),
            ui.input_action_button("release", "Charge and release", class_="btn-danger"),
        )

    @reactive.effect
    @reactive.event(input.release)
    def start() -> None:
        found = state.forecast()
        if found is None:
            return
        if input.confirm().strip() != found.plan.plan.dataset:
            ui.notification_show(
                f"Nothing was charged: type {found.plan.plan.dataset} to confirm.", type="warning"
            )
        elif not releasing.start():
            ui.notification_show("A release is under way.", type="warning")

    @reactive.poll(
        lambda: (releasing.is_running, releasing.status, len(releasing.said), releasing.said[-1:]), 0.5
    )
    def progress_so_far() -> tuple[bool, int | None, list[str]]:
        return releasing.is_running, releasing.status, releasing.said

    @reactive.calc
    def status() -> int | None:
        return progress_so_far()[1]

    @render.ui
    def progress() -> ui.Tag | None:
        is_running, ended, said = progress_so_far()
        if not said and ended is None and not is_running:
            return None
        now = "Under way; a closed window does not end it." if is_running else _ended(ended)
        return ui.div(ui.p(now, role="status"), ui.tags.pre("\n".join(said)))

    @reactive.effect
    def charged() -> None:
        status()
        with reactive.isolate():
            state.charged.set(state.charged() + 1)

    @render.ui
    def results() -> ui.Tag | None:
        status()
        folder = state.files.results
        found = (
            sorted(each.name for each in folder.glob("*") if each.suffix in _SHOWN) if folder.is_dir() else []
        )
        if not found:
            return None
        page = "results/protocol.html"
        links = [ui.tags.li(ui.tags.a(each, href=f"results/{each}", download=None)) for each in found]
        return ui.div(
            ui.h3("Results"),
            ui.tags.iframe(src=page, title="The released results", class_="results"),
            ui.tags.ul(*links),
        )


def _ended(status: int | None) -> str:
    return (
        "Released."
        if status == 0
        else "It ended without a result. Its messages are below. A charge that was made stays."
    )


def commands(state: State) -> list[str]:
    """Return the commands that do what the page does."""
    files = state.files
    dataset = files.plan_facts.get("dataset") or files.name
    epsilon, delta = files.plan_facts.get("epsilon", 1.0), files.plan_facts.get("delta", 1e-6)
    plan = shlex.quote(files.plan.name)
    return [
        f"dpcost check {shlex.quote(files.study.name)}",
        f"dpcost ledger open {shlex.quote(dataset)} --epsilon {epsilon} --delta {delta}",
        f"dpcost protocol check {plan}",
        f"dpcost protocol release {plan} --out {shlex.quote(files.results.name)}",
    ]
