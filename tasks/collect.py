"""The task that collects the results table of a study."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed

from tasks.cache import CachedFile, digest, is_again
from tasks.report.manifest import StudyResults, results_at
from tasks.run import collect as run


@task(task_run_name="collect results", cache_policy=NO_CACHE)
def collect(parts: Sequence[CachedFile], audits: Sequence[CachedFile], folder: Path) -> Any:
    """Write the results table of blocks and audits, unless the folder's manifest says that it has it."""
    made_of = digest([run.__name__], [part.name for part in (*parts, *audits)])
    if (there := results_at(folder, made_of)) and not is_again("collect"):
        return Completed(name="Cached", data=replace(there, parts=tuple(parts)))
    rows, bounds = ([part.stored_path() for part in those] for those in (parts, audits))
    return StudyResults(folder / run.RESULTS, run.write_results(rows, bounds, folder), made_of, tuple(parts))
