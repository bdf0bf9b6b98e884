"""The flow of an analysis plan: a task for each question, then one page."""

from pathlib import Path

from prefect import flow

from data.ledger import open_ledger
from data.ledger.charges import RESERVED
from data.store.folders import home
from flows.progress import say
from tasks.cache import RECORDS
from tasks.errors import SpecError, guarded
from tasks.protocol.plan_file import read_plan
from tasks.protocol.registration import check_again, registration_of
from tasks.protocol.write import write_protocol
from tasks.question import release_question


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
