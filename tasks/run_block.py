"""Run a block of cells, or one cell of it, and store its rows."""

from typing import Any

import pandas as pd
from prefect import task
from threadpoolctl import threadpool_limits

from data.store import home
from reports.results import to_parquet_bytes, validate_results
from tasks.block import compute_block
from tasks.cells import Block
from tasks.limit import compute_limit
from tasks.policy import BY_KEY
from tasks.prepare import load_design
from tasks.records import Record, written


@task(name="run_block", **BY_KEY)
def run_block(key: str, block: dict[str, Any], design: Record, only: str | None = None) -> Record:
    """Return the record of a block's rows.

    With ``only``, the one cell of that key is computed and takes its place among the stored rows.
    """
    spec, path = Block.from_dict(block), home() / "cache" / "blocks" / f"{key}.parquet"
    if not path.exists():
        only = None
    with threadpool_limits(1):
        rows = compute_block(spec, load_design(design["path"]), only)
    seconds = float(rows["seconds"].sum())
    if only is not None:
        stored = pd.read_parquet(path)
        order = {cell.key: place for place, cell in enumerate(spec.cells)}
        rows = pd.concat([stored[stored["cell"] != only], rows])
        rows = rows.sort_values("cell", key=lambda keys: keys.map(order), kind="stable")
    return written(path, to_parquet_bytes(validate_results(rows)), seconds=seconds)


@task(name="data_limit", **BY_KEY)
def data_limit(key: str, block: dict[str, Any], design: Record, n_deleted: list[int]) -> Record:
    """Return the record of how far deleting the most influential rows moves the non-private answer."""
    spec = Block.from_dict(block)
    with threadpool_limits(1):
        rows = compute_limit(
            spec.study, spec.dataset, spec.data_source, load_design(design["path"]), n_deleted
        )
    return written(home() / "cache" / "blocks" / f"{key}.parquet", to_parquet_bytes(validate_results(rows)))
