"""Run a block of cells, or one cell of it, and store its rows."""

import hashlib
import json
import os
import socket
from pathlib import Path
from typing import Any

import pandas as pd
from prefect import task

from data.store.folders import atomic_write, home
from reports.analysis.results import selections_path, timings_path, to_parquet_bytes, validate_results
from tasks.cache.keys import CacheKey
from tasks.cache.policy import BY_KEY
from tasks.cache.records import Record, brought, written
from tasks.faults import guarded
from tasks.problems.problem import DatasetProblem
from tasks.run.block import Selected, compute_block
from tasks.run.deletion_influence import compute_limit
from tasks.run.memory import room_for
from tasks.run.remote import computed
from tasks.run.threads import one_blas_thread
from tasks.study.block import Block


@task(name="run_block", task_run_name="{block.title}", **BY_KEY)
@guarded
def run_block(
    key: CacheKey, block: Block, design: Record | None, path: str, only: str | None = None
) -> Record:
    """Write a block's rows to ``path`` below the home and return their record; simulated data need no design.

    With ``only``, the one cell of that key is computed and takes its place among the rows stored there.
    Beside the rows lie measured times and, where the problem tells, which columns were selected how often.
    The record says what ran, where and for how long.
    """
    return computed(_stored_block, key, block, design, path, only)


@guarded
def _stored_block(key: CacheKey, block: Block, design: Record | None, path: str, only: str | None) -> Record:
    """Compute a block and write its files, on this machine or on a Dask worker's."""
    one_blas_thread()
    key.require_same_code()
    problem, target = block.problem, home() / path
    choices = selections_path(target)
    selected: Selected = json.loads(choices.read_bytes()) if only and choices.exists() else {}
    parts: list[pd.DataFrame] = []
    with room_for(problem.n_bytes(block.replicates.n)):
        prepared = _loaded(block, design)
        rows = compute_block(block, prepared, only, selected, parts)
    times = pd.concat(parts)
    seconds = float(times["seconds"].sum())
    if only is not None:
        rows = _among_stored(rows, target, block, only)
        times = _among_stored(times, timings_path(target), block, only)
    beside = {timings_path(target): to_parquet_bytes(times)}
    if selected:
        beside[choices] = json.dumps(selected, sort_keys=True).encode()
    for file, content in beside.items():
        atomic_write(file, content)
    digests = {file.name: hashlib.sha256(content).hexdigest() for file, content in beside.items()}
    rows = validate_results(rows)
    made = {
        "what": f"{block.replicates.study} {block.title}",
        "host": socket.gethostname(),
        "process": os.getpid(),
    }
    return written(key, target, to_parquet_bytes(rows), seconds=seconds, made=made, beside=digests)


def _loaded(block: Block, design: Record | None) -> Any:
    problem = block.problem
    return problem.load(brought(design)) if design and isinstance(problem, DatasetProblem) else None


def _among_stored(rows: pd.DataFrame, path: Path, block: Block, only: str) -> pd.DataFrame:
    """Return the stored rows with those of one cell replaced."""
    stored = pd.read_parquet(path)
    order = {cell.key: place for place, cell in enumerate(block.cells)}
    together = pd.concat([stored[stored["cell"] != only], rows])
    return together.sort_values("cell", key=lambda keys: keys.map(order), kind="stable")


@task(name="data_limit", task_run_name="data_limit {block.problem.source}", **BY_KEY)
@guarded
def data_limit(key: CacheKey, block: Block, design: Record, path: str, n_deleted: list[int]) -> Record:
    """Return the record of how far deleting the most influential rows moves the non-private answer."""
    one_blas_thread()
    rows = compute_limit(block, _loaded(block, design), n_deleted)
    return written(key, home() / path, to_parquet_bytes(validate_results(rows)))
