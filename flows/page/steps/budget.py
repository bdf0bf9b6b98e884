"""The fourth step: the ledger's budget, and how the plan divides it."""

import asyncio
from contextlib import suppress

from shiny import Inputs, reactive, render, ui

from data.errors import LedgerError
from data.ledger import Account, open_ledger
from data.store.folders import home
from flows.page.files import number_of
from flows.page.pictures import gauge
from flows.page.state import REFUSED, State
from reports.render import PageTable
from tasks.protocol.plan_file import PlanFile
from tasks.protocol.prepare import PreparedPlan, check_charges, check_unit, prepare_plan
from tasks.release.spending import spent_epsilon


def screen(state: State) -> ui.Tag:
    facts = state.files.plan_facts
    return ui.div(
        ui.h2("Budget"),
        ui.output_ui("account"),
        ui.h3("This plan"),
        ui.layout_columns(
            ui.input_text(
                "plan_epsilon",
                "ε of all questions together",
                value=str(facts.get("epsilon", 1.0)),
                update_on="blur",
            ),
            ui.input_text("plan_delta", "δ", value=str(facts.get("delta", 1e-6)), update_on="blur"),
            ui.input_action_button("split", "Forecast all questions and divide ε", class_="btn-primary"),
            col_widths=(4, 4, 4),
        ),
        ui.output_ui("split_so_far"),
    )


def account_of(state: State) -> Account | None:
    """Return the dataset's budget and charges; None if no budget is open."""
    with suppress(LedgerError):
        return open_ledger(home()).account(state.files.plan_facts.get("dataset") or state.files.name)
    return None


def prepared(plan: PlanFile, account: Account | None) -> PreparedPlan:
    """Prepare a plan as the command line does: its unit, its split and its charges."""
    if account:
        check_unit(plan, account)
    found = prepare_plan(plan, account)
    if account:
        check_charges(found, account)
    return found


def serve(input: Inputs, state: State) -> None:
    files = state.files

    @render.ui
    def account() -> ui.Tag:
        state.charged()
        found = account_of(state)
        return (
            _opening(state) if found is None else _shown(found, float(files.plan_facts.get("epsilon", 0.0)))
        )

    @reactive.effect
    @reactive.event(input.open_budget)
    def open_budget() -> None:
        try:
            epsilon, delta = float(input.total_epsilon()), float(input.total_delta())
            person = files.declared["data"].get("user_id", "")
            open_ledger(home()).open_dataset(input.dataset().strip(), epsilon, delta, person)
        except ValueError as error:
            ui.notification_show(str(error), type="error", duration=None)
            return
        with state.editing():
            files.plan_facts["dataset"] = input.dataset().strip()
        state.charged.set(state.charged() + 1)

    @reactive.effect
    def keep() -> None:
        facts = {"epsilon": number_of(input.plan_epsilon()), "delta": number_of(input.plan_delta())}
        if any(files.plan_facts.get(key) != value for key, value in facts.items()):
            with state.editing():
                files.plan_facts |= facts

    @reactive.extended_task
    async def splitting(digest: str, plan: PlanFile, known: Account | None) -> tuple[str, PreparedPlan] | str:
        try:
            return digest, await asyncio.to_thread(prepared, plan, known)
        except REFUSED as error:
            return str(error)

    @reactive.effect
    @reactive.event(input.split)
    def split() -> None:
        plan = state.plan()
        if isinstance(plan, str):
            ui.notification_show(plan, type="error", duration=None)
        else:
            splitting(state.digest, plan, account_of(state))

    @reactive.effect
    def remember() -> None:
        found = splitting.result()
        state.prepared.set(None if isinstance(found, str) else found)

    @render.ui
    def split_so_far() -> ui.Tag:
        found = splitting.result()
        return ui.p(found, class_="banner") if isinstance(found, str) else split_table(found[1])


def split_table(found: PreparedPlan) -> ui.Tag:
    """Return the forecast of a plan with the ε of each question."""
    total = f"All together: ε {found.split.total:.4g} at δ {found.plan.plan.delta:g}."
    refusal = ui.p(found.split.refusal, class_="banner") if found.split.refusal else None
    return ui.div(_html(found.table), ui.p(total), refusal)


def _html(table: PageTable) -> ui.Tag:
    head = ui.tags.tr(*[ui.tags.th(each) for each in table.columns])
    texts = [[cell if isinstance(cell, str) else cell.text for cell in row] for row in table.rows]
    return ui.tags.table(head, *[ui.tags.tr(*map(ui.tags.td, row)) for row in texts])


def _opening(state: State) -> ui.Tag:
    delta = 1e-6
    return ui.div(
        ui.p("No budget is open for these data. Open one budget for everything that is released from them."),
        ui.layout_columns(
            ui.input_text("dataset", "Name of the data in the ledger", value=state.files.name),
            ui.input_text("total_epsilon", "ε of everything", value="2"),
            ui.input_text("total_delta", "δ, well below one over the number of rows", value=f"{delta:g}"),
            ui.input_action_button("open_budget", "Open the budget"),
        ),
    )


def _shown(account: Account, asked: float) -> ui.Tag:
    budget, charges = account.budget, account.charges
    spent = spent_epsilon(charges, budget.delta)
    rows = [
        ui.tags.tr(
            *[
                ui.tags.td(each)
                for each in (one.reserve or one.question.estimator, f"{one.epsilon:.4g}", one.state)
            ]
        )
        for one in charges
    ]
    head = ui.tags.tr(*[ui.tags.th(each) for each in ("charge", "ε", "state")])
    return ui.div(
        ui.HTML(gauge(spent, asked, budget.epsilon)),
        ui.p(
            f"{budget.name}: ε {spent:.4g} of {budget.epsilon:g} is spent or reserved, at δ {budget.delta:g}."
        ),
        ui.tags.table(head, *rows) if rows else None,
    )
