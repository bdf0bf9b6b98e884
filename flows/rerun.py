"""The flow of a rerun: one task or cell of a study again, with everything that depends on it."""

from typing import Any

from prefect import flow

from flows.last_run import rerun_options
from flows.server.dead_runs import HOOKS
from flows.studies import parameters
from flows.study import THREADS, run_study
from tasks.faults import guarded
from tasks.limits import DEFAULT_SEED


@flow(name="rerun", flow_run_name=parameters.run_name, task_runner=THREADS, persist_result=False, **HOOKS)
@guarded
def run_part(
    study: parameters.StudyChoice,
    task: parameters.TaskChoice,
    cell: parameters.CellKey = None,
    profile: parameters.LastProfile = None,
    reps: parameters.LastReplicates = None,
    seed: parameters.LastSeed = None,
    offline: parameters.Offline = False,
    out: parameters.OutFolder = None,
    workers: parameters.Workers = None,
) -> dict[str, Any]:
    """Repeat the last run of a study but for one task or cell, and return where the report lies.

    The parameters are those of :func:`flows.study.run_study`; what is not given is the last run's.
    """
    parameters.check_studies(study)
    folder = parameters.reports_folder(out) if out else None
    options = rerun_options(study, task, cell, folder, profile=profile, reps=reps, seed=seed)
    found = {"seed": DEFAULT_SEED, **{name: value for name, value in options.items() if value is not None}}
    return dict(run_study.fn(study, out=out, offline=offline, workers=workers, **found))
