"""People with their genotypes, read or simulated: calls per SNP, and a label per person."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from data.errors import CorruptSource
from data.store.references import MAX_DROPPED_FRACTION, Repair

MISSING = -1  # a call that is not there
BLOCK_SNPS = 1024
LOWEST_FREQUENCY = 0.05  # of the first allele of simulated genotypes

Calls = npt.NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class SnpBlock:
    """Consecutive SNPs and the calls of all people: copies of ``allele_1``, or `MISSING`."""

    snps: pd.DataFrame  # of columns snp, chromosome, position, allele_1, allele_2
    calls: Calls  # (n_snps, n_people)


@dataclass(frozen=True, eq=False)
class Cohort:
    """The labeled people of a dataset and their genotype calls, block by block."""

    people: tuple[str, ...]  # distinct
    labels: tuple[str, ...]
    blocks: Iterable[SnpBlock]  # read once
    people_read: int  # before any was dropped
    repairs: tuple[Repair, ...] = ()  # people that were dropped or joined differently, with reasons


def unplaced_snps(names: list[str]) -> pd.DataFrame:
    """Return SNPs with alleles A and B and unknown positions."""
    return pd.DataFrame({"snp": names, "chromosome": "", "position": pd.NA, "allele_1": "A", "allele_2": "B"})


def label_people(
    people: Sequence[str], label_of: dict[str, str], *, labels_file: str, others_expected: bool
) -> tuple[npt.NDArray[np.bool_], tuple[str, ...], tuple[Repair, ...]]:
    """Join people with their labels: a mask of labeled people (n_people,), their labels, and dropped people.

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
    kept = np.array([label != "" for label in labels])
    without = len(people) - int(kept.sum())
    if without > MAX_DROPPED_FRACTION * len(people):
        raise CorruptSource(
            f"{labels_file} has no label for {without:,} of {len(people):,} people, at most "
            f"{MAX_DROPPED_FRACTION:.0%} may be left out; complete the labels"
        )
    repairs = (Repair("person without a label", without, "person"),) if without else ()
    return kept, tuple(label for label in labels if label), repairs


def hardy_weinberg(
    label_sizes: Mapping[str, int],
    n_snps: int,
    rng: np.random.Generator,
    *,
    population_of: Mapping[str, str] | None = None,
    divergence: float = 0.0,
    missing_rate: float = 0.0,
) -> Cohort:
    """Simulate independent SNPs; a person's two alleles are independent with the population's frequency.

    Frequencies of the first allele are uniform on (0.05, 0.5) in the ancestral population. Those of the
    populations follow the Balding–Nichols model, a Beta distribution around them. Each label is one
    population, unless ``population_of`` maps several labels to one. ``divergence`` is the F_ST of each
    population from the ancestral one; with 0 all are equal. ``missing_rate`` is the share of randomly missing
    calls.
    """
    labels = [label for label, size in label_sizes.items() for _ in range(size)]
    populations = [(population_of or {}).get(label, label) for label in labels]
    names = sorted(set(populations))
    index = np.array([names.index(population) for population in populations])

    def blocks() -> Iterator[SnpBlock]:
        for start in range(0, n_snps, BLOCK_SNPS):
            size = min(BLOCK_SNPS, n_snps - start)
            ancestral = rng.uniform(LOWEST_FREQUENCY, 0.5, (size, 1))
            frequencies = np.broadcast_to(ancestral, (size, len(names)))
            if divergence > 0:
                spread = (1 - divergence) / divergence
                frequencies = rng.beta(frequencies * spread, (1 - frequencies) * spread)
            calls = rng.binomial(2, frequencies[:, index]).astype(np.int8)
            calls[rng.random(calls.shape) < missing_rate] = MISSING
            yield SnpBlock(unplaced_snps([f"simulated{start + i + 1}" for i in range(size)]), calls)

    people = tuple(f"simulated{i + 1}" for i in range(len(labels)))
    return Cohort(people, tuple(labels), blocks(), len(people))
