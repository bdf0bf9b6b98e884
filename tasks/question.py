"""The task that releases one question of an analysis plan."""

from pathlib import Path

from prefect import task

from data.ledger import Charge, open_ledger
from data.store.folders import home
from tasks.errors import guarded
from tasks.protocol.plan_file import PlanFile
from tasks.protocol.write import with_sizes
from tasks.release.record import record_of, write_record
from tasks.release.release import release


@task(task_run_name="release {question}", persist_result=False, retries=0)
@guarded
def release_question(plan: PlanFile, question: str, reserve: Charge, folder: Path, *, again: bool) -> None:
    """Charge and draw a reserved question, or read its estimate from the ledger; write its record."""
    request = plan.request(question, reserve.epsilon)
    released = release(open_ledger(home()), request, plan.data, again=again)
    write_record(with_sizes(record_of(released), plan, question, folder), folder / question)
