"""Audits of private estimators at the headline of a study: by attacks, or stored with the program."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import dpalgos
from tasks.cache import Target, Written, digest
from tasks.cells import Cell, derive_seed, one_blas_thread
from tasks.errors import guarded

# Audits that ship with the program; each is known by its setting and the code of its estimator.
STORED = Path(__file__).with_name("audits.json")


@guarded
def write_audit(result: Target, cell: Cell, n_features: int, n_trials: int, seed: int) -> Written:
    one_blas_thread()
    return write_stored_audit(result, cell, audited(cell, n_features, n_trials, seed))


def write_stored_audit(result: Target, cell: Cell, content: Mapping[str, Any]) -> Written:
    return result.write(json.dumps({"cell": cell.key, **content}, indent=1).encode())


def audited(cell: Cell, n_features: int, n_trials: int, seed: int) -> dict[str, Any]:
    from dpalgos.audit.lower_bound import audit_estimator  # not at `smoke`, and it loads hardened noise

    rng = np.random.default_rng(derive_seed(seed, "audit", cell.key))
    found = audit_estimator(
        cell.estimator, n_trials=n_trials, n_features=n_features, rng=rng, **cell.keywords()
    )
    return {"audited_epsilon": found.epsilon_lower_bound, **found.to_dict()}


def audit_key(cell: Cell, n_features: int) -> str:
    module = dpalgos.get_estimator(cell.estimator).module
    return digest([module], cell.estimator, cell.keywords(), n_features)


def stored_audit(cell: Cell, n_features: int, n_trials: int) -> Mapping[str, Any] | None:
    """Return a stored audit of at least so many trials; None if this code was not audited."""
    stored = stored_audits().get(audit_key(cell, n_features))
    return stored if stored and stored["n_trials"] >= n_trials else None


@cache
def stored_audits() -> Mapping[str, Mapping[str, Any]]:
    content: Mapping[str, Mapping[str, Any]] = json.loads(STORED.read_text(encoding="utf-8"))
    return content
