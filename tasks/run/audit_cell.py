"""Audit a study's private estimators at its headline setting."""

import json

import numpy as np
import pandas as pd
from prefect import task

from data.store.folders import home
from dpalgos.audit.lower_bound import audit_estimator
from tasks.cache.keys import CacheKey
from tasks.cache.policy import BY_KEY
from tasks.cache.records import Record, written
from tasks.faults import guarded
from tasks.run.memory import room_for
from tasks.run.remote import computed
from tasks.run.threads import one_blas_thread
from tasks.work_units import Cell, derive_seed

_SAME_IN_ALL_PANELS = ["estimator", "form", "steps", "calibration", "epsilon", "delta_rule", "n", "s"]


@task(name="audit", task_run_name="audit {cell.key}", **BY_KEY)
@guarded
def audit(key: CacheKey, cell: Cell, n_features: int, n_trials: int, seed: int, path: str) -> Record:
    """Return the record of an empirical lower bound on the ε of a cell's estimator.

    The audit brings worst-case data of its own; of the study it takes the public settings only.
    """
    return computed(_stored_audit, key, cell, n_features, n_trials, seed, path)


@guarded
def _stored_audit(key: CacheKey, cell: Cell, n_features: int, n_trials: int, seed: int, path: str) -> Record:
    one_blas_thread()
    key.require_same_code()
    with room_for(0):
        found = audit_estimator(
            cell.estimator,
            n_trials=n_trials,
            n_features=n_features,
            rng=np.random.default_rng(derive_seed(seed, "audit", cell.key)),
            **cell.keywords(),
        )
    bound = found.epsilon_lower_bound
    body = json.dumps({"cell": cell.key, **found.to_dict()}, indent=1)
    return written(key, home() / path, body.encode(), cell=cell.key, audited_epsilon=bound)


def with_audits(rows: pd.DataFrame, audits: list[Record]) -> pd.DataFrame:
    """Return the rows with the audited ε of the audited cells, also in panels that were not audited."""
    found = {record["cell"]: record["audited_epsilon"] for record in audits}
    cells = rows.drop_duplicates("cell")[["cell", *_SAME_IN_ALL_PANELS]]
    alike = cells.groupby(_SAME_IN_ALL_PANELS, dropna=False, sort=False).ngroup()
    bound = cells["cell"].map(found).astype("float64").groupby(alike).transform("max")
    audited = rows["cell"].map(dict(zip(cells["cell"], bound, strict=True)))
    return rows.assign(audited_epsilon=audited.where(rows["calibration"] != "none"))
