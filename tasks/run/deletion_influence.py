"""How far deleting influential rows moves a non-private answer, as rows of the results table."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tasks.problems.abilities import DeletesRows
from tasks.study.block import Block

METRIC = "deletion_shift"


def compute_limit(block: Block, prepared: Any, n_deleted: Sequence[int]) -> pd.DataFrame:
    """Return how far deleting the most influential rows moves the answer from everybody, without privacy."""
    problem, replicates = block.problem, block.replicates
    assert isinstance(problem, DeletesRows)  # checked when the study file was read
    estimator, shifts = problem.deletion_shifts(prepared, n_deleted)
    n, d = prepared.X.shape
    return pd.DataFrame(
        [
            {
                "study": replicates.study,
                "panel": replicates.panel,
                "dataset": problem.source,
                "data_source": block.data_source,
                "estimator": estimator,
                "form": "",
                "steps": pd.NA,
                "cell": f"{estimator}:{replicates.panel}:deleted={deleted}",
                "calibration": "none",
                "privacy_model": "none",
                "epsilon": np.nan,
                "delta": np.nan,
                "delta_rule": "",
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
                "status": "ok",
                "message": "",
            }
            for deleted, shift in shifts.items()
        ]
    )
