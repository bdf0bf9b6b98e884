"""Compute a block: the one place where estimators meet data."""

import time
from typing import Any

import numpy as np
import pandas as pd

import dpalgos
from tasks.cells import Block, Cell, derive_seed
from tasks.problem import Draw, Prepared
from tasks.problems import problem_of

METRIC = "l2_error"
LOG_METRIC = "log_squared_error"  # natural; what paper B plots

Selected = dict[str, dict[str, int]]  # by cell: how often each column was selected


def compute_block(
    block: Block,
    design: Prepared | None = None,
    only: str | None = None,
    selected: Selected | None = None,
) -> pd.DataFrame:
    """Run every cell of a block.

    Parameters
    ----------
    block : Block
    design : Design, GroupDifference or Frames, optional
        The block's design, where its problem is about a dataset.
    only : str, optional
        Key of the one cell to run.
    selected : dict, optional
        Filled with how often each column was selected, where the problem has columns to tell of.

    Returns
    -------
    DataFrame
        Rows of the results table, in the order of the cells.
    """
    problem = problem_of(block)
    sparsity = problem.sizes(block.n).get("s", pd.NA)
    cells = [cell for cell in block.cells if only in (None, cell.key)]
    rows: dict[str, list[pd.DataFrame]] = {cell.key: [] for cell in cells}
    of_a_glm = any(dpalgos.get_estimator(cell.estimator).task == "glm" for cell in block.cells)
    logs = of_a_glm and problem.metric == METRIC
    for draw in problem.draws(block, design):
        for cell in cells:
            s = sparsity if cell.s is None else cell.s
            measured = _run_cell(cell, block, draw, s, problem.metric, selected)
            rows[cell.key] += [measured, _log_squared(measured)] if logs else [measured]
    return pd.concat([part for cell in cells for part in rows[cell.key]], ignore_index=True)


def _run_cell(
    cell: Cell, block: Block, draw: Draw, sparsity: object, metric: str, selected: Selected | None
) -> pd.DataFrame:
    seed = derive_seed(block.seed, block.study, cell.key)
    unknown = {metric: np.full(draw.replicates, np.nan)}
    measured, certified = unknown, np.nan
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
        measured = draw.metrics(result.estimate)
        certified = result.certified_epsilon
        if selected is not None and (counts := draw.selection(result.estimate)):
            selected[cell.key] = counts
    except dpalgos.InputError as error:
        status, message = "refused", str(error)
    except Exception as error:  # a failing cell must neither stop the others nor print what it held
        status, message = "failed", f"{type(error).__name__} in {cell.estimator}"
    seconds = (time.perf_counter() - start) / draw.replicates
    if status == "ok" and not np.isfinite(measured[metric]).all():
        status, message, measured = "failed", "the estimate is not finite", unknown
    return pd.concat(
        [
            pd.DataFrame(
                {
                    **_labels(cell, block),
                    "d": draw.sample.n_features,
                    "s": sparsity,
                    "certified_epsilon": certified,
                    "replicate": draw.first + np.arange(draw.replicates),
                    "seed": seed,
                    "metric": name,
                    "value": values,
                    "seconds": seconds,
                    "status": status,
                    "message": message,
                }
            )
            for name, values in measured.items()
        ],
        ignore_index=True,
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
