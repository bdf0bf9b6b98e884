"""People with their genotypes as a raw file gives them: calls SNP by SNP, and a label for each person."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from data.errors import CorruptSource
from data.formats.table import MAX_DROPPED_FRACTION
from data.store.references import Repair

MISSING = -1  # a call that is not there
BLOCK_SNPS = 1024

Calls = npt.NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class SnpBlock:
    """Consecutive SNPs and everybody's calls at them.

    Attributes
    ----------
    snps : pandas.DataFrame
        The columns `SNP_COLUMNS`.
    calls : (n_snps, n_people) array of int8
        Copies of ``allele_1``, or `MISSING`.
    """

    snps: pd.DataFrame
    calls: Calls


@dataclass(frozen=True, eq=False)
class Cohort:
    """The labeled people of a dataset and their genotype calls, block by block.

    Attributes
    ----------
    people, labels : tuple of str
        Distinct identifiers, and to what each person belongs.
    blocks : iterable of SnpBlock
        Read once.
    people_read : int
        People of the file, before any was left out.
    repairs : tuple of Repair
        Who was left out and why.
    notes : tuple of str
        What else was done to join people and labels.
    """

    people: tuple[str, ...]
    labels: tuple[str, ...]
    blocks: Iterable[SnpBlock]
    people_read: int
    repairs: tuple[Repair, ...] = ()
    notes: tuple[str, ...] = ()


def label_people(
    people: Sequence[str], label_of: dict[str, str], *, labels_file: str, others_expected: bool
) -> tuple[npt.NDArray[np.bool_], tuple[str, ...], tuple[Repair, ...]]:
    """Join people with their labels.

    Parameters
    ----------
    people : sequence of str
        Identifiers of those who have genotypes.
    label_of : dict of str to str
        From identifier to label, ``""`` if it is blank.
    labels_file : str
        What messages call the file of labels.
    others_expected : bool
        Whether the labels may name people who have no genotypes; they are passed over.

    Returns
    -------
    kept : (n_people,) boolean array
        Who has a label.
    labels : tuple of str
        Of those who are kept.
    repairs : tuple of Repair

    Raises
    ------
    CorruptSource
        A person is listed twice, labels name people who are not there, or too many have no label.
    """
    if len(set(people)) < len(people):
        raise CorruptSource(
            f"{len(people) - len(set(people)):,} of {len(people):,} people are listed twice; mend the file"
        )
    strangers = len(label_of.keys() - set(people))
    if strangers and (not others_expected or strangers == len(label_of)):
        raise CorruptSource(
            f"{labels_file} labels {strangers:,} people who are not among the {len(people):,} with "
            "genotypes; take the labels of the same people"
        )
    found = [label_of.get(person, "") for person in people]
    kept = np.array([label != "" for label in found])
    without = len(people) - int(kept.sum())
    if without > MAX_DROPPED_FRACTION * len(people):
        raise CorruptSource(
            f"{labels_file} has no label for {without:,} of {len(people):,} people, at most "
            f"{MAX_DROPPED_FRACTION:.0%} may be left out; complete the labels"
        )
    repairs = (Repair("person without a label", without),) if without else ()
    return kept, tuple(label for label in found if label), repairs
