"""The flows: run a study, repeat a part of it, write its report, run the scorecard, ingest data."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.context import TagsContext
from prefect.task_runners import ThreadPoolTaskRunner

from data.errors import Unreachable
from data.store.folders import home
from flows.artifacts import attach_report
from flows.lock import exclusive_run
from flows.progress import finished, log_in_run, say
from flows.studies import parameters
from flows.studies.find_study import find_study
from flows.studies.results import headline_of, print_headline, rebuild_reports, rerun_options
from flows.unfinished import start_again
from tasks.blocks import exhibits_of, prepare, run_audits, run_blocks
from tasks.cache import computed_again
from tasks.errors import guarded
from tasks.ingest import bring, bring_datasets
from tasks.report.write import write_index
from tasks.reporting import collect, render
from tasks.run.datasets import notes_on
from tasks.run_options import RunOptions, TaskName
from tasks.study.spec import SCORECARD
from tasks.workers import local_workers

THREADS: Any = ThreadPoolTaskRunner(max_workers=os.cpu_count() or 1)  # each waits for one block at a time
_STARTED_AGAIN: Any = {"on_crashed": [start_again]}


@flow(name="study", flow_run_name="{study} {options.profile}", task_runner=THREADS, **_STARTED_AGAIN)
@guarded
def study(study: parameters.StudyName, options: RunOptions = parameters.STANDARD) -> Path:
    """Run one study from ingest to report, and return the path of the report.

    Args:
        study: Name of the study; from the command line also the path of a study file.
        options: Amount of computation, and the report folder.
    """
    with workers_of_run(options):
        return run_study(study, options)


@flow(name="studies", flow_run_name="{options.profile}", task_runner=THREADS)
@guarded
def studies(studies: list[str], options: RunOptions) -> None:
    """Run several studies one after another; one that fails or lacks its data does not stop the others."""
    failures = list[tuple[str, Exception]]()
    with workers_of_run(options):
        for study in studies:
            try:
                run_study(study, options)
            except Unreachable as error:
                say(f"note: {study} did not run: {error}")
            except Exception as error:
                failures.append((study, error))
    for failed, _ in failures[1:]:
        say(f"note: {failed} failed as well; run it alone to see the reason")
    if failures:
        raise failures[0][1]


@contextmanager
def workers_of_run(options: RunOptions) -> Iterator[None]:
    """Hold the home's run lock, and provide the workers that compute the blocks."""
    # A task with the run's tags would ask the server whether they limit how many run at once, and wait.
    untagged = TagsContext(current_tags=set())
    with (
        exclusive_run(home()),
        untagged,
        local_workers(options.workers, in_threads=options.profile == "smoke"),
    ):
        yield


def run_study(study: str, options: RunOptions) -> Path:
    """Ingest and prepare the data of a study, compute its blocks, and write and show its report."""
    spec, run = find_study(study), parameters.run_of(study, options)
    folder = parameters.report_folder(spec, options)
    found = {name: bring(spec, name, options) for name in spec.datasets_at(options.profile)}
    notes = list(notes_on(spec, found))
    for note in notes:
        say(f"note: {note}")
    notes = [] if spec.analyst_table else notes  # a team may share the server
    for note in notes:
        log_in_run(note)
    spec, tables = spec.on(found)  # unavailable data are left out and named
    designs = {
        panel.name: prepare(problem, tables[problem.source], panel.name, return_state=True).result()
        for panel, problem in spec.panels_on_data(options.profile)
    }
    sources = {name: table.data_source for name, table in tables.items()}
    blocks = spec.blocks(options.profile, replicates=options.reps, seed=options.seed, data_sources=sources)
    submitted = time.monotonic()
    futures, audit_futures = run_blocks(blocks, designs), run_audits(spec, blocks, options)
    parts = finished(futures, [block.work for block in blocks], submitted)
    audits = [future.result() for future in audit_futures]
    stored = sum(future.state.name == "Cached" for future in futures)
    run = replace(run, n_computed=len(parts) - stored, n_stored=stored)
    results = collect(parts, audits, folder, return_state=True).result()
    exhibits = exhibits_of(spec, tables, designs, blocks, parts)
    page: Path = render(spec, run, tables, results, exhibits, return_state=True).result()
    write_index(folder.parent)
    attach_report(spec, page, headline_of(page), notes)
    print_headline(page)
    return page


_study = study


@flow(name="rerun", flow_run_name="{study}: {task} again", task_runner=THREADS)
@guarded
def rerun(
    study: parameters.StudyName,
    task: TaskName,
    cell: parameters.CellKey = None,
    out: parameters.Folder = None,
    offline: bool = False,
) -> Path:
    """Repeat the last run of a study, computing one task, or the block of one cell, again.

    Args:
        study: The study.
        task: The task to run again; tasks that depend on it follow.
        cell: For the task run_block, the cell whose block runs again, from the column cell of summary.csv.
            Default: all blocks.
        out: The folder below reports/out that has the last run; reports/out by default.
        offline: No network access.
    """
    parameters.check_studies(study)
    options, command = rerun_options(
        study, task, cell, parameters.reports_folder(out), out=out, offline=offline
    )
    parameters.TYPED.set(command)
    with computed_again(task, cell):
        return _study(study, options)


@flow(name="report")
@guarded
def report(studies: parameters.StudyNames = [], out: parameters.Folder = None) -> Path:  # noqa: B006 (of the form)
    """Write the reports of studies again from stored results, and return the index.

    Args:
        studies: The studies; default: all with results.
        out: The folder below reports/out that has them; reports/out by default.
    """
    parameters.check_studies(*studies)
    return rebuild_reports(studies or None, parameters.reports_folder(out))[0]


@flow(name=SCORECARD)
@guarded
def scorecard(out: parameters.Folder = None) -> Path:
    """Evaluate every claim on the results in a report folder; return the path of the scorecard.

    Args:
        out: The folder below reports/out that has them; reports/out by default.
    """
    from flows.studies.scorecard import write_scorecard  # a study needs none of it

    return write_scorecard(parameters.reports_folder(out, SCORECARD))


@flow(name="ingest")
@guarded
def ingest(
    datasets: parameters.Datasets = [],  # noqa: B006 (of the form)
    again: bool = False,
    offline: bool = False,
) -> list[Path]:
    """Download datasets into the store, and return the paths of their tables.

    Args:
        datasets: The datasets; default: all.
        again: Download and convert again; stored data are kept if the download fails.
        offline: No network access.
    """
    with exclusive_run(home()):
        return [Path(table.path) for table in bring_datasets(datasets, again=again, offline=offline)]
