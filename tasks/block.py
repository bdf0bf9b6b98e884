"""Compute a block: the one place where estimators meet data."""

import time
from typing import Any

import numpy as np
import pandas as pd

import dpalgos
from data.prepare import Design, draw_rows, full_sample_target
from tasks.cells import Block, Cell, derive_seed, row_generators

METRIC = "l2_error"


def compute_block(block: Block, design: Design, only: str | None = None) -> pd.DataFrame:
    """Run every cell of a block.

    Parameters
    ----------
    block : Block
    design : Design
        The block's design.
    only : str, optional
        Key of the one cell to run.

    Returns
    -------
    DataFrame
        Rows of the results table, in the order of the cells.
    """
    mask = draw_rows(len(design.X), block.n, row_generators(block))
    sample = dpalgos.Sample(design.X, design.y, row_mask=mask, n_replicates=block.replicates)
    target = full_sample_target(design)
    cells = [cell for cell in block.cells if only in (None, cell.key)]
    return pd.concat([_run_cell(cell, block, sample, design, target) for cell in cells], ignore_index=True)


def _run_cell(
    cell: Cell, block: Block, sample: dpalgos.Sample, design: Design, target: np.ndarray
) -> pd.DataFrame:
    seed = derive_seed(block.seed, block.study, cell.key)
    values, certified = np.full(block.replicates, np.nan), np.nan
    status, message = "ok", ""
    start = time.perf_counter()
    try:
        result = dpalgos.estimate(
            cell.estimator,
            sample,
            rng=np.random.default_rng(seed),
            replicates=block.replicates,
            **cell.keywords(),
        )
        coef = result.estimate.reshape(design.X.shape[1], block.replicates)
        values = np.linalg.norm(design.to_z @ coef - target[:, None], axis=0)
        certified = result.certified_epsilon
    except dpalgos.InputError as error:
        status, message = "refused", str(error)
    except Exception as error:  # a failing cell must neither stop the others nor print what it held
        status, message = "failed", f"{type(error).__name__} in {cell.estimator}"
    seconds = (time.perf_counter() - start) / block.replicates
    if status == "ok" and not np.isfinite(values).all():
        status, message = "failed", "the estimate is not finite"
        values = np.full(block.replicates, np.nan)
    return pd.DataFrame(
        {
            **_labels(cell, block, sample),
            "certified_epsilon": certified,
            "replicate": np.arange(block.replicates),
            "seed": seed,
            "metric": METRIC,
            "value": values,
            "seconds": seconds,
            "status": status,
            "message": message,
        }
    )


def _labels(cell: Cell, block: Block, sample: dpalgos.Sample) -> dict[str, Any]:
    estimator = dpalgos.get_estimator(cell.estimator)
    return {
        "study": block.study,
        "dataset": block.dataset,
        "data_source": block.data_source,
        "estimator": cell.estimator,
        "variant": cell.variant,
        "cell": cell.key,
        "calibration": cell.calibration,
        "privacy_model": estimator.privacy_model,
        "epsilon": np.nan if cell.epsilon is None else cell.epsilon,
        "delta": np.nan if cell.delta is None else cell.delta,
        "audited_epsilon": np.nan,
        "n": cell.n,
        "d": sample.n_features,
        "s": pd.NA,
    }
