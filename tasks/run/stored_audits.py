"""Audits that ship with the program; each is known by its setting and the code of its estimator."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import dpalgos
from tasks.cache import digest
from tasks.cells import Cell

FILE = Path(__file__).resolve().parents[2] / "flows" / "studies" / "audits.json"


def audit_key(cell: Cell, n_features: int) -> str:
    """Return a digest of the estimator's code, its keywords and the number of columns."""
    module = dpalgos.get_estimator(cell.estimator).function.__module__
    return digest([module], cell.estimator, cell.keywords(), n_features)


def stored_audit(cell: Cell, n_features: int, n_trials: int) -> Mapping[str, Any] | None:
    """Return a stored audit of at least so many trials; None if this code was not audited."""
    stored = stored_audits().get(audit_key(cell, n_features))
    return stored if stored and stored["n_trials"] >= n_trials else None


@cache
def stored_audits() -> Mapping[str, Mapping[str, Any]]:
    content: Mapping[str, Mapping[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return content
