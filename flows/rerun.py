"""The flow of a rerun: one task or cell of a study again, with everything that depends on it."""

from typing import Any

from prefect import flow

from flows.last_run import rerun_options
from flows.server.dead_runs import HOOKS
from flows.studies.parameters import (
    CellKey,
    LastProfile,
    LastReplicates,
    LastSeed,
    Offline,
    OutFolder,
    StudyChoice,
    TaskChoice,
    Workers,
    check_studies,
    reports_folder,
    run_name,
)
from flows.study import THREADS, run_study
from tasks.faults import guarded
from tasks.limits import DEFAULT_SEED


@flow(name="rerun", flow_run_name=run_name, task_runner=THREADS, persist_result=False, **HOOKS)
@guarded
def run_part(
    study: StudyChoice,
    task: TaskChoice,
    cell: CellKey = None,
    profile: LastProfile = None,
    reps: LastReplicates = None,
    seed: LastSeed = None,
    offline: Offline = False,
    out: OutFolder = None,
    workers: Workers = None,
) -> dict[str, Any]:
    """Repeat the last run of a study but for one task or cell, and return where the report lies.

    The parameters are those of :func:`flows.study.run_study`; what is not given is the last run's.
    """
    check_studies(study)
    folder = reports_folder(out) if out else None
    options = rerun_options(study, task, cell, folder, profile=profile, reps=reps, seed=seed)
    found = {"seed": DEFAULT_SEED, **{name: value for name, value in options.items() if value is not None}}
    return dict(run_study.fn(study, out=out, offline=offline, workers=workers, **found))
