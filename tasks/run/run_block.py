"""Run a block of cells, or one cell of it, and store its rows."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pandas as pd
from prefect import task

from data.store import atomic_write
from reports.results import to_parquet_bytes, validate_results
from tasks.cache.keys import CacheKey
from tasks.cache.policy import BY_KEY
from tasks.cache.records import Record, written
from tasks.faults import guarded
from tasks.run.block import Selected, compute_block
from tasks.run.deletion_influence import compute_limit
from tasks.run.memory import room_for
from tasks.run.threads import one_blas_thread
from tasks.work_units import Block


@task(name="run_block", **BY_KEY)
@guarded
def run_block(
    key: CacheKey, block: Block, design: Record | None, path: str, only: str | None = None
) -> Record:
    """Write a block's rows to ``path`` and return their record; simulated data need no design.

    With ``only``, the one cell of that key is computed and takes its place among the rows stored there.
    Which columns were selected how often is written beside the rows, where the problem tells.
    """
    one_blas_thread()
    problem = block.problem
    beside = Path(path).with_suffix(".selected.json")
    selected: Selected = json.loads(beside.read_bytes()) if only and beside.exists() else {}
    with room_for(problem.n_bytes(block.n)):
        prepared = problem.load(Path(design["path"])) if design else None
        rows = compute_block(block, prepared, only, selected)
    seconds = float(rows["seconds"].sum())
    if only is not None:
        stored = pd.read_parquet(path)
        order = {cell.key: place for place, cell in enumerate(block.cells)}
        rows = pd.concat([stored[stored["cell"] != only], rows])
        rows = rows.sort_values("cell", key=lambda keys: keys.map(order), kind="stable")
    facts: dict[str, Any] = {"seconds": seconds}
    if selected:
        content = json.dumps(selected, sort_keys=True).encode()
        atomic_write(beside, content)
        facts["beside"] = {beside.name: hashlib.sha256(content).hexdigest()}
    return written(key, Path(path), to_parquet_bytes(validate_results(rows)), **facts)


@task(name="data_limit", **BY_KEY)
@guarded
def data_limit(key: CacheKey, block: Block, design: Record, path: str, n_deleted: list[int]) -> Record:
    """Return the record of how far deleting the most influential rows moves the non-private answer."""
    one_blas_thread()
    rows = compute_limit(block, block.problem.load(Path(design["path"])), n_deleted)
    return written(key, Path(path), to_parquet_bytes(validate_results(rows)))
