"""``dpcost ledger``: datasets' privacy budgets, what was spent of them, and backups of the record."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from data.store.folders import home, is_in_memory
from flows.cli.options import (
    AsJson,
    Epsilon,
    argument,
    echo,
    flag,
    help_without_command,
    option,
    rendered,
    show,
)

if TYPE_CHECKING:
    from data.ledger import VerifyReport

_COPIES = (
    "keep one ledger per dataset; another ledger, or a copy of DPCOST_HOME, lacks these charges and would "
    "draw fresh noise about the same people"
)

ledger_app = typer.Typer(help="Manage the privacy budgets of datasets and their charges.")
ledger_app.callback(invoke_without_command=True)(help_without_command)


@ledger_app.command("open")
def ledger_open(
    name: Annotated[str, argument("NAME", "Dataset name.")],
    epsilon: Epsilon,
    delta: Annotated[float, option("NUMBER", "δ, well below 1 / number of rows; 0 allows pure ε only.")],
    unit: Annotated[
        str,
        option(
            "COLUMN",
            "Column of person ids, in all tables of a cohort that share the budget; default: the unit of "
            "the first charge.",
        ),
    ] = "",
) -> None:
    """Set the total privacy budget of a dataset, once; the same rows get no second budget."""
    from data.ledger import open_ledger

    ledger = open_ledger(home())
    budget = ledger.open_dataset(name, epsilon, delta, unit)
    echo(f"{budget.name}: epsilon {budget.epsilon:g} at delta {budget.delta:g}, opened {budget.opened}")
    if budget.unit:
        echo(f"it protects each person by {budget.unit}, in all tables with that column together")
    if ledger.location.startswith(str(home().resolve())) and is_in_memory(home()):
        echo(f"note: {ledger.location} is in memory: a restart loses the charges; move DPCOST_HOME")
    echo(_COPIES)


@ledger_app.command("show")
def ledger_show(
    name: Annotated[str | None, argument("NAME", "Dataset name; default: all datasets.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show budgets and charges."""
    from data.ledger import open_ledger
    from tasks.release.spending import protected_unit, spent_epsilon, why_another

    ledger = open_ledger(home())
    rows: list[dict[str, Any]] = []
    for row in ledger.show(name):
        account = ledger.account(row["name"])
        charges = account.charges
        spent = spent_epsilon(charges, row["delta"])
        facts = {"unit": protected_unit(account.budget, charges), "note": why_another(charges, row["delta"])}
        rows.append({**row, "epsilon_spent": spent, **facts})
    show(rows, rendered("ledger.txt.jinja", rows=rows, copies=_COPIES), as_json)


@ledger_app.command("give-back")
def ledger_give_back(
    name: Annotated[str, argument("NAME", "Dataset name.")],
    reserve: Annotated[str, argument("RESERVE", "Name of the reserve: PLAN/QUESTION, as show prints it.")],
) -> None:
    """Give back the reserve of a question of a plan, unless its noise may have been drawn."""
    from tasks.release.spending import give_back

    echo(give_back(name, reserve))


@ledger_app.command("backup")
def ledger_backup(file: Annotated[Path, argument("FILE", "Backup file.")], as_json: AsJson = False) -> None:
    """Copy the ledger with its key into one file; overwrites only an earlier backup."""
    from data.ledger import open_ledger

    report = open_ledger(home()).backup(file)
    _show(report, f"{file} holds the ledger and its key: keep it as secret", as_json)


@ledger_app.command("restore")
def ledger_restore(
    file: Annotated[Path, argument("FILE", "Backup file.")],
    noted: Annotated[str | None, option("HEAD", "Last head that you noted; FILE must contain it.")] = None,
    forget_newer: Annotated[
        bool, flag("--forget-newer", "Accept an older state; later charges are lost.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Replace the ledger by a backup; refuses a backup that lacks later charges."""
    from data.ledger import open_ledger

    report = open_ledger(home()).restore(file, noted=noted, forget_newer=forget_newer)
    _show(report, f"the ledger was restored from {file}", as_json)


def _show(report: "VerifyReport", sentence: str, as_json: bool) -> None:
    """Print a report on a complete ledger, and the head that later reveals a rollback."""
    counts = f"charges: {report.n_charges}, datasets: {report.n_datasets}"
    show(report, [f"{sentence}: {counts}", f"head {report.head}"], as_json)


@ledger_app.command("verify")
def ledger_verify(
    noted: Annotated[str | None, option("HEAD", "Head that an earlier verify printed.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check that the chain of charges is complete; exit status 1 if it is not."""
    from data.ledger import open_ledger

    report = open_ledger(home()).verify(noted)
    lines = [f"the ledger is complete; charges: {report.n_charges}, head {report.head or '(empty)'}"]
    if not report.ok:
        lines = ["the ledger is NOT complete:", *(f"  {problem}" for problem in report.problems)]
    show(report, lines, as_json)
    if not report.ok:
        raise typer.Exit(1)
