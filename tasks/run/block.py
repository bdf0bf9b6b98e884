"""Prepare the data of a panel once for all its blocks; compute a block of cells, or one cell of it."""

import json
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpalgos
from data.errors import StoreError
from data.store.folders import home
from data.store.references import DatasetRef
from data.store.shared import VARIABLE
from dpalgos.accounting.amplification import CENTRAL_NOTES
from reports.analysis.results import selections_path, timings_path, to_parquet_bytes, validate_results
from tasks.cache import CacheKey, Record, at_hand, brought, find_record, written
from tasks.cells import Cell
from tasks.errors import guarded
from tasks.problems.problem import Block, DatasetSource, Draw, Problem
from tasks.problems.public_rows import PUBLIC_SHAPE
from tasks.run.resources import computed, one_blas_thread, shares_of, threads_now

_MANY_COLUMNS = 500  # from which products with the rows are what takes time
_COLUMNS_PER_FIT = 10  # as many fits at once as make products fast and need little memory next to the rows

Selected = dict[str, dict[str, int]]  # by cell: how often each column was selected


def compute_block(
    block: Block,
    prepared: Any = None,
    only: str | None = None,
    selected: Selected | None = None,
    timings: list[pd.DataFrame] | None = None,
    tell: Callable[[float], object] = lambda share: None,
) -> pd.DataFrame:
    """Compute the results table of a block's cells, or of the cell with key ``only``.

    Fill ``selected`` and ``timings`` if they are given; call ``tell`` from time to time with the share that
    is done.
    """
    problem, replicates = block.problem, block.replicates
    cells = [cell for cell in block.cells if only in (None, cell.key)]
    outcomes: dict[str, list[_Outcome]] = {cell.key: [] for cell in cells}
    draws = problem.draws(replicates, prepared)
    del prepared  # rows that a draw has copied in another order need no memory any more
    for draw in draws:
        answered = _answered(block, draw, {cell.question for cell in cells}, tell)
        for cell in cells:
            outcome = answered[cell.question]
            outcomes[cell.key].append(outcome)
            if selected is not None and outcome.selected:
                selected[cell.key] = outcome.selected
    if timings is not None:
        timings.extend(_times(cell, block, outcomes[cell.key]) for cell in cells)
    parts = [_rows(cell, block, problem, outcomes[cell.key]) for cell in cells]
    rows = pd.DataFrame({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
    # What an estimator proves of prepared data is no guarantee where the data decided the preparation.
    alone = rows["estimator_epsilon"]
    return rows.assign(certified_epsilon=alone if problem.protected else alone.where(alone.isna(), np.inf))


@dataclass(frozen=True, eq=False)
class _Outcome:
    draw: Draw
    measured: np.ndarray | None  # None where there is no answer
    certified: float
    seconds: float
    status: str
    message: str
    selected: dict[str, int]
    reported: dict[str, float]  # metrics that the estimator reports of itself


def _answered(
    block: Block, draw: Draw, wanted: set[str], tell: Callable[[float], object]
) -> dict[str, "_Outcome"]:
    """Return the outcome of each wanted question.

    Where columns are many, cells run side by side, those of one estimator next to each other. What runs
    together follows from the block alone: rounding, and thus an answer, must not depend on what else is
    wanted.
    """
    asking: dict[str, Cell] = {}
    for cell in block.cells:
        asking.setdefault(cell.question, cell)
    wide = draw.sample.n_features >= _MANY_COLUMNS
    together = max(1, draw.sample.n_features // _COLUMNS_PER_FIT // draw.replicates) if wide else 1
    order = list(dict.fromkeys(cell.estimator for cell in asking.values()))
    answered: dict[str, _Outcome] = {}
    by_estimator = sorted(asking.values(), key=lambda cell: order.index(cell.estimator))
    for group in (by_estimator[i : i + together] for i in range(0, len(by_estimator), together)):

        def passed(n_passes: int, group: list[Cell] = group) -> None:
            """Tell which share is done; a fit of so many iterations makes about as many passes."""
            expected = max(cell.params.get("n_iterations", 1) for cell in group)
            part = len(answered) + len(group) * min(n_passes / expected, 1)
            done = draw.first - block.replicates.first + draw.replicates * part / len(asking)
            tell(done / block.replicates.count)

        passed(0)
        if wanted.isdisjoint(cell.question for cell in group):
            continue
        if together == 1:
            answered[group[0].question] = _run_cell(group[0], block, draw)
            continue
        runs = [partial(_run_cell, cell, block, draw) for cell in group]
        for cell, (outcome, seconds) in zip(
            group, draw.sample.side_by_side(runs, passed, threads_now), strict=True
        ):
            answered[cell.question] = replace(outcome, seconds=seconds / draw.replicates)
    return answered


def _run_cell(cell: Cell, block: Block, draw: Draw) -> _Outcome:
    measured, certified = None, np.nan
    selected: dict[str, int] = {}
    reported: dict[str, float] = {}
    status, message = "ok", ""
    start = time.perf_counter()
    try:
        result = draw.answer(cell, block.replicates)
        measured = block.problem.measure(draw, result)
        certified = result.certified_epsilon
        message = str(result.diagnostics.get("conditions", ""))  # of a printed proof, that do not hold
        if (used := result.diagnostics.get(PUBLIC_SHAPE)) is not None:
            together = f"{used.sum():g} of {used.size} repetitions that ran together"
            message = f"the shape of the public rows was used in {together}"
        selected = block.problem.selected(draw, result.estimate)
        reported = {name: result.diagnostics[name] for name in CENTRAL_NOTES if name in result.diagnostics}
    except dpalgos.InputError as error:
        status, message = "refused", str(error)
    except Exception as error:  # a failing cell must neither stop the others nor print what it held
        status, message = "failed", f"{type(error).__name__} in {cell.estimator}"
    seconds = (time.perf_counter() - start) / draw.replicates
    if measured is not None and not np.isfinite(measured).all():
        measured, status, message = None, "failed", "the estimate is not finite"
    return _Outcome(draw, measured, certified, seconds, status, message, selected, reported)


def _rows(cell: Cell, block: Block, problem: Problem, outcomes: list[_Outcome]) -> dict[str, np.ndarray]:
    """Return a row per metric and replicate; a replicate without an answer has the headline metric's only."""
    repeated = [outcome for outcome in outcomes for _ in range(outcome.draw.replicates)]
    answered = np.array([outcome.measured is not None for outcome in repeated])
    measured = [outcome.measured for outcome in outcomes if outcome.measured is not None]
    metrics = problem.metrics(measured, block.replicates.n) if measured else {}
    for name in CENTRAL_NOTES:
        values = np.array([outcome.reported.get(name, np.nan) for outcome in repeated])
        if np.isfinite(values).any():
            metrics[name] = values[answered]
    of_answers, refused = np.flatnonzero(answered), np.flatnonzero(~answered)
    at = np.concatenate([*[of_answers] * len(metrics), refused])  # the replicate of each row
    by_replicate = np.argsort(at, kind="stable")
    at = at[by_replicate]
    names = [*np.repeat(list(metrics), len(of_answers)), *[problem.metric] * len(refused)]
    values = np.concatenate([*metrics.values(), np.full(len(refused), np.nan)])
    same = {
        **_labels(cell, block),
        "s": problem.sizes(cell.n).get("s", pd.NA) if cell.s is None else cell.s,
        "seed": block.replicates.seed_of(cell),
    }
    return {
        **{
            name: np.full(len(at), value, dtype=type(value) if isinstance(value, int | float) else object)
            for name, value in same.items()
        },
        "d": np.array([outcome.draw.sample.n_features for outcome in repeated])[at],
        "estimator_epsilon": np.array([outcome.certified for outcome in repeated])[at],
        "replicate": np.array(_replicates(outcomes))[at],
        "metric": np.array(names, dtype=object)[by_replicate],
        "value": values[by_replicate],
        "status": np.array([outcome.status for outcome in repeated], dtype=object)[at],
        "message": np.array([outcome.message for outcome in repeated], dtype=object)[at],
    }


def _times(cell: Cell, block: Block, outcomes: list[_Outcome]) -> pd.DataFrame:
    """Return how long a replicate took; those of one draw ran together."""
    seconds = [outcome.seconds for outcome in outcomes for _ in range(outcome.draw.replicates)]
    names = {"study": block.replicates.study, "cell": cell.key}
    return pd.DataFrame({**names, "replicate": _replicates(outcomes), "seconds": seconds})


def _replicates(outcomes: list[_Outcome]) -> list[int]:
    return [o.draw.first + r for o in outcomes for r in range(o.draw.replicates)]


def _labels(cell: Cell, block: Block) -> dict[str, Any]:
    estimator = dpalgos.get_estimator(cell.estimator)
    return {
        "study": block.replicates.study,
        "panel": cell.panel,
        "dataset": block.problem.source,
        "data_source": block.data_source,
        "estimator": cell.estimator,
        "form": cell.form,
        "steps": pd.NA if cell.steps is None else cell.steps,
        "cell": cell.key,
        "calibration": cell.calibration,
        "privacy_model": estimator.privacy_model,
        "epsilon": np.nan if cell.epsilon is None else cell.epsilon,
        "delta": np.nan if cell.delta is None else cell.delta,
        "delta_rule": cell.delta_rule,
        "audited_epsilon": np.nan,
        "n": cell.n,
    }


@guarded
def run_block(
    key: CacheKey, block: Block, design: Record | None, path: str, only: str | None = None
) -> Record:
    """Write a block's rows to ``path`` below the home, or ``only`` one cell's among those stored there."""
    size = block.problem.n_bytes(block.replicates.n)
    stored = None if only is None else find_record(key.name)  # here, since other machines may lack it
    return computed(size, _stored_block, key, block, design, path, only, stored)


@guarded
def _stored_block(
    key: CacheKey, block: Block, design: Record | None, path: str, only: str | None, stored: Record | None
) -> Record:
    """Compute a block and write its files, in whatever process or machine."""
    one_blas_thread()
    key.require_same_code()
    problem, target = block.problem, home() / path
    choices = selections_path(target)
    selected: Selected = {}
    if only is not None:
        if stored is None or not at_hand(stored):
            raise StoreError(
                f"{target} is not there as it was stored; let all machines name one shared store in "
                f"{VARIABLE}, or run the whole block again, without --cell"
            )
        if choices.name in stored.get("attached", {}):
            selected = json.loads(choices.read_bytes())
    parts: list[pd.DataFrame] = []
    tell = shares_of(key.name)
    rows = compute_block(block, load_prepared(problem, design), only, selected, parts, tell)
    times = pd.concat(parts)
    seconds = float(times["seconds"].sum())
    if only is not None:
        rows = _among_stored(rows, target, block, only)
        times = _among_stored(times, timings_path(target), block, only)
    attached = {timings_path(target).name: to_parquet_bytes(times)}
    if selected:
        attached[choices.name] = json.dumps(selected, sort_keys=True).encode()
    what = f"{block.replicates.study} {block.title}"
    made = {"what": what, "host": socket.gethostname(), "process": os.getpid()}
    content = to_parquet_bytes(validate_results(rows))
    return written(key, target, content, attached, seconds=seconds, made=made)


def _among_stored(rows: pd.DataFrame, path: Path, block: Block, only: str) -> pd.DataFrame:
    stored = pd.read_parquet(path)
    order = {cell.key: place for place, cell in enumerate(block.cells)}
    together = pd.concat([stored[stored["cell"] != only], rows])
    return together.sort_values("cell", key=lambda keys: keys.map(order), kind="stable")


@guarded
def prepare(key: CacheKey, problem: DatasetSource, table: DatasetRef) -> Record:
    """Prepare a panel's dataset, and return the record of the file."""
    suffix, content = problem.prepare(table)
    return written(key, home() / "cache" / "designs" / f"{key}{suffix}", content)


def load_prepared(problem: Problem, design: Record | None) -> Any:
    """Return what `prepare` stored, as the problem draws from it; None for simulated data."""
    if design is None:
        return None
    assert isinstance(problem, DatasetSource)
    return problem.load(brought(design))
