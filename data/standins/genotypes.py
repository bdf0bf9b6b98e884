"""Simulated genotypes under Hardy–Weinberg equilibrium, for where the real ones cannot be had."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from data.formats.cohort import BLOCK_SNPS, MISSING, Cohort, SnpBlock

LOWEST_FREQUENCY = 0.05


def hardy_weinberg(
    label_sizes: Mapping[str, int],
    n_snps: int,
    rng: np.random.Generator,
    *,
    population_of: Mapping[str, str] | None = None,
    divergence: float = 0.0,
    missing_rate: float = 0.0,
) -> Cohort:
    """Simulate independent SNPs: each person's two alleles are drawn apart, by the population's frequency.

    Frequencies of the first allele are uniform on (.05, .5) in the ancestral population; those of the
    populations follow the Balding–Nichols model, a Beta distribution around them.

    Parameters
    ----------
    label_sizes : mapping of str to int
        People of each label.
    n_snps : int
    rng : numpy.random.Generator
    population_of : mapping of str to str, optional
        Labels that share allele frequencies; by default each label is a population of its own.
    divergence : float, default 0
        F_ST of each population from the ancestral one; with 0 all are alike.
    missing_rate : float, default 0
        Share of calls that are missing, at random.

    Returns
    -------
    Cohort
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
            snps = pd.DataFrame(
                {
                    "snp": [f"simulated{start + i + 1}" for i in range(size)],
                    "chromosome": "",
                    "position": pd.NA,
                    "allele_1": "A",
                    "allele_2": "B",
                }
            )
            yield SnpBlock(snps, calls)

    people = tuple(f"simulated{i + 1}" for i in range(len(labels)))
    return Cohort(people, tuple(labels), blocks(), len(people))
