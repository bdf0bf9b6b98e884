"""The task that writes the report of a study."""

from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed

from tasks.cache import CachedFile, is_again
from tasks.errors import guarded
from tasks.report.manifest import RunOfStudy, StudyResults, build_manifest, report_at
from tasks.report.write import write_report as write
from tasks.run.datasets import Tables
from tasks.study.spec import StudySpec


@task(task_run_name="render {spec.name}", cache_policy=NO_CACHE)
@guarded
def render(
    spec: StudySpec, run: RunOfStudy, tables: Tables, results: StudyResults, exhibits: CachedFile
) -> Any:
    """Write the page and its files next to the results, unless the manifest says that they are there."""
    folder = results.path.parent
    if (page := report_at(folder, spec, run.options, tables)) and not is_again("render"):
        return Completed(name="Cached", data=page)
    manifest = build_manifest(spec, run, tables, results)
    return write(spec, results.path, manifest, exhibits.stored_path().read_bytes())
