"""What a study computes at its headline in addition to its cells: exhibits, deletions of rows, audits."""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from data.store.references import DatasetRef
from reports.results import COLUMNS, DELETION_SHIFT, validate_results
from tasks.cache import CachedFile, facts_of
from tasks.cells import Cell, derive_seed
from tasks.errors import guarded
from tasks.problems.kinds import measure_of
from tasks.problems.problem import Block, DeletesRows, HeadlineRun, ShowsMore
from tasks.run.block import load_prepared, table_with_facts
from tasks.run.threads import one_blas_thread

_WITHOUT_PRIVACY = {
    **dict.fromkeys(COLUMNS, np.nan),
    **dict.fromkeys(("form", "delta_rule", "message"), ""),
    **dict.fromkeys(("calibration", "privacy_model"), "none"),
    "replicate": 0,
    "status": "ok",
    "metric": DELETION_SHIFT,
}


@guarded
def write_limit(result: CachedFile, block: Block, design: CachedFile, n_deleted: Sequence[int]) -> None:
    """Write how far deleting the most influential rows moves the non-private answer."""
    one_blas_thread()
    rows = validate_results(deletion_limit(block, load_prepared(block.problem, design), n_deleted))
    result.write(table_with_facts(rows.assign(seconds=np.nan), {}))


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
def write_exhibits(
    result: CachedFile,
    block: Block,
    table: DatasetRef | None,
    design: CachedFile | None,
    parts: Sequence[CachedFile],
) -> None:
    """Write the exhibits of a block's problem; ``parts`` are the files of the panel's blocks."""
    one_blas_thread()
    run = HeadlineRun(
        table=table,
        design=design.stored_path() if design else None,
        replicates=block.replicates,
        cells=block.cells,
        selected=_selected(parts),
    )
    problem = block.problem
    shown = problem.exhibits(run) if isinstance(problem, ShowsMore) else {}
    shown |= measure_of(problem).exhibits(problem.traits, run)
    result.write(json.dumps(shown, sort_keys=True).encode())


def _selected(parts: Sequence[CachedFile]) -> dict[str, dict[str, int]]:
    total: dict[str, Counter[str]] = defaultdict(Counter)
    for part in parts:
        for cell, counts in facts_of(part.path).get("selected", {}).items():
            total[cell].update(counts)
    return {cell: dict(counts) for cell, counts in total.items()}


@guarded
def write_audit(result: CachedFile, cell: Cell, n_features: int, n_trials: int, seed: int) -> None:
    """Write a lower bound on the ε of a cell's estimator, from data of the audit's own."""
    from dpalgos.audit.lower_bound import audit_estimator  # not at `smoke`, and it loads hardened noise

    one_blas_thread()
    result.require_same_code()
    audited = audit_estimator(
        cell.estimator,
        n_trials=n_trials,
        n_features=n_features,
        rng=np.random.default_rng(derive_seed(seed, "audit", cell.key)),
        **cell.keywords(),
    )
    bound = audited.epsilon_lower_bound
    content = {"cell": cell.key, "audited_epsilon": bound, **audited.to_dict()}
    result.write(json.dumps(content, indent=1).encode())
