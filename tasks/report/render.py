"""Render the report of a run."""

from typing import Any

from data.store.references import DatasetRef
from tasks.cache.keys import CacheKey
from tasks.cache.records import Record, located
from tasks.faults import guarded
from tasks.report.manifest import build_manifest
from tasks.report.write import write_report
from tasks.study.spec import StudySpec


@guarded
def render(
    key: CacheKey, spec: StudySpec, tables: list[DatasetRef], results: Record, context: dict[str, Any]
) -> Record:
    """Write the report next to its results table; return the manifest's record with the headline."""
    return write_report(spec, located(results), build_manifest(spec, tables, results, context), key)
