"""The page, the tables and the methods paragraph of a plan, from the records of its releases."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from data.ledger import Ledger
from data.store.folders import atomic_write
from dpalgos import InputError
from reports.pages.coefficient_table import table_of
from reports.render import render_page
from reports.writing import words
from tasks.protocol.plan_file import PAGES, PlanFile
from tasks.protocol.prepare import PreparedPlan, prepare_plan
from tasks.report.coefficients import model_of_record, nested_record, read_record, write_table


def write_protocol(plan: PlanFile, ledger: Ledger, folder: Path, failures: Mapping[str, str]) -> Path:
    """Write ``protocol.html``, ``protocol.md`` and the tables of a plan into a folder; return the page.

    ``failures`` say why a question has no estimate.
    """
    prepared, records = prepare_plan(plan, ledger), records_of(plan, folder, failures)
    released = {
        name: {
            each["name"]: (each["upper"] - each["lower"]) / 2
            for each in record["release"]["answer"]
            if each["lower"] is not None
        }
        for name, record in records.items()
    }
    estimates = {
        each.name: table_of([replace(model_of_record(records[each.name]), title="")])
        if each.name in records
        else failures.get(each.submodel or each.name, "There is no estimate.")
        for each in plan.plan.questions
    }
    contents = render_page(
        "pages/protocol.jinja",
        name=plan.name,
        plan=prepared.table(released),
        estimates=estimates,
        deviations=prepared.deviations,
        methods=methods_of(prepared, records),
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
        if (source := each.submodel or each.name) in failures:
            continue
        record = read_record(folder / source)
        if each.submodel:
            try:
                record = nested_record(record, each.formula)
            except (InputError, ValueError):
                continue
        product = {**record["deployment"]["product"], "name": each.name}
        records[each.name] = {**record, "deployment": {**record["deployment"], "product": product}}
    return records


def methods_of(prepared: PreparedPlan, records: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return paragraphs for the methods section of a paper: the plan, and each of its releases."""
    plan, registration = prepared.plan.plan, prepared.registration
    sha256, targets = (
        registration.first["sha256"],
        words(
            [
                f"± {target:g} for {term} ({each.name})"
                for each in plan.released
                for term, target in each.precision.items()
            ]
        ),
    )
    shares = words([f"{each.name} {prepared.split.epsilons[each.name]:.3g}" for each in plan.released])
    sentences = (
        f"Questions, target half-widths and the split of one budget (ε = {plan.epsilon:g}, "
        f"δ = {plan.delta:g}) were registered on {registration.charges[0].charged[:19].replace('T', ' ')} "
        f"UTC, before any estimate was drawn (sha256 {sha256}).",
        "" if sha256 == prepared.plan.sha256 else f"The file now has sha256 {prepared.plan.sha256}.",
        f"Targets were {targets}." if targets else "",
        f"The shares of ε are {shares}; all together cost ε = {prepared.split.total:.4g}, by composition of "
        "zero-concentrated differential privacy.",
        *(
            f"{each.name} follows from the release of {each.submodel}, at no further cost."
            for each in plan.questions
            if each.submodel
        ),
    )
    methods = [records[each.name]["release"]["methods"] for each in plan.released if each.name in records]
    return [" ".join(filter(None, sentences)), *methods, *prepared.deviations]
