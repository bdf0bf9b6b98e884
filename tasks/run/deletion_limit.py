"""How far deleting influential rows moves a non-private answer, as rows of the results table."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from data.store.folders import home
from reports.analysis.results import COLUMNS, DELETION_SHIFT, to_parquet_bytes, validate_results
from tasks.cache.keys import CacheKey
from tasks.cache.records import Record, written
from tasks.faults import guarded
from tasks.problems.abilities import DeletesRows
from tasks.run.prepare import load_prepared
from tasks.run.resources import one_blas_thread
from tasks.study.block import Block

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
