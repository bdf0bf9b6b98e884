"""Prepare the genotypes of two groups for a study."""

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from data.genotypes import read_genotypes, stream_blocks
from data.group_difference import (
    VALUE_BOUND,
    GroupDifference,
    SnpChoice,
    choose_by_frequency,
    choose_evenly,
    count_alleles,
    group_difference,
    people_by_frequency_rule,
)
from data.refs import GenotypeRef
from data.table import Repair
from tasks.problems.group_differences import GroupDifferences

_FACTS = ("sizes", "group_names", "private", "notes")


def prepare_groups(about: GroupDifferences, table: dict[str, Any]) -> GroupDifference:
    """Choose the SNPs and code the calls of both groups."""
    ref = GenotypeRef.from_dict(table)
    group = read_genotypes(ref, snps=np.array([0])).group
    choice = _choice(about, ref, group)
    return group_difference(read_genotypes(ref, snps=choice.index), choice)


def _choice(about: GroupDifferences, ref: GenotypeRef, group: np.ndarray) -> SnpChoice:
    if about.selection == "evenly_spaced":
        return choose_evenly(ref.n_snps, about.n_snps)
    counts = count_alleles(stream_blocks(ref), people_by_frequency_rule(group, about.selection))
    return choose_by_frequency(counts, about.n_snps, selection=about.selection)


def groups_bytes(prepared: GroupDifference) -> bytes:
    """Serialise: entries of X are −2, 0 or 2, the rest is small."""
    facts = {
        **{name: getattr(prepared, name) for name in _FACTS},
        "left_out": [asdict(repair) for repair in prepared.left_out],
        "snps": prepared.snps.to_dict("list"),
    }
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        X=prepared.X.astype(np.int8),
        target=prepared.target,
        missing_per_snp=prepared.missing_per_snp,
        missing_per_person=prepared.missing_per_person,
        facts=np.array(json.dumps(facts)),
    )
    return buffer.getvalue()


def load_groups(path: str | Path) -> GroupDifference:
    """Read them back."""
    with np.load(path) as stored:
        facts = json.loads(str(stored["facts"]))
        X = stored["X"].astype(np.float64)
        assert np.abs(X).max() <= VALUE_BOUND
        return GroupDifference(
            X=X,
            sizes=tuple(facts["sizes"]),
            target=stored["target"],
            snps=pd.DataFrame(facts["snps"]),
            group_names=tuple(facts["group_names"]),
            missing_per_snp=stored["missing_per_snp"],
            missing_per_person=stored["missing_per_person"],
            left_out=tuple(Repair(**repair) for repair in facts["left_out"]),
            private=facts["private"],
            notes=tuple(facts["notes"]),
        )
