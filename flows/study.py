"""The flows: run a study, a part of it again, its report alone, the scorecard; bring data."""

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from prefect import flow, runtime
from prefect.artifacts import create_table_artifact
from prefect.context import TagsContext
from prefect.task_runners import ThreadPoolTaskRunner

from data.store.folders import home
from flows.artifacts import attach_budget, attach_report, last_results, show_drift
from flows.local_server import from_server
from flows.lock import exclusive_run
from flows.record.progress import say
from flows.studies import parameters as given
from flows.studies.find_study import SCORECARD, check_cell, find_study
from flows.studies.prefect_tasks import PrefectTasks
from flows.studies.results import folder_of_run, judged, rebuild_reports, rerun_options
from flows.studies.steps import StudySteps, bring_datasets, dropped_rows
from flows.studies.stored import NotStored, StoredResults
from flows.unfinished import start_again
from tasks.errors import guarded
from tasks.run.resources import run_at_most
from tasks.run.worker_processes import worker_processes
from tasks.run_options import OF_LAST_RUN, RunOptions, with_options

THREADS: Any = ThreadPoolTaskRunner(max_workers=os.cpu_count() or 1)  # each waits for one block at a time
_FLOW: Any = {"flow_run_name": given.run_name, "persist_result": False, "on_crashed": [start_again]}


def local_workers(options: RunOptions) -> AbstractContextManager[int]:
    """Provide the processes of this machine that compute blocks, and say how many blocks are to be under way.

    At `smoke` blocks take less time than processes need to start; they stay in the threads that ask.
    """
    count = options.workers or os.cpu_count() or 1
    return nullcontext(count) if options.profile == "smoke" else worker_processes(count)


@flow(name="study", task_runner=THREADS, **_FLOW)
@guarded
@with_options(given.on_form)
def run_study(**options: Any) -> dict[str, Any]:
    """Run one study from ingest to report, and return the path of the report.

    The parameters are those of `tasks.run_options.RunOptions`. From the command line `study` may also be the
    path of a study's file and `out` any folder.
    """
    asked = RunOptions(**options)
    given.check_studies(asked.study)
    given.tag_with_profile(asked.profile)
    run_at_most(asked.workers)
    spec = find_study(asked.study)
    check_cell(spec, asked.refresh_task, asked.refresh_cell, asked.profile)
    tasks, stored = PrefectTasks(), StoredResults()
    folder = given.reports_folder(asked.out, spec.name)
    if asked.out and from_server():
        asked = asked.model_copy(update={"out": f"reports/out/{asked.out}"})
    reports = folder_of_run(folder, spec.name, asked.profile)
    if reports != folder:
        say(f"note: {folder} has a richer report of {spec.name}; this one goes to {reports}")
    steps = StudySteps(spec, reports, asked, tasks, given.TYPED.get())
    last = last_results(steps.folder, {"profile": asked.profile, "replicates": steps.replicates})
    # A task with the run's tags would ask the server whether they limit how many run at once, and wait.
    untagged = TagsContext(current_tags=set())
    workers = local_workers(asked) if from_server() else nullcontext()  # a command provides them itself
    with exclusive_run(home()), untagged, workers:
        try:  # what is all stored needs no task runs: they would be most of the server's history
            done = StudySteps(spec, reports, asked, stored, given.TYPED.get()).run()
            stored.tell()
        except NotStored:
            done = steps.run()
        show_drift(spec, steps.folder, last)
    attach_report(spec, done.report, done.headline)
    attach_budget(spec, done.report, done.results, done.headline_cells)
    return {**done.shown(), "flow_run_id": str(runtime.flow_run.id), "n_task_runs": tasks.n_runs}


@flow(name="rerun", task_runner=THREADS, **_FLOW)
@guarded
@with_options(given.on_form, "study", *OF_LAST_RUN, "offline", "out", "workers", last=OF_LAST_RUN)
def run_part(
    *, study: str, task: given.TaskChoice, cell: given.CellKey = None, **options: Any
) -> dict[str, Any]:
    """Repeat the last run of a study but for one task or cell, and return where the report lies.

    The parameters are those of :func:`run_study`; what is not given is the last run's.
    """
    given.check_studies(study)
    out = options["out"]
    folder = str(given.reports_folder(out)) if out else None
    asked, command = rerun_options(study, task, cell, options | {"out": folder})
    given.TYPED.set(command)
    return dict(run_study.fn(**asked.model_copy(update={"out": out}).model_dump()))


@flow(name="report", **_FLOW)
@guarded
@with_options(given.on_form, "out")
def run_report(
    studies: given.ReportChoices = [],  # noqa: B006 (a tuple is no default of the server's form)
    *,
    out: str | None,
) -> dict[str, Any]:
    """Write the reports of studies again, of all that have results if none is named; return the index."""
    given.check_studies(*studies)
    with exclusive_run(home()):
        index, rebuilt = rebuild_reports(studies or None, str(given.reports_folder(out)))
    return {"index": str(index), "rebuilt": rebuilt}


@flow(name=SCORECARD, **_FLOW)
@guarded
@with_options(given.on_form, "profile", "seed", "out")
def run_scorecard(**options: Any) -> dict[str, Any]:
    """Judge every claim on the results in ``out``, and return the path of the scorecard.

    The parameters are those of :func:`run_study`; nothing is computed here but the verdicts, so that
    ``profile`` and ``seed`` are for the record.
    """
    asked, tasks = RunOptions(study=SCORECARD, **options), PrefectTasks()
    with exclusive_run(home()):
        done = judged(given.reports_folder(asked.out, SCORECARD), tasks, asked, given.TYPED.get())
    return {**done.shown(), "flow_run_id": str(runtime.flow_run.id), "n_task_runs": tasks.n_runs}


@flow(name="ingest", **_FLOW)
@guarded
@with_options(given.on_form, "offline")
def run_ingest(
    datasets: given.DatasetChoices = [],  # noqa: B006 (a tuple is no default of the server's form)
    again: given.Again = False,
    *,
    offline: bool,
) -> dict[str, Any]:
    """Fetch datasets into the store, all if none is named, and return the paths of their tables.

    With `again` they are fetched anew, whatever is stored; `offline` never uses the network.
    """
    with exclusive_run(home()):
        tables = list(bring_datasets(datasets, PrefectTasks().bring, again, offline))
    create_table_artifact(
        key="ingest",
        table=[
            {
                "dataset": table.name,
                "rows": table.n_rows,
                "of": table.rows_read,
                "source": table.data_source,
                "left out": dropped_rows(table),
                "why not real": "; ".join(table.reasons),
            }
            for table in tables
        ],
        description="The datasets in the store",
    )
    return {table.name: table.path for table in tables}
