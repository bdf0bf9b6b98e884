"""Collect the rows of all blocks into one results table."""

import hashlib
from pathlib import Path

import pandas as pd
from prefect import task

from data.store.folders import atomic_write
from reports.analysis.results import timings_path, to_parquet_bytes, validate_results
from tasks.cache.keys import CacheKey
from tasks.cache.policy import BY_KEY
from tasks.cache.records import Record, brought, written
from tasks.faults import guarded
from tasks.run.audit_cell import with_audits


@task(name="collect", task_run_name="collect results", **BY_KEY)
@guarded
def collect(key: CacheKey, parts: list[Record], audits: list[Record], out: str) -> Record:
    """Write ``results.parquet`` from the parts, in their order, and the audits; return its record.

    The times that were measured go into ``timings.parquet`` beside it: they alone differ between two runs.
    """
    files = [brought(part) for part in parts]
    rows = pd.concat(map(pd.read_parquet, files), ignore_index=True)
    rows = validate_results(with_audits(rows, audits))
    measured = [
        timings_path(file)
        for part, file in zip(parts, files, strict=True)
        if timings_path(file).name in part.get("beside", {})
    ]
    times = to_parquet_bytes(pd.concat(map(pd.read_parquet, measured)))
    atomic_write(Path(out) / "timings.parquet", times)
    beside = {"timings.parquet": hashlib.sha256(times).hexdigest()}
    return written(key, Path(out) / "results.parquet", to_parquet_bytes(rows), rows=len(rows), beside=beside)
