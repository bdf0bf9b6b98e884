"""The flow of a study: fetch and prepare the data, run the blocks, collect, report."""

import os
from typing import Any

from prefect import flow, runtime
from prefect.task_runners import ThreadPoolTaskRunner

from flows.record.artifacts import LastResults, attach_budget, attach_report
from flows.record.journal import from_server, recorded
from flows.server.dead_runs import HOOKS
from flows.studies import parameters
from flows.studies.find_study import check_cell, find_study
from flows.studies.prefect_tasks import PrefectTasks
from flows.studies.steps import RunOptions, StudySteps
from tasks.faults import guarded
from tasks.limits import DEFAULT_SEED
from tasks.run.resources import run_at_most

THREADS: Any = ThreadPoolTaskRunner(max_workers=os.cpu_count() or 1)  # each has one block at a time


@flow(name="study", flow_run_name=parameters.run_name, task_runner=THREADS, persist_result=False, **HOOKS)
@guarded
def run_study(
    study: parameters.StudyChoice,
    profile: parameters.ProfileChoice = "standard",
    reps: parameters.Replicates = None,
    seed: parameters.Seed = DEFAULT_SEED,
    offline: parameters.Offline = False,
    out: parameters.OutFolder = None,
    workers: parameters.Workers = None,
    refresh_task: parameters.RefreshTask = None,
    refresh_cell: parameters.CellKey = None,
    command: parameters.Command = "",
) -> dict[str, Any]:
    """Run one study from ingest to report, and return the path of the report.

    The server's form explains the parameters: see `flows.studies.parameters`. From the command line `study`
    may also be the path of a study's file and `out` any folder, and `command` is what was typed.
    """
    parameters.check_studies(study)
    run_at_most(workers)
    spec = find_study(study)
    check_cell(spec, refresh_task, refresh_cell, profile)
    options = RunOptions(
        study=study,
        out=f"reports/out/{out}" if out and from_server() else out,
        profile=profile,
        reps=reps,
        seed=seed,
        offline=offline,
        refresh_task=refresh_task,
        refresh_cell=refresh_cell,
        command=command,
    )
    tasks = PrefectTasks()
    steps = StudySteps(spec, parameters.reports_folder(out, spec.name), options, tasks)
    last = LastResults(steps.folder, {"profile": profile, "replicates": steps.replicates})
    with recorded(study, profile, own_data=spec.analyst_table is not None):
        done = steps.run()
        last.tell_drift(spec)
    attach_report(spec, done.report)
    attach_budget(spec, done.results, done.headline_cells)
    return {**done.shown(), "flow_run_id": str(runtime.flow_run.id), "n_task_runs": tasks.n_runs}
