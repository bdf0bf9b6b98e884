"""People with their genotypes: calls per SNP, and a label per person."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from data.errors import CorruptSource
from data.store.references import Repair

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
    label_of: dict[str, str],
    *,
    labels_file: str,
    others_expected: bool,
) -> Cohort:
    """Join people with their labels, and leave out people without one.

    Labels are by identifier, ``""`` if blank. Labels of people without genotypes are ignored if
    ``others_expected``, and refused otherwise. Messages call their file ``labels_file``.
    """
    if len(set(people)) < len(people):
        raise CorruptSource(
            f"{len(people) - len(set(people)):,} of {len(people):,} people are listed twice; correct the file"
        )
    strangers = len(label_of.keys() - set(people))
    if strangers and (not others_expected or strangers == len(label_of)):
        raise CorruptSource(
            f"{labels_file} labels {strangers:,} people who are not among the {len(people):,} with "
            "genotypes; use the labels of the same people"
        )
    labels = [label_of.get(person, "") for person in people]
    is_labeled = np.array([label != "" for label in labels])
    without = len(people) - int(is_labeled.sum())
    repairs = (Repair("person without a label", without, "person"),) if without else ()
    names = tuple(np.array(people)[is_labeled].tolist())
    return Cohort(
        names,
        tuple(filter(None, labels)),
        snps,
        calls[:, is_labeled] if without else calls,
        len(people),
        repairs,
    )
