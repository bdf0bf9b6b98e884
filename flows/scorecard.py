"""The flow of the scorecard: read the studies' results, judge every claim, write the page."""

from typing import Any

from prefect import flow, runtime

from flows.record.journal import recorded
from flows.server.dead_runs import HOOKS
from flows.studies.judging import COMMAND, judged
from flows.studies.parameters import Command, OutFolder, ProfileChoice, Seed, reports_folder, run_name
from flows.studies.prefect_tasks import PrefectTasks
from tasks.faults import guarded
from tasks.limits import DEFAULT_SEED
from tasks.scorecard.judging import NAME


@flow(name=NAME, flow_run_name=run_name, persist_result=False, **HOOKS)
@guarded
def run_scorecard(
    profile: ProfileChoice = "standard",
    seed: Seed = DEFAULT_SEED,
    out: OutFolder = None,
    command: Command = "",
) -> dict[str, Any]:
    """Judge every claim on the results in ``out``, and return the path of the scorecard.

    The parameters are those of :func:`flows.study.run_study`; nothing is computed here but the verdicts, so
    that ``profile`` and ``seed`` are for the record.
    """
    tasks, command = PrefectTasks(), command or COMMAND
    with recorded(NAME, profile):
        done = judged(reports_folder(out, NAME), tasks, profile=profile, seed=seed, command=command)
    return {**done.shown(), "flow_run_id": str(runtime.flow_run.id), "n_task_runs": tasks.n_runs}
