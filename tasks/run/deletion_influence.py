"""The data's own limit as rows of the results table: research only, computed without privacy."""

import time

import numpy as np
import pandas as pd

from data.group_difference import GroupDifference
from data.table_design import Design
from dpalgos.audit.deletion_shifts import deletion_shifts, difference_deletion_shifts
from tasks.problems.base import Prepared
from tasks.work_units import Block

METRIC = "deletion_shift"


def compute_limit(block: Block, design: Prepared, n_deleted: list[int]) -> pd.DataFrame:
    """Return how far deleting the most influential rows moves the answer from everybody, without privacy."""
    start = time.perf_counter()
    if isinstance(design, Design):
        estimator, shifts = "ols", deletion_shifts(design.X, design.y, design.to_z, n_deleted)
    else:
        assert isinstance(design, GroupDifference)
        estimator, shifts = "sample_mean", _difference_shifts(design, n_deleted)
    seconds = (time.perf_counter() - start) / len(shifts)
    n, d = design.X.shape
    return pd.DataFrame(
        [
            {
                "study": block.study,
                "dataset": block.dataset,
                "data_source": block.data_source,
                "estimator": estimator,
                "variant": block.panel,
                "cell": f"{estimator}:{block.panel}:deleted={deleted}",
                "calibration": "none",
                "privacy_model": "none",
                "epsilon": np.nan,
                "delta": np.nan,
                "certified_epsilon": np.nan,
                "estimator_epsilon": np.nan,
                "audited_epsilon": np.nan,
                "n": n,
                "d": d,
                "s": pd.NA,
                "replicate": 0,
                "seed": pd.NA,
                "metric": METRIC,
                "value": shift,
                "seconds": seconds,
                "status": "ok",
                "message": "",
            }
            for deleted, shift in shifts.items()
        ]
    )


def _difference_shifts(design: GroupDifference, n_deleted: list[int]) -> dict[int, float]:
    """Undo the coding of the rows, ±2(g − 1), and compare the groups."""
    counts = design.X / 2
    return difference_deletion_shifts(counts[: design.sizes[0]], -counts[design.sizes[0] :], n_deleted)
