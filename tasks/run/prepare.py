"""Prepare the data of a panel once, for all its blocks."""

from typing import Any

from data.store.folders import home
from data.store.references import DatasetRef
from tasks.cache import CacheKey, Record, brought, written
from tasks.faults import guarded
from tasks.problems.problem import Problem, ReadsTable


@guarded
def prepare(key: CacheKey, problem: ReadsTable, table: DatasetRef) -> Record:
    """Prepare a panel's dataset, and return the record of the file."""
    suffix, content = problem.prepare(table)
    return written(key, home() / "cache" / "designs" / f"{key}{suffix}", content)


def load_prepared(problem: Problem, design: Record | None) -> Any:
    """Return what `prepare` stored, as the problem draws from it; None for simulated data."""
    if design is None:
        return None
    assert isinstance(problem, ReadsTable)
    return problem.load(brought(design))
