"""The tasks that collect the results table of a study, and write its report."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed

from tasks.cache import CachedFile, digest, is_again
from tasks.errors import guarded
from tasks.report.manifest import RunOfStudy, StudyResults, build_manifest, report_at, results_at
from tasks.report.write import write_report as write
from tasks.run import collect as run
from tasks.run.datasets import Tables
from tasks.study.spec import StudySpec


@task(task_run_name="collect results", cache_policy=NO_CACHE)
def collect(parts: Sequence[CachedFile], audits: Sequence[CachedFile], folder: Path) -> Any:
    """Write the results table of blocks and audits, unless the folder's manifest says that it has it."""
    made_of = digest([run.__name__], [part.name for part in (*parts, *audits)])
    if (there := results_at(folder, made_of)) and not is_again("collect"):
        return Completed(name="Cached", data=there)
    rows, bounds = ([part.stored_path() for part in those] for those in (parts, audits))
    return StudyResults(folder / run.RESULTS, run.write_results(rows, bounds, folder), made_of)


@task(task_run_name="render {spec.name}", cache_policy=NO_CACHE)
@guarded
def render(
    spec: StudySpec, about: RunOfStudy, tables: Tables, results: StudyResults, exhibits: CachedFile
) -> Any:
    """Write the page and its files next to the results, unless the manifest says that they are there."""
    folder = results.path.parent
    if (page := report_at(folder, spec, about.options, tables)) and not is_again("render"):
        return Completed(name="Cached", data=page)
    manifest = build_manifest(spec, about, tables, results)
    return write(spec, results.path, manifest, exhibits.stored_path().read_bytes())
