"""Prepare the genotypes of one group for tracing."""

import io
from pathlib import Path
from typing import Any

import numpy as np

from data.genotypes import read_genotypes
from data.group_difference import choose_evenly
from data.refs import GenotypeRef
from data.traced_group import TracedGroup, traced_group
from tasks.problems.membership import GroupTracing


def prepare_traced(about: GroupTracing, table: dict[str, Any]) -> TracedGroup:
    """Choose the SNPs and code the calls."""
    ref = GenotypeRef.from_dict(table)
    return traced_group(read_genotypes(ref, snps=choose_evenly(ref.n_snps, about.n_snps).index))


def traced_bytes(prepared: TracedGroup) -> bytes:
    """Serialise: entries of X are −1, 0 or 1."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, X=prepared.X.astype(np.int8), panel_mean=prepared.panel_mean)
    return buffer.getvalue()


def holds_traced(path: str | Path) -> bool:
    """Whether a file holds a group for tracing."""
    with np.load(path) as stored:
        return "panel_mean" in stored


def load_traced(path: str | Path) -> TracedGroup:
    """Read it back."""
    with np.load(path) as stored:
        return TracedGroup(X=stored["X"].astype(np.float64), panel_mean=stored["panel_mean"])
