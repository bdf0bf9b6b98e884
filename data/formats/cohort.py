"""People with their genotypes: calls per SNP, and a label per person."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from data.errors import CorruptSource
from data.store.references import MAX_DROPPED_FRACTION, Repair

if TYPE_CHECKING:
    import pandas as pd

MISSING = -1  # a call that is not there

Calls = npt.NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Cohort:
    """The labeled people of a dataset and their genotype calls."""

    people: tuple[str, ...]  # distinct
    labels: tuple[str, ...]
    snps: "pd.DataFrame"  # of columns snp, chromosome, position, allele_1, allele_2
    calls: Calls  # (n_snps, n_people): copies of ``allele_1``, or `MISSING`
    people_read: int  # before any was dropped
    repairs: tuple[Repair, ...] = ()  # people that were dropped or joined differently, with reasons


def labeled_cohort(
    people: Sequence[str],
    snps: "pd.DataFrame",
    calls: Calls,
    labels: Sequence[tuple[str, str]],
    *,
    labels_file: str,
    others_expected: bool,
) -> Cohort:
    """Join people with their labels, and leave out people without one.

    Labels are pairs with the person's identifier, ``""`` if blank. Labels of people without genotypes are
    ignored if ``others_expected``, and refused otherwise. Messages call their file ``labels_file``.
    """
    label_of = dict(labels)
    twice = len(people) - len(set(people)) + len(labels) - len(label_of)
    strangers = 0 if others_expected else len(label_of.keys() - set(people))
    kept = np.array([bool(label_of.get(person)) for person in people], dtype=bool)
    without = len(people) - int(kept.sum())
    if twice or strangers or without > MAX_DROPPED_FRACTION * len(people):
        raise CorruptSource(
            f"{labels_file}: of {len(people):,} people, {without:,} have no label (at most "
            f"{MAX_DROPPED_FRACTION:.0%} may) and {twice:,} are listed twice; {strangers:,} labels are of "
            "other people; use the labels of the same people"
        )
    names = tuple(np.array(people)[kept].tolist())
    repairs = (Repair("person without a label", without, "person"),) if without else ()
    return Cohort(names, tuple(map(label_of.__getitem__, names)), snps, calls[:, kept], len(people), repairs)
