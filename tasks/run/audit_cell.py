"""Audit a study's private estimators at its headline setting."""

import json

import numpy as np

from data.store.folders import home
from dpalgos.audit.lower_bound import audit_estimator
from tasks.cache import CacheKey, Record, written
from tasks.faults import guarded
from tasks.run.resources import computed, one_blas_thread, room_for
from tasks.work_units import Cell, derive_seed


@guarded
def audit(key: CacheKey, cell: Cell, n_features: int, n_trials: int, seed: int, path: str) -> Record:
    """Return the record of a lower bound on the ε of a cell's estimator, from data of the audit's own."""
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
