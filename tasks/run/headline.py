"""What a study computes at its headline in addition to its cells: exhibits, deletions of rows, audits."""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from data.store.folders import home
from data.store.references import DatasetRef
from reports.analysis.results import (
    COLUMNS,
    DELETION_SHIFT,
    EXHIBITS,
    selections_path,
    to_parquet_bytes,
    validate_results,
)
from tasks.cache import CacheKey, Record, brought, located, written
from tasks.cells import Cell, derive_seed
from tasks.errors import guarded
from tasks.problems.problem import Block, DeletesRows, HeadlineRun
from tasks.run.block import load_prepared
from tasks.run.resources import computed, one_blas_thread

_WITHOUT_PRIVACY = {
    **dict.fromkeys(COLUMNS, np.nan),
    **dict.fromkeys(("form", "delta_rule", "message"), ""),
    **dict.fromkeys(("calibration", "privacy_model"), "none"),
    "replicate": 0,
    "status": "ok",
    "metric": DELETION_SHIFT,
}


@guarded
def data_limit(key: CacheKey, block: Block, design: Record, path: str, n_deleted: list[int]) -> Record:
    """Return the record of how far deleting the most influential rows moves the non-private answer."""
    one_blas_thread()
    rows = deletion_limit(block, load_prepared(block.problem, design), n_deleted)
    return written(key, home() / path, to_parquet_bytes(validate_results(rows)))


def deletion_limit(block: Block, prepared: Any, n_deleted: Sequence[int]) -> pd.DataFrame:
    """Return how far deleting the most influential rows moves the answer from all rows, without privacy."""
    problem, replicates = block.problem, block.replicates
    assert isinstance(problem, DeletesRows)  # checked when the study file was read
    estimator, shifts = problem.deletion_shifts(prepared, n_deleted)
    same = {
        **_WITHOUT_PRIVACY,
        "study": replicates.study,
        "panel": replicates.panel,
        "dataset": problem.source,
        "data_source": block.data_source,
        "estimator": estimator,
        "n": prepared.X.shape[0],
        "d": prepared.X.shape[1],
    }
    cell = f"{estimator}:{replicates.panel}:deleted"
    return pd.DataFrame(
        [{**same, "cell": f"{cell}={deleted}", "value": shift} for deleted, shift in shifts.items()]
    )


@guarded
def exhibit(
    key: CacheKey,
    block: Block,
    table: DatasetRef | None,
    design: Record | None,
    parts: list[Record],
    out: str,
) -> Record:
    """Write the exhibits of a block's problem; ``parts`` are the records of the panel's blocks."""
    one_blas_thread()
    run = HeadlineRun(
        table=table,
        design=brought(design) if design else None,
        replicates=block.replicates,
        cells=block.cells,
        selected=_selected(parts),
    )
    content = json.dumps(block.problem.exhibits(run), sort_keys=True).encode()
    return written(key, Path(out) / EXHIBITS, content)


def headline_block(blocks: Sequence[Block], n: int, private: Sequence[Cell]) -> Block:
    nearest = min(blocks, key=lambda block: abs(block.replicates.n - n))
    without = [cell for cell in nearest.cells if cell.calibration == "none"]
    return replace(nearest, cells=(*without, *private))


def _selected(parts: list[Record]) -> dict[str, dict[str, int]]:
    total: dict[str, Counter[str]] = defaultdict(Counter)
    for part in parts:
        path = selections_path(located(part))
        if path.name in part.get("attached", {}):
            for cell, counts in json.loads(path.read_bytes()).items():
                total[cell].update(counts)
    return {cell: dict(counts) for cell, counts in total.items()}


@guarded
def audit(key: CacheKey, cell: Cell, n_features: int, n_trials: int, seed: int, path: str) -> Record:
    """Return the record of a lower bound on the ε of a cell's estimator, from data of the audit's own."""
    return computed(0, _stored_audit, key, cell, n_features, n_trials, seed, path)


@guarded
def _stored_audit(key: CacheKey, cell: Cell, n_features: int, n_trials: int, seed: int, path: str) -> Record:
    from dpalgos.audit.lower_bound import audit_estimator  # not at `smoke`, and it loads hardened noise

    one_blas_thread()
    key.require_same_code()
    audited = audit_estimator(
        cell.estimator,
        n_trials=n_trials,
        n_features=n_features,
        rng=np.random.default_rng(derive_seed(seed, "audit", cell.key)),
        **cell.keywords(),
    )
    bound = audited.epsilon_lower_bound
    body = json.dumps({"cell": cell.key, **audited.to_dict()}, indent=1)
    return written(key, home() / path, body.encode(), cell=cell.key, audited_epsilon=bound)
