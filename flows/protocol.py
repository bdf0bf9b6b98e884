"""The flow of an analysis plan: a task for each question, then one page."""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from prefect import flow, task

from data.ledger import Account, Charge, open_ledger
from data.ledger.charges import RESERVED
from data.store.folders import atomic_write, home
from dpalgos import InputError
from dpalgos.answers.baseline import BaselineTable
from dpalgos.coefficients import RATIOS
from dpalgos.formula.group_table import SurvivalCells
from dpalgos.formula.nested import submodel_by_formula
from flows.progress import say
from reports.pages.coefficient_table import INTERCEPTS, p_text, table_of
from reports.render import PageTable, render_page
from reports.writing import count_of, interval_text, num, num_in
from tasks.cache import RECORDS
from tasks.errors import SpecError, guarded
from tasks.protocol.plan_file import PAGES, PlanFile, read_plan
from tasks.protocol.prepare import forecast_table
from tasks.protocol.questions import PlanQuestion
from tasks.protocol.registration import (
    Registration,
    check_again,
    deviations,
    registered_plan,
    registration_of,
)
from tasks.release.record import methods_of, record_of, write_record
from tasks.release.release import release
from tasks.release.spending import spent_epsilon
from tasks.report.coefficients import (
    by_group_of,
    column_of_record,
    nested_record,
    read_record,
    record_by_group,
    released_model,
    write_table,
)


def write_protocol(plan: PlanFile, account: Account, folder: Path, failures: Mapping[str, str]) -> list[str]:
    """Write the pages and the tables of a plan into a folder; return paragraphs for a methods section.

    ``failures`` say why a question has no estimate.
    """
    records, registration = _records(plan, folder, failures), registration_of(plan, account)
    charges = {name: each[-1] for name, each in registration.charges.items()}
    epsilons = {name: charge.epsilon for name, charge in charges.items()}
    forecasts = {name: charge.cost.facts["forecast"] for name, charge in charges.items()}
    released = {
        name: {
            each["name"]: (each["upper"] - each["lower"]) / 2
            for each in record["release"]["answer"]
            if each["lower"] is not None
        }
        for name, record in records.items()
    }
    estimates = {
        each.name: table_of([replace(column_of_record(records[each.name]), title="")])
        if each.name in records
        else failures.get(each.submodel or each.name, "There is no estimate.")
        for each in plan.plan.questions
    }
    results = [
        {
            **answer,
            "question": each.name,
            "level": records[each.name]["release"]["level"],
            "of": _scale(each, records),
        }
        for each in plan.plan.questions
        if each.name in records
        for answer in records[each.name]["release"]["answer"]
        if answer["lower"] is not None and answer["name"] not in INTERCEPTS
        if answer["name"] in (each.precision or [answer["name"]])
    ]
    methods = _methods(plan, account, registration, records)
    estimates |= {
        f"{name} (not in the plan)": _answer_table(charge)
        for name, charge in registration.charged.items()
        if charge.answer and name not in estimates
    }
    contents = render_page(
        "pages/protocol.jinja",
        name=plan.name,
        plan=forecast_table(plan, epsilons, forecasts, released),
        charges=_charge_table(plan, registration),
        estimates=estimates,
        n_answered=len(records),
        n_questions=len(plan.plan.questions),
        tests={
            each.name: _test_table(each, records[each.name])
            for each in plan.plan.questions
            if each.test and each.name in records
        },
        results=results,
        deviations=[*deviations(plan, registration)],
        methods=methods,
    )
    for name, content in zip(PAGES, contents, strict=True):
        atomic_write(folder / name, content)
    for table in plan.plan.tables:
        if columns := [records[name] for name in table.columns if name in records]:
            if table.by:
                columns = [record_by_group(each, table.by, titled=len(columns) > 1) for each in columns]
            write_table(columns, folder / table.out)
    return methods


