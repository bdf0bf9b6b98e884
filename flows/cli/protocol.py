"""``dpcost protocol``: an analysis plan, checked without data, and released within one budget."""

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from data.store.folders import home
from flows.cli.options import Yes, argument, echo, flag, help_without_command, option
from tasks import SpecError

if TYPE_CHECKING:
    from data.ledger import Account, Charge
    from tasks.protocol.prepare import PreparedPlan

protocol_app = typer.Typer(help="Check and release an analysis plan: several questions within one budget.")
protocol_app.callback(invoke_without_command=True)(help_without_command)
PlanArgument = Annotated[Path, argument("FILE", "TOML file with [plan], [[question]] and [[table]].")]


@protocol_app.command("check")
def check(file: PlanArgument) -> None:
    """Forecast the half-widths of a plan and split its budget; reads no data."""
    prepared, account = _prepared(file, echo)
    plan = prepared.plan.plan
    if account is None:
        budget = f"--epsilon {plan.epsilon:g} --delta {plan.delta:g}"
        echo(f"before the release, run: dpcost ledger open {shlex.quote(plan.dataset)} {budget}")


protocol_app.command("advise", hidden=True)(check)


@protocol_app.command("release")
def release(
    file: PlanArgument,
    out: Annotated[
        Path | None, option("FOLDER", "Folder for page, tables and records; default: the name of FILE.")
    ] = None,
    again: Annotated[bool, flag("--again", "Charge again the questions whose estimates were lost.")] = False,
    yes: Yes = False,
    none_expected: Annotated[
        bool, flag("--none-expected", "Release also questions without an interval in their forecast.")
    ] = False,
    methods: Annotated[bool, flag("--methods", "Print paragraphs for a methods section.")] = False,
    digest: Annotated[str, option("SHA256", "Digest of plan and study file; others are refused.")] = "",
) -> None:
    """Reserve the budget of a plan, release its questions, and write one page.

    The same command goes on after an interruption: nothing is drawn twice.
    """
    from data.ledger import open_ledger
    from data.store.output_files import claim_report
    from flows.confirm import agrees_to_charge, confirm_query_of
    from flows.launch import prepare_process, run_recorded
    from flows.local_server import prefect_server
    from flows.lock import exclusive_run
    from flows.progress import say
    from tasks.protocol.plan_file import PAGES
    from tasks.protocol.prepare import check_forecast, reserve_plan

    folder, ledger = out or Path(file.stem), open_ledger(home())
    claim_report(folder, file)
    prepared, _ = _prepared(file, say, digest)
    plan, total = prepared.plan, prepared.split.total
    confirm_query_of(file, plan.data)
    check_forecast(prepared, none_expected=none_expected)

    def confirm(left: "Sequence[Charge]") -> None:
        returned = ", ".join(f"{each.reserve} (epsilon {each.epsilon:.4g})" for each in left)
        if left:
            say(f"given back, since they changed or left {file.name}: {returned}")
        if not (yes or agrees_to_charge(f"reserve epsilon {total:.4g} of {plan.plan.dataset}?")):
            raise SpecError("nothing was reserved; change the plan, and repeat the command")

    def load() -> None:
        import flows.protocol  # noqa: F401

    reserve_plan(prepared, ledger, confirm)
    prepare_process()
    with exclusive_run(home()), prefect_server(home(), meanwhile=load):
        from flows.protocol import protocol

        paragraphs = run_recorded(
            partial(protocol, str(file), str(folder), again, plan.digest, return_state=True)
        )
    echo("\n\n".join(paragraphs) if methods else (folder / PAGES[1]).read_text())
    say(str(folder / PAGES[0]))


def _prepared(
    file: Path, show: Callable[[str], object], digest: str = ""
) -> "tuple[PreparedPlan, Account | None]":
    """Split the budget of a plan, and show its forecast before it is refused."""
    from flows.progress import counter
    from reports.pages.coefficient_table import text_of_table
    from tasks.protocol.plan_file import read_plan
    from tasks.protocol.prepare import check_reservable, prepare_plan
    from tasks.release.spending import account_if_open

    plan = read_plan(file)
    if digest and digest != plan.digest:
        raise SpecError(f"{file.name} or its study file has changed since it was shown; nothing was reserved")
    account = account_if_open(plan.plan.dataset)
    prepared = prepare_plan(plan, account, counter("simulating", "forecasts"))
    show(text_of_table(prepared.table))
    check_reservable(prepared, account)
    show(f"all together: epsilon {prepared.split.total:.4g} at delta {plan.plan.delta:g}")
    return prepared, account
