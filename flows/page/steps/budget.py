"""The fourth step: the ledger's budget, and how the plan divides it."""

import asyncio

from shiny import Inputs, reactive, render, ui

from data.ledger import Account, open_ledger
from data.ledger.charges import RESERVED
from data.store.folders import home
from flows.page.parts import banner, folded, grid, select_field, table, text_field
from flows.page.state import REFUSED, State, count, telling
from reports.charts.budgets import budget_gauge
from tasks.errors import SpecError
from tasks.own_table.typed import number_of
from tasks.protocol.plan_file import PlanFile
from tasks.protocol.prepare import PreparedPlan, check_reservable, prepare_plan
from tasks.protocol.registration import is_released
from tasks.release.spending import account_if_open, give_back, spent_epsilon

_OF_BACKUPS = "On another disk, and as secret as the ledger; it holds its key."
_FACTS = {"epsilon": "ε of all questions together", "delta": "δ, at most that of the budget"}


def screen(state: State) -> ui.Tag:
    facts = [
        text_field(f"plan_{key}", label, state.files.plan_facts.get(key)) for key, label in _FACTS.items()
    ]
    return ui.div(
        ui.h1("Budget"),
        ui.output_ui("budget"),
        ui.h2("This plan"),
        grid(
            *facts,
            ui.input_action_button("split", "Forecast all questions and divide ε", class_="btn-primary"),
        ),
        ui.output_ui("split_so_far"),
        folded(
            "Care for the ledger: give back, back up, verify",
            ui.output_ui("reserves"),
            grid(
                text_field(
                    "backup_file", "Backup file", f"{state.files.name}.ledger-backup", help=_OF_BACKUPS
                ),
                ui.input_action_button("back_up", "Back up the ledger"),
                ui.input_action_button("verify", "Verify the ledger"),
            ),
        ),
    )


def serve(input: Inputs, state: State) -> None:
    files = state.files
    serve_care(input, state)

    @render.ui
    def budget() -> ui.Tag:
        if (account := state.account()) is None:
            return _opening(state)
        plan, asked = state.plan(), files.plan_facts.get("epsilon", 0.0)
        if isinstance(plan, PlanFile) and is_released(plan, account):
            asked = 0.0
        return _table_of_charges(account, asked if isinstance(asked, float) else 0.0)

    @reactive.effect
    @reactive.event(input.open_budget)
    def open_budget() -> None:
        name, person = input.dataset().strip(), files.declared["data"].get("user_id", "")
        epsilon, delta = number_of(input.total_epsilon()), number_of(input.total_delta())
        with telling():
            if isinstance(epsilon, str) or isinstance(delta, str):
                raise SpecError("ε and δ of the budget must be numbers, e.g. 2 and 1e-6")
            if account_if_open(name) is None:
                open_ledger(home()).open_dataset(name, epsilon, delta, person)
            count(state.charged)
            with state.editing():
                files.plan_facts["dataset"] = name

    @reactive.effect
    def keep() -> None:
        facts = {key: number_of(input[f"plan_{key}"]()) for key in _FACTS}
        facts = {key: value if isinstance(value, str) else float(value) for key, value in facts.items()}
        if any(files.plan_facts.get(key) != value for key, value in facts.items()):
            with state.editing():
                files.plan_facts |= facts

    @reactive.extended_task
    async def splitting(plan: PlanFile, known: Account | None) -> PreparedPlan | str:
        try:
            return await asyncio.to_thread(_prepared, plan, known)
        except REFUSED as error:
            return str(error)

    @reactive.effect
    @reactive.event(input.split)
    def split() -> None:
        plan = state.plan()
        if isinstance(plan, str):
            ui.notification_show(plan, type="error", duration=None)
        else:
            splitting(plan, state.account())

    @reactive.effect
    def remember() -> None:
        prepared = splitting.result()
        state.prepared.set(None if isinstance(prepared, str) else prepared)

    @render.ui
    def split_so_far() -> ui.Tag:
        if prepared := state.forecast():
            return split_table(prepared)
        if splitting.status() == "running":
            return ui.p("Forecasting …", role="status")
        refusal = splitting.result()
        return banner(refusal if isinstance(refusal, str) else "The files changed; forecast all again.")


