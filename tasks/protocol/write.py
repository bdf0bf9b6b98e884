"""The page, the tables and the methods paragraph of a plan, from the records of its releases."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from data.ledger import Ledger
from data.store.folders import atomic_write
from dpalgos import InputError
from reports.pages.coefficient_table import Model
from reports.pages.protocol_page import render_protocol
from reports.writing import words
from tasks.protocol.plan_file import PAGES, PlanFile
from tasks.protocol.prepare import PreparedPlan, prepare_plan
from tasks.release.spending import spent_epsilon
from tasks.report.coefficients import model_of_record, nested_record, read_record, write_table


def write_protocol(plan: PlanFile, ledger: Ledger, folder: Path, failures: Mapping[str, str]) -> Path:
    """Write ``protocol.html``, ``protocol.md`` and the tables of a plan into a folder; return the page.

    ``failures`` say why a question has no estimate.
    """
    prepared = prepare_plan(plan, ledger)
    records = records_of(plan, folder, failures)
    released = {
        name: {
            each["name"]: (each["upper"] - each["lower"]) / 2
            for each in record["release"]["answer"]
            if each["lower"] is not None
        }
        for name, record in records.items()
    }
    estimates: dict[str, Model | str] = {
        each.name: model_of_record(records[each.name])
        if each.name in records
        else failures.get(each.name) or failures.get(each.submodel, "There is no estimate.")
        for each in plan.plan.questions
    }
    contents = render_protocol(
        plan.name,
        _about(prepared),
        prepared.table(released),
        estimates,
        prepared.deviations,
        methods_of(prepared, records),
    )
    for name, content in zip(PAGES, contents, strict=True):
        atomic_write(folder / name, content)
    for table in plan.plan.tables:
        if columns := [records[name] for name in table.columns if name in records]:
            write_table(columns, folder / table.out)
    return folder / PAGES[0]


def records_of(plan: PlanFile, folder: Path, failures: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the record of each question, titled by its name, without those that failed."""
    records: dict[str, dict[str, Any]] = {}
    for each in plan.plan.questions:
        source = each.submodel or each.name
        if source in failures:
            continue
        record = read_record(folder / source)
        if each.submodel:
            try:
                record = nested_record(record, each.formula)
            except (InputError, ValueError):
                continue
        product = {**record["deployment"]["product"], "name": each.name}
        records[each.name] = {**record, "deployment": {**record["deployment"], "product": product}}
    return {each.name: records[each.name] for each in plan.plan.questions if each.name in records}


def methods_of(prepared: PreparedPlan, records: Mapping[str, Mapping[str, Any]]) -> str:
    """Return paragraphs for the methods section of a paper: the plan, and each of its releases."""
    plan = prepared.plan
    shares = words([f"{name} {epsilon:.3g}" for name, epsilon in prepared.split.epsilons.items()])
    targets = words(
        [
            f"± {target:g} for {term} ({each.name})"
            for each in plan.plan.released
            for term, target in each.precision.items()
        ]
    )
    first = (
        f"Questions, target half-widths and the split of one budget (ε = {plan.plan.epsilon:g}, δ = "
        f"{plan.plan.delta:g}) were registered on {prepared.registration.date[:10]}, before any estimate was "
        f"drawn (sha256 {prepared.registration.first.get('sha256', '')[:16]}). "
        + (f"Targets were {targets}. " if targets else "")
        + f"The shares of ε are {shares}; they compose by zero-concentrated differential privacy."
    )
    free = [
        f"{each.name} follows from the release of {each.submodel}"
        for each in plan.plan.questions
        if each.submodel
    ]
    more = f"{words(free)}, at no further cost." if free else ""
    released = [
        records[each.name]["release"]["methods"] for each in plan.plan.released if each.name in records
    ]
    return "\n\n".join(filter(None, [first, *released, more, " ".join(prepared.deviations)]))


def _about(prepared: PreparedPlan) -> list[str]:
    """Say when the plan was registered, and what its releases cost together."""
    plan, registration = prepared.plan, prepared.registration
    spent = spent_epsilon(registration.spent, plan.plan.delta)
    first = registration.first["sha256"]
    file = "is unchanged" if first == plan.sha256 else f"now has sha256 {plan.sha256}"
    return [
        f"Registered {registration.date[:19].replace('T', ' ')} UTC with sha256 {first}. The file {file}.",
        f"All questions together cost ε = {spent:.4g} at δ = {plan.plan.delta:g}; the plan allows "
        f"{plan.plan.epsilon:g}.",
    ]
