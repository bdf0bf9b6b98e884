"""The last step: a typed confirmation, the release, and its results."""

from pathlib import Path

from shiny import Inputs, reactive, render, ui

from flows.page.parts import banner, folded
from flows.page.releasing import text_of_command
from flows.page.state import State, count
from flows.page.steps.budget import split_table
from tasks.protocol.plan_file import PAGES
from tasks.protocol.prepare import PreparedPlan
from tasks.protocol.registration import is_released, registration_of, text_of_payment

_SHOWN = (".docx", ".tex", ".md", ".csv", ".html", ".svg", ".png", ".pdf", ".json")
_FIGURES = ("svg", "png", "pdf")


def screen(state: State) -> ui.Tag:
    return ui.div(
        ui.h1("Release"),
        ui.output_ui("progress"),
        ui.output_ui("results"),
        ui.output_ui("to_release"),
        folded("What this page does, as commands", ui.tags.pre("\n".join(commands(state)), tabindex="0")),
    )


def serve(input: Inputs, state: State) -> None:
    releasing = state.releasing

    @render.ui
    def to_release() -> ui.Tag | None:
        prepared = state.forecast()
        if is_running():
            return None
        if prepared is None:
            return ui.p("Forecast all questions and divide ε first, in step 4; again after each change.")
        if (account := state.account()) is None:
            return ui.p("Open the budget first, in step 4.")
        if prepared.split.refusal:
            return banner(prepared.split.refusal)
        is_free = is_released(prepared.plan, account)
        does = f"charge ε {prepared.split.total:.4g} and release"
        if is_free:
            does = "write the results again, which charges nothing"
        empty = ", ".join(prepared.without_interval)
        label = "Release the stored result (free)" if is_free else "Charge and release"
        parts = (
            split_table(prepared),
            banner(f"No interval is expected for {empty}.") if empty else None,
            ui.input_text("confirm", f"To {does}, type {_word(state, prepared)}", width="100%"),
            ui.input_checkbox(
                "again", "Charge again the questions whose estimates were lost", False, width="100%"
            ),
            ui.input_action_button("release", label, class_="btn-secondary" if is_free else "btn-danger"),
        )
        return folded("Write the results again", *parts) if is_free else ui.div(*parts)

    @reactive.effect
    @reactive.event(input.release)
    def start() -> None:
        prepared = state.forecast()
        if prepared is None:
            ui.notification_show("The files changed; forecast all questions again.", type="warning")
        elif input.confirm().strip() != (word := _word(state, prepared)):
            ui.notification_show(f"Nothing was charged: type {word} to confirm.", type="warning")
        elif not releasing.start(_release(state, prepared, again=input.again())):
            ui.notification_show("A release is under way.", type="warning")

    @reactive.poll(lambda: (releasing.progress, releasing.is_running and state.account()), 0.5)
    def progress_so_far() -> tuple[bool, int | None, list[str]]:
        return releasing.progress

    @render.ui
    def progress() -> ui.Tag | None:
        is_running, status, messages = progress_so_far()
        plan, account = state.plan(), state.account()
        now = "Under way. A closed window does not end it." if is_running else _ended(status)
        folder = state.files.results
        tense = "are" if (folder / PAGES[0]).exists() else "will be"
        told = [now, f"Results {tense} in {folder.resolve()}."]
        if account and not isinstance(plan, str):
            told.insert(1, text_of_payment(registration_of(plan, account), plan.plan.delta))
        elif not now:
            return None
        lines = ui.tags.pre("\n".join(messages), tabindex="0") if messages and status != 0 else None
        return ui.div(banner(" ".join(told)), lines)

    @reactive.calc
    def is_running() -> bool:
        return progress_so_far()[0]

    @reactive.calc
    def status() -> int | None:
        return progress_so_far()[1]

    @reactive.effect
    def charged() -> None:
        status()
        count(state.charged)

    @render.ui
    def results() -> ui.Tag | None:
        status()
        return _results(state.files.results)


def _word(state: State, prepared: PreparedPlan) -> str:
    """Return what a person types to charge a plan; more if some questions may have no interval."""
    return f"{state.files.dataset}{' without intervals' * bool(prepared.without_interval)}"


def _results(folder: Path) -> ui.Tag | None:
    if not (folder / PAGES[0]).exists():
        return None
    names = sorted(each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.suffix in _SHOWN)
    links = [ui.tags.li(ui.a(each, href=f"results/{each}", target="_blank")) for each in names]
    figures = [
        ui.img(src=f"results/{each}", alt="Survival curves") for each in names if each.endswith(".svg")
    ]
    return ui.div(
        ui.h2("Results"),
        *figures,
        ui.tags.iframe(src=f"results/{PAGES[0]}", title="The released results", class_="results"),
        ui.tags.ul(*links),
    )


def _ended(status: int | None) -> str:
    failed = "It ended without a result, and its messages are below. Release again: a paid question is not "
    return f"{failed}drawn twice." if status else "Released." * (status is not None)


def _release(state: State, prepared: PreparedPlan | None = None, again: bool = False) -> list[list[str]]:
    """Return the commands of a release, with figures of each survival curve."""
    files = state.files
    options = ["--digest", prepared.plan.digest, "--yes"] if prepared else []
    options += ["--none-expected"] * bool(prepared and prepared.without_interval) + ["--again"] * again
    release = ["protocol", "release", files.plan.name, "--out", files.results.name, *options]
    figures = [f"{files.results.name}/{each['name']}" for each in files.questions if "survival" in each]
    drawn = [
        ["figure", each, "--format", kind, "--out", f"{each}.{kind}", "--force"]
        for each in figures
        for kind in _FIGURES
    ]
    return [release, *drawn]


def commands(state: State) -> list[str]:
    """Return the commands that do the same as the page."""
    files = state.files
    total = [f"{value:g}" for value in (2, 1e-6)]
    if account := state.account():
        total = [f"{value:g}" for value in (account.budget.epsilon, account.budget.delta)]
    words = [
        ["check", files.study.name],
        ["ledger", "open", files.dataset, "--epsilon", total[0], "--delta", total[1]],
        ["protocol", "check", files.plan.name],
        *_release(state),
    ]
    return [*map(text_of_command, words)]