def serve_care(input: Inputs, state: State) -> None:
    """Give reserves back, back the ledger up and verify it."""
    files = state.files

    @render.ui
    def reserves() -> ui.Tag:
        charges = account.charges if (account := state.account()) else ()
        open_ones = {
            each.reserve: each.reserve for each in charges if each.reserve and each.state == RESERVED
        }
        if not open_ones:
            return ui.p("No reserve can be given back.")
        button = ui.input_action_button("give_back", "Give it back; nothing was drawn")
        return grid(select_field("reserve", "Reserve of a question", open_ones), button)

    @reactive.effect
    @reactive.event(input.give_back)
    def return_reserve() -> None:
        with telling():
            ui.notification_show(give_back(files.dataset, input.reserve()))
            count(state.charged)

    @reactive.effect
    @reactive.event(input.back_up)
    def back_up() -> None:
        with telling():
            open_ledger(home()).backup(file := files.study.parent / input.backup_file().strip())
            ui.notification_show(f"{file} holds the ledger and its key: keep it as secret.", duration=None)

    @reactive.effect
    @reactive.event(input.verify)
    def verify() -> None:
        with telling():
            report = open_ledger(home()).verify(None)
            faults = "; ".join(report.problems)
            complete = f"The ledger is complete: {report.n_charges} charges, head {report.head or '(empty)'}."
            ui.notification_show(
                complete if report.ok else f"The ledger is not complete: {faults}", duration=None
            )


def _prepared(plan: PlanFile, account: Account | None) -> PreparedPlan:
    prepared = prepare_plan(plan, account)
    if not prepared.split.refusal:  # which is shown with the table
        check_reservable(prepared, account)
    return prepared


def split_table(prepared: PreparedPlan) -> ui.Tag:
    """Return the forecast of a plan with the ε of each question."""
    forecast_table = prepared.table
    rows = [[cell.text for cell in row] for row in forecast_table.cells]
    return ui.div(
        table(forecast_table.columns, rows, forecast_table.caption),
        banner(prepared.split.refusal) if prepared.split.refusal else ui.p(prepared.text_of_total),
        ui.p(" ".join(forecast_table.notes).replace("`", "")),
    )


def _opening(state: State) -> ui.Tag:
    return ui.div(
        ui.p(
            "No budget is open for these data. Open one budget for everything that is released from them. "
            "If a budget is open for the same persons in another table, enter its name."
        ),
        grid(
            text_field("dataset", "Name of the data in the ledger", state.files.name),
            text_field("total_epsilon", "ε of everything", "2", help="E.g. 2. A smaller ε protects more."),
            text_field("total_delta", "δ, well below one over the number of rows", "1e-06"),
            ui.input_action_button("open_budget", "Open the budget"),
        ),
    )


def _table_of_charges(account: Account, asked: float) -> ui.Tag:
    budget, charges = account.budget, account.charges
    spent = spent_epsilon(charges, budget.delta)
    rows = [
        (
            one.reserve or one.question.estimator,
            f"{one.epsilon:.4g}",
            one.state,
            one.charged[:19].replace("T", " "),
        )
        for one in charges
    ]
    return ui.div(
        ui.HTML(budget_gauge(spent, asked, budget.epsilon)),
        ui.p(
            f"{budget.name}: ε {spent:.4g} of {budget.epsilon:g} is spent, at δ {budget.delta:g}. "
            + (f"The plan asks for ε {asked:g}." if asked else "The plan asks for nothing more.")
        ),
        table(("charge", "ε", "state", "since (UTC)"), rows, "Charges so far") if rows else None,
    )
