"""GEO series GSE106818: people of average and of low IQ, Affymetrix 6.0 calls; and a stand-in.

Written from the series-matrix format and the series' summary alone: nobody here has seen the file.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from data.formats.cohort import Cohort
from data.formats.geo import parse_series_matrix
from data.standins.genotypes import hardy_weinberg

AVERAGE, LOW = "average iq", "low iq"
STAND_IN_SNPS = 5_000


def parse_geo_series_matrix(path: Path, companions: Mapping[str, Path]) -> Cohort:
    """Read the series matrix; a person is a GEO sample, the group is in its characteristics."""
    return parse_series_matrix(path, (AVERAGE, LOW))


PARSERS = {"geo_series_matrix": parse_geo_series_matrix}


def stand_in(n_people: int, rng: np.random.Generator) -> Cohort:
    """Simulate a null study with the published group sizes, at 5,000 SNPs."""
    alike = {AVERAGE: "all", LOW: "all"}
    sizes = {AVERAGE: 241, LOW: n_people - 241}
    return hardy_weinberg(sizes, STAND_IN_SNPS, rng, population_of=alike, missing_rate=0.01)
