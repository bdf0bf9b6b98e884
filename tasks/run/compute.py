"""The work of workers: prepare the data of a panel, compute a block of cells, exhibits and audits.

Exhibits are results of a problem in addition to its errors. Audits of private estimators are made by attacks,
or stored with the program.
"""

import io
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import dpalgos
from data.results.table import validate_results
from data.store.references import DatasetRef
from tasks.cache import Target, Written, digest
from tasks.cells import Cell, derive_seed, one_blas_thread
from tasks.errors import guarded
from tasks.problems.kinds import measure_of
from tasks.problems.problem import DatasetSource, Draw, HeadlineRun, Measured
from tasks.study.expand import Block

# Audits that ship with the program; each is known by its setting and the code of its estimator.
STORED = Path(__file__).with_name("audits.json")


def compute_block(block: Block, prepared: Any = None) -> pd.DataFrame:
    return timed_block(block, prepared).drop(columns="seconds")


def timed_block(block: Block, prepared: Any) -> pd.DataFrame:
    """Return the results of a block's cells, with times."""
    problem = block.problem
    outcomes: dict[str, list[_Outcome]] = {cell.key: [] for cell in block.cells}
    draws = problem.draws(block.replicates, prepared)
    del prepared  # rows that a draw has copied in another order need no memory any more
    for draw in draws:
        answered = _answered(block.cells, block, draw)
        for cell in block.cells:
            outcomes[cell.key].append(answered[cell.run_key, cell.iterate])
    parts = [_rows(cell, block, outcomes[cell.key]) for cell in block.cells]
    rows = pd.DataFrame({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
    # What an estimator proves of prepared data is no guarantee where the data decided the preparation.
    alone = rows["estimator_epsilon"]
    certified = alone if problem.traits.protected else alone.where(alone.isna(), np.inf)
    return rows.assign(certified_epsilon=certified)


@dataclass(frozen=True, eq=False)
class _Outcome:
    draw: Draw
    measured: Measured | None  # None if there is no estimate
    certified: float
    status: str
    message: str
    seconds: float = 0.0  # of a replicate; those of one draw ran together


_RunKey = tuple[str, int | None]  # the key of a run, and which iterate is the estimate
_Outcomes = dict[_RunKey, "_Outcome"]


def _answered(cells: Sequence[Cell], block: Block, draw: Draw) -> _Outcomes:
    """Return the outcomes of each run; of a path, at each number of steps."""
    asking: dict[str, dict[int | None, Cell]] = {}
    for cell in cells:
        asking.setdefault(cell.run_key, {}).setdefault(cell.iterate, cell)
    answered: _Outcomes = {}
    for by_iterate in asking.values():
        answered |= _run(list(by_iterate.values()), block, draw)
    return answered


def _run(cells: Sequence[Cell], block: Block, draw: Draw) -> _Outcomes:
    """Return the outcomes of cells with one run, of which they read different iterates of one run."""
    start = time.perf_counter()
    try:
        result: dpalgos.Result | Exception = draw.answer(cells[0], block.replicates)
    except Exception as error:
        result = error
    outcomes = [_outcome(cell, block, draw, result) for cell in cells]
    seconds = (time.perf_counter() - start) / draw.replicates
    return {
        (cell.run_key, cell.iterate): replace(outcome, seconds=seconds)
        for cell, outcome in zip(cells, outcomes, strict=True)
    }


def _outcome(cell: Cell, block: Block, draw: Draw, result: dpalgos.Result | Exception) -> _Outcome:
    measured: Measured | None = None
    certified, status, message = np.nan, "ok", ""
    try:
        if isinstance(result, Exception):
            raise result
        if cell.iterate is not None:
            assert result.path is not None
            result = replace(result, estimate=result.path[cell.iterate])
        measured = measure_of(block.problem).measure(block.problem.traits, draw, result)
        certified = result.certified_epsilon
        message = str(result.diagnostics.get("conditions", ""))  # of a printed proof, that do not hold
    except dpalgos.InputError as error:
        status, message = "refused", str(error)
    except Exception as error:  # a failing cell must neither stop the others nor print what it held
        status, message = "failed", f"{type(error).__name__} in {cell.estimator}"
    if measured is not None and not all(np.isfinite(each).all() for each in measured.values()):
        measured, status, message = None, "failed", "the estimate is not finite"
    return _Outcome(draw, measured, certified, status, message)


def _rows(cell: Cell, block: Block, outcomes: list[_Outcome]) -> dict[str, np.ndarray]:
    """Return a row per metric and replicate; without an estimate, of the headline metric only."""
    problem, measure = block.problem, measure_of(block.problem)
    repeated = [outcome for outcome in outcomes for _ in range(outcome.draw.replicates)]
    answered = np.array([outcome.measured is not None for outcome in repeated])
    measured = [outcome.measured for outcome in outcomes if outcome.measured is not None]
    raw = measured[0] if measured else {}
    joined = {name: np.concatenate([each[name] for each in measured], axis=-1) for name in raw}
    metrics = measure.metrics(problem.traits, joined) if joined else {}
    of_answers, refused = np.flatnonzero(answered), np.flatnonzero(~answered)
    at = np.concatenate([*[of_answers] * len(metrics), refused])  # the replicate of each row
    by_replicate = np.argsort(at, kind="stable")
    at = at[by_replicate]
    names = [*np.repeat(list(metrics), len(of_answers)), *[measure.metric(problem.traits)] * len(refused)]
    values = np.concatenate([*metrics.values(), np.full(len(refused), np.nan)])
    estimator = dpalgos.get_estimator(cell.estimator).for_unit(people=problem.traits.of_people)
    same = {
        "study": block.replicates.study,
        "panel": cell.panel,
        "dataset": problem.source,
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
        "s": problem.sizes(cell.n).get("s", pd.NA) if cell.s is None else cell.s,
        "seed": block.replicates.seed_of(cell),
    }
    numbers = [outcome.draw.first + r for outcome in outcomes for r in range(outcome.draw.replicates)]
    return {
        **{
            name: np.full(len(at), value, dtype=type(value) if isinstance(value, int | float) else object)
            for name, value in same.items()
        },
        "d": np.array([outcome.draw.sample.n_features for outcome in repeated])[at],
        "estimator_epsilon": np.array([outcome.certified for outcome in repeated])[at],
        "replicate": np.array(numbers)[at],
        "metric": np.array(names, dtype=object)[by_replicate],
        "value": values[by_replicate],
        "status": np.array([outcome.status for outcome in repeated], dtype=object)[at],
        "message": np.array([outcome.message for outcome in repeated], dtype=object)[at],
        "seconds": np.array([outcome.seconds for outcome in repeated])[at],
    }


@guarded
def write_block(result: Target, block: Block, design: Written | None) -> Written:
    one_blas_thread()
    prepared = None
    if design and isinstance(block.problem, DatasetSource):
        prepared = block.problem.load(design.stored_path())
    rows = timed_block(block, prepared)
    timed = validate_results(rows.drop(columns="seconds")).assign(seconds=rows["seconds"])
    return result.write(table_bytes(timed))


def table_bytes(rows: pd.DataFrame) -> bytes:
    """Return a table as a Parquet file with checksums."""
    table, buffer = pa.Table.from_pandas(rows, preserve_index=False), io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", write_page_checksum=True)
    return buffer.getvalue()


@guarded
def write_design(result: Target, problem: DatasetSource, table: DatasetRef) -> Written:
    return result.write(problem.prepare(table))


@guarded
def write_exhibits(
    result: Target,
    block: Block,
    table: DatasetRef | None,
    design: Written | None,
) -> Written:
    """Write the exhibits of a block's problem."""
    one_blas_thread()
    run = HeadlineRun(
        table=table,
        design=design.stored_path() if design else None,
        replicates=block.replicates,
        cells=block.cells,
    )
    problem = block.problem
    exhibits = problem.exhibits(run) | measure_of(problem).exhibits(problem.traits, run)
    return result.write(json.dumps(exhibits, sort_keys=True).encode())


@guarded
def write_audit(result: Target, cell: Cell, n_features: int, n_trials: int, seed: int) -> Written:
    one_blas_thread()
    return write_stored_audit(result, cell, audited(cell, n_features, n_trials, seed))


def write_stored_audit(result: Target, cell: Cell, content: Mapping[str, Any]) -> Written:
    return result.write(json.dumps({"cell": cell.key, **content}, indent=1).encode())


def audited(cell: Cell, n_features: int, n_trials: int, seed: int) -> dict[str, Any]:
    from dpalgos.audit.lower_bound import audit_estimator  # not at `smoke`, and it loads hardened noise

    rng = np.random.default_rng(derive_seed(seed, "audit", cell.key))
    result = audit_estimator(
        cell.estimator, n_trials=n_trials, n_features=n_features, rng=rng, **cell.keywords()
    )
    return {"audited_epsilon": result.epsilon_lower_bound, **result.to_dict()}


def audit_key(cell: Cell, n_features: int) -> str:
    modules = dpalgos.get_estimator(cell.estimator).module, "dpalgos.audit.lower_bound"
    return digest(modules, cell.estimator, cell.keywords(), n_features)


def stored_audit(cell: Cell, n_features: int, n_trials: int) -> Mapping[str, Any] | None:
    """Return a stored audit of at least so many trials; None if this code was not audited."""
    stored = stored_audits().get(audit_key(cell, n_features))
    return stored if stored and stored["n_trials"] >= n_trials else None


@cache
def stored_audits() -> Mapping[str, Mapping[str, Any]]:
    content: Mapping[str, Mapping[str, Any]] = json.loads(STORED.read_text(encoding="utf-8"))
    return content
