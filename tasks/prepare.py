"""The task that prepares a panel's dataset, once for all of its blocks."""

from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed

from data.store.references import DatasetRef
from tasks.cache import CachedFile, is_again, result
from tasks.problems.kinds import modules_of
from tasks.problems.problem import DatasetSource
from tasks.run import compute


@task(task_run_name="prepare {table.name} {panel}", cache_policy=NO_CACHE)
def prepare(problem: DatasetSource, table: DatasetRef, panel: str) -> Any:
    """Prepare a dataset for the problem of a panel, unless that is stored."""
    design = design_of(problem, table)
    if design.is_stored() and not is_again("prepare"):
        return Completed(name="Cached", data=design)
    compute.write_design(design, problem, table)
    return design


def design_of(problem: DatasetSource, table: DatasetRef) -> CachedFile:
    """Return the file of a problem's prepared dataset."""
    columns = [each.unit_facts for each in problem.columns()]
    code = [compute.__name__, *modules_of(problem)]
    plain = problem.model_dump(mode="json")
    return result("design", code, table.sha256, plain, columns, suffix=".npz")
