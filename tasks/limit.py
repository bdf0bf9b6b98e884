"""The data's own limit as rows of the results table: research only, computed without privacy."""

import time

import numpy as np
import pandas as pd

from data.prepare import Design
from dpalgos.audit.influence import deletion_shifts

METRIC = "deletion_shift"


def compute_limit(
    study: str, dataset: str, data_source: str, design: Design, n_deleted: list[int]
) -> pd.DataFrame:
    """Return how far deleting the most influential rows moves full-sample least squares."""
    start = time.perf_counter()
    shifts = deletion_shifts(design.X, design.y, design.to_z, n_deleted)
    seconds = (time.perf_counter() - start) / len(shifts)
    n, d = design.X.shape
    return pd.DataFrame(
        [
            {
                "study": study,
                "dataset": dataset,
                "data_source": data_source,
                "estimator": "ols",
                "variant": design.variant,
                "cell": f"ols:{design.variant}:deleted={deleted}",
                "calibration": "none",
                "privacy_model": "none",
                "epsilon": np.nan,
                "delta": np.nan,
                "certified_epsilon": np.nan,
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