def with_sizes(record: Mapping[str, Any], plan: PlanFile, question: str, folder: Path) -> Mapping[str, Any]:
    """Return the record of curves with the sizes of their groups, if a record in the folder has them.

    The first number at risk is then that of the baseline table: a plan shows one size of a group.
    """
    curves = plan.requests[question].by_group
    if not isinstance(curves, SurvivalCells):
        return record
    for each in plan.plan.released:
        other = plan.requests[each.name].by_group
        if each.table1 and other and other.group == curves.group:
            with suppress(SpecError):
                table = by_group_of(read_record(folder / each.name)["release"])
                assert isinstance(table, BaselineTable)
                release = record["release"]
                by_group = {**release["by_group"], "sizes": list(table.sizes)}
                return {**record, "release": {**release, "by_group": by_group}}
    return record


def _scale(question: PlanQuestion, records: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what coefficients of a question are, "the log odds ratio of", or "" if they are differences."""
    ratio = RATIOS.get(records[question.name]["release"].get("model", {}).get("family", ""), "")
    return f"the log {ratio.replace('_', ' ')} of " if ratio else ""


def _records(plan: PlanFile, folder: Path, failures: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the record of each question, titled by its name, without those that failed."""
    names = [each.name for each in plan.plan.released if each.name not in failures]
    stored, records = {name: read_record(folder / name) for name in names}, dict[str, dict[str, Any]]()
    for each in plan.plan.questions:
        if (record := stored.get(each.submodel or each.name)) is None:
            continue
        if each.submodel:
            try:
                record = nested_record(record, each.formula)
            except ValueError:
                continue
        product = {**record["deployment"]["product"], "name": each.name}
        records[each.name] = {**record, "deployment": {**record["deployment"], "product": product}}
    return records


def _charge_table(plan: PlanFile, registration: Registration) -> PageTable:
    names = {each.name for each in plan.plan.released}
    rows = []
    for charge in registration.all_charges:
        name = charge.reserve.partition("/")[2]
        state = "reserved" if charge.state == RESERVED else "released" if charge.answer else "estimate lost"
        state_text = state if name in names else f"{state}; not in the plan any more"
        rows.append([name, charge.charged[:19].replace("T", " "), f"{charge.epsilon:.4g}", state_text])
    spent = f"{spent_epsilon(registration.all_charges, plan.plan.delta):.4g}"
    rows.append([f"all together, at δ = {plan.plan.delta:g}", "", spent, ""])
    return PageTable(["Question", "charged (UTC)", "ε", ""], rows, "All charges of the plan", stacked=True)


def _answer_table(charge: Charge) -> PageTable:
    """Return the stored estimates of a question that left the file."""
    answer = dict(charge.answer or {})
    limits = answer.get("interval", {})
    rows = []
    for name, estimate in answer["estimate"].items():
        ends = limits.get(name) or [None]
        if None in ends:
            rows.append([name, num(estimate), ""])
        else:
            low, high = ends
            rows.append([name, num_in((low + high) / 2, low, high), interval_text(low, high)])
    return PageTable(["", "estimate", "interval"], rows)


def _test_table(question: PlanQuestion, record: Mapping[str, Any]) -> PageTable | str:
    try:
        model = released_model(record)
        if question.submodel:
            model = submodel_by_formula(model, question.formula)
        tests = [model.t_test(each) for each in question.test]
    except (SpecError, InputError) as error:
        return f"There are no tests: {error}."
    rows = []
    for test in tests:
        off, (lows, highs) = test.effect - test.null, test.limits - test.null
        for name, effect, low, high, p in zip(test.terms, off, lows, highs, test.pvalue, strict=True):
            if math.isnan(effect):
                rows.append([name, "", "", test.note])
            else:
                rows.append([name, num_in(effect, low, high), interval_text(low, high), p_text(p)])
    level = f"{100 * model.level:g}% interval"
    return PageTable(["planned test", "left minus right side", level, "p"], rows, stacked=True)


def _methods(
    plan: PlanFile, account: Account, registration: Registration, records: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Return paragraphs for the methods section of a paper: the plan with its releases, and deviations."""
    first, charges = registered_plan(plan, registration), registration.all_charges
    others = [each for each in account.charges if each not in charges]
    earlier = [each for each in others if each.charged < first["date"]]
    total = spent_epsilon(account.charges, account.budget.delta)
    released = [record for name, record in records.items() if name in registration.charges]
    sentences = (
        f"Questions, target half-widths and one budget (ε = {first['epsilon']:g}, δ = {first['delta']:g}) "
        f"were registered on {first['date'][:19].replace('T', ' ')} UTC (sha256 {first['sha256']}). No "
        "estimate of the plan had been drawn before.",
        "" if first["sha256"] == plan.sha256 else f"The file now has sha256 {plan.sha256}.",
        f"All charges of the plan together cost ε = {spent_epsilon(charges, plan.plan.delta):.4g} at "
        f"δ = {plan.plan.delta:g}.",
        f"Outside the plan, {count_of(len(others), 'release')} from the same data "
        f"({len(earlier)} before its registration) cost ε = {total:.4g} together with it, at "
        f"δ = {account.budget.delta:g}."
        if others
        else "",
        *(
            f"{each.name} follows from the release of {each.submodel}, at no further cost."
            for each in plan.plan.questions
            if each.submodel
        ),
        methods_of(released),
    )
    return [" ".join(filter(None, sentences)), *deviations(plan, registration)]


@task(task_run_name="release {question}", persist_result=False, retries=0)
@guarded
def release_question(plan: PlanFile, question: str, reserve: Charge, folder: Path, *, again: bool) -> None:
    """Charge and draw a reserved question, or read its estimate from the ledger; write its record."""
    request = plan.request(question, reserve.epsilon)
    released = release(open_ledger(home()), request, plan.data, again=again)
    write_record(with_sizes(record_of(released), plan, question, folder), folder / question)


@flow(
    name="protocol", flow_run_name="{file}", retries=0, persist_result=False, result_storage=home() / RECORDS
)
@guarded
def protocol(file: str, folder: str, again: bool = False, digest: str = "") -> list[str]:
    """Release all questions of a registered plan, write its page, and return its methods paragraphs.

    A question that fails leaves the others.

    Args:
        file: The plan's file.
        folder: The folder for the page, the tables and the records.
        again: Charge again questions whose estimates were lost.
        digest: The digest of the plan's file and its study file, as they were reserved.
    """
    plan, ledger, failures = read_plan(Path(file)), open_ledger(home()), dict[str, str]()
    if digest and plan.digest != digest:
        raise SpecError(
            f"{plan.path.name} or its study file has changed since the budget was reserved; repeat"
        )
    in_order = sorted(plan.plan.released, key=lambda each: not each.table1)  # their sizes are those of curves
    for name in (each.name for each in in_order):
        registration = registration_of(plan, ledger.account(plan.plan.dataset))
        reserve = registration.charges[name][-1]
        try:
            check_again(plan, registration, name)
        except SpecError as error:
            failures[name] = f"question {name!r} failed: {error}"
            continue
        state = release_question(plan, name, reserve, Path(folder), again=again, return_state=True)
        if not state.is_completed():
            failures[name] = f"question {name!r} failed: {state.result(raise_on_failure=False)}"
    account = ledger.account(plan.plan.dataset)
    methods = write_protocol(plan, account, Path(folder), failures)
    for name in failures:
        charge = registration_of(plan, account).charges[name][-1]
        if charge.state == RESERVED:
            failures[name] += (
                f"; nothing was drawn, and its reserve of epsilon {charge.epsilon:g} is kept: dpcost ledger "
                f"give-back {plan.plan.dataset} {charge.reserve!r} gives it back"
            )
    if failures:
        say(f"the others are in {folder}")
        raise SpecError("; ".join(failures.values()))
    return methods
