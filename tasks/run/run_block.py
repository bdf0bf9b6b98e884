"""Run a block of cells, or one cell of it, and store its rows."""

import json
import os
import socket
from pathlib import Path

import pandas as pd

from data.store.folders import home
from reports.analysis.results import selections_path, timings_path, to_parquet_bytes, validate_results
from tasks.cache.keys import CacheKey
from tasks.cache.records import Record, written
from tasks.faults import guarded
from tasks.run.block import Selected, compute_block
from tasks.run.prepare import load_prepared
from tasks.run.resources import computed, one_blas_thread, room_for
from tasks.study.block import Block


@guarded
def run_block(
    key: CacheKey, block: Block, design: Record | None, path: str, only: str | None = None
) -> Record:
    """Write a block's rows to ``path`` below the home, or ``only`` one cell's among those stored there."""
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
        prepared = load_prepared(problem, design)
        rows = compute_block(block, prepared, only, selected, parts)
    times = pd.concat(parts)
    seconds = float(times["seconds"].sum())
    if only is not None:
        rows = _among_stored(rows, target, block, only)
        times = _among_stored(times, timings_path(target), block, only)
    beside = {timings_path(target).name: to_parquet_bytes(times)}
    if selected:
        beside[choices.name] = json.dumps(selected, sort_keys=True).encode()
    what = f"{block.replicates.study} {block.title}"
    made = {"what": what, "host": socket.gethostname(), "process": os.getpid()}
    content = to_parquet_bytes(validate_results(rows))
    return written(key, target, content, beside, seconds=seconds, made=made)


def _among_stored(rows: pd.DataFrame, path: Path, block: Block, only: str) -> pd.DataFrame:
    stored = pd.read_parquet(path)
    order = {cell.key: place for place, cell in enumerate(block.cells)}
    together = pd.concat([stored[stored["cell"] != only], rows])
    return together.sort_values("cell", key=lambda keys: keys.map(order), kind="stable")
