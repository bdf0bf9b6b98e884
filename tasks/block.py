"""Compute a block: the one place where estimators meet data."""

import time
from typing import Any

import numpy as np
import pandas as pd

import dpalgos
from data.prepare import Design
from data.prepare_snp import GroupDifference
from tasks.cells import Block, Cell, derive_seed
from tasks.problems import Draw, problem_of

METRIC = "l2_error"
LOG_METRIC = "log_squared_error"  # natural; what paper B plots


def compute_block(
    block: Block, design: Design | GroupDifference | None = None, only: str | None = None
) -> pd.DataFrame:
    """Run every cell of a block.

    Parameters
    ----------
    block : Block
    design : Design or GroupDifference, optional
        The block's design, where its problem is about a dataset.
    only : str, optional
        Key of the one cell to run.

    Returns
    -------
    DataFrame
        Rows of the results table, in the order of the cells.
    """
    problem = problem_of(block)
    sparsity = problem.sizes(block.n).get("s", pd.NA)
    cells = [cell for cell in block.cells if only in (None, cell.key)]
    rows: dict[str, list[pd.DataFrame]] = {cell.key: [] for cell in cells}
    logs = any(dpalgos.get_estimator(cell.estimator).task == "glm" for cell in block.cells)
    for draw in problem.draws(block, design):
        for cell in cells:
            errors = _run_cell(cell, block, draw, sparsity)
            rows[cell.key] += [errors, _log_squared(errors)] if logs else [errors]
    return pd.concat([part for cell in cells for part in rows[cell.key]], ignore_index=True)


def _run_cell(cell: Cell, block: Block, draw: Draw, sparsity: object) -> pd.DataFrame:
    seed = derive_seed(block.seed, block.study, cell.key)
    values, certified = np.full(draw.replicates, np.nan), np.nan
    status, message = "ok", ""
    start = time.perf_counter()
    try:
        result = dpalgos.estimate(
            cell.estimator,
            draw.sample,
            rng=draw.generator(seed),
            replicates=draw.replicates,
            **cell.keywords(),
        )
        values = draw.errors(result.estimate)
        certified = result.certified_epsilon
    except dpalgos.InputError as error:
        status, message = "refused", str(error)
    except Exception as error:  # a failing cell must neither stop the others nor print what it held
        status, message = "failed", f"{type(error).__name__} in {cell.estimator}"
    seconds = (time.perf_counter() - start) / draw.replicates
    if status == "ok" and not np.isfinite(values).all():
        status, message = "failed", "the estimate is not finite"
        values = np.full(draw.replicates, np.nan)
    return pd.DataFrame(
        {
            **_labels(cell, block),
            "d": draw.sample.n_features,
            "s": sparsity,
            "certified_epsilon": certified,
            "replicate": draw.first + np.arange(draw.replicates),
            "seed": seed,
            "metric": METRIC,
            "value": values,
            "seconds": seconds,
            "status": status,
            "message": message,
        }
    )


def _log_squared(errors: pd.DataFrame) -> pd.DataFrame:
    """Return the same rows with the logarithm of the squared error."""
    return errors.assign(metric=LOG_METRIC, value=2 * np.log(errors["value"].where(errors["value"] > 0)))


def _labels(cell: Cell, block: Block) -> dict[str, Any]:
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
    }
