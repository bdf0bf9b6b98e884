"""GEO series GSE106818: people of average and of low IQ, Affymetrix 6.0 calls.

Written from the series-matrix format and the series' summary alone: nobody here has seen the file.
"""

from collections.abc import Mapping
from pathlib import Path

from data.dataset import Dataset, GenotypeGroup, Source
from data.formats.cohort import Cohort
from data.formats.geo import parse_series_matrix

AVERAGE, LOW = "average iq", "low iq"
DATASET = Dataset(
    name="snp_gse106818",
    kind="genotypes",
    title="GEO GSE106818: average and low IQ",
    description=(
        "Affymetrix 6.0 calls of 387 people, 241 of average and 146 of low IQ: the data of the paper's "
        "SNP study. The loader follows the series-matrix format. The content of the matrix is not "
        "verified here."
    ),
    privacy_unit="one person, with all genotypes",
    n_rows=387,
    license="NCBI places no restriction on GEO data; the submitter may claim rights",
    citation="NCBI Gene Expression Omnibus, series GSE106818, platform GPL6801.",
    source=Source(
        file="snp/GSE106818_series_matrix.txt.gz",
        url=(
            "https://ftp.ncbi.nlm.nih.gov/geo/series/GSE106nnn/GSE106818/matrix/GSE106818_series_matrix.txt.gz"
        ),
        layout="geo_series_matrix",
        note=(
            "No checksum is known, so the parser judges: the format, and 387 people in two groups. "
            "The calls may instead be in suppl/GSE106818_RAW.tar, which is not supported."
        ),
    ),
    groups=(
        GenotypeGroup("average IQ", (AVERAGE,)),
        GenotypeGroup("low IQ", (LOW,)),
    ),
)


def parse_geo_series_matrix(path: Path, companions: Mapping[str, Path]) -> Cohort:
    """Read the series matrix; a person is a GEO sample, the group is in its characteristics."""
    return parse_series_matrix(path, (AVERAGE, LOW))


PARSERS = {"geo_series_matrix": parse_geo_series_matrix}
