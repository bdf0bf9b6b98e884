"""PennCATH (lite): coronary artery disease of 1,401 people, 4,367 SNPs, as PLINK 1 files."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from data.dataset import Dataset, GenotypeGroup, Source
from data.formats.cohort import Cohort, labeled_cohort
from data.formats.plink import read_plink

_WITH = "With the bed file."
_CLINICAL = Source(
    file="snp/penncath_clinical.csv",
    url="",
    layout="clinical",
    sha256="473b66b7a96eab7e8fa1d6cc0f1c37847fb26bd734b22d87159865cc1f8b0565",
    columns=("FamID", "CAD"),
    note=_WITH,
)
DATASET = Dataset(
    name="snp_penncath",
    kind="genotypes",
    title="PennCATH (lite): coronary artery disease",
    description=(
        "Copies of an allele (0, 1, 2) of 1,401 people at 4,367 SNPs; 933 have coronary artery "
        "disease, 468 do not. About 2.3% of the calls are missing. Nearly no signal: the honest hard "
        "case."
    ),
    privacy_unit="one person, with all genotypes",
    n_rows=1401,
    n_snps=4367,
    license="no license is stated for the data; distributed for teaching",
    citation=(
        "M. P. Reilly et al. (2011). Identification of ADAMTS7 as a novel locus for coronary "
        "atherosclerosis and association of ABO with myocardial infarction in the presence of coronary "
        "atherosclerosis. The Lancet 377, 383-392."
    ),
    source=Source(
        file="snp/penncath_lite.bed.gz",
        url="",
        layout="plink1",
        sha256="934ba0bc4590104d93ae252f935d62b387d82f98c6ed07dd5afc05fbea0cb8da",
        note=(
            "Distributed with the R package plmmr (inst/extdata); no address is verified here. Public "
            "repositories fetch the full set from "
            "https://d1ypx1ckp5bo16.cloudfront.net/penncath/penncath.tar.gz, which is not verified either. "
            "They say that it holds penncath.bed, penncath.bim, penncath.fam and penncath.csv of the same "
            "1,401 people at 861,473 SNPs. It is not this file, and this study cannot read it in its place."
        ),
        companions=(
            Source(
                file="snp/penncath_lite.bim.gz",
                url="",
                layout="bim",
                sha256="23c41eecba1ba6406adf9fdd56077a6a0a0619dd669ee989a0f9f5cbd0609a2c",
                note=_WITH,
            ),
            Source(
                file="snp/penncath_lite.fam.gz",
                url="",
                layout="fam",
                sha256="1d42719c4e16c128aef9134e4abafd0698641b08237f3580547bc13eb6bd4ba1",
                note=_WITH,
            ),
            _CLINICAL,
        ),
    ),
    groups=(
        GenotypeGroup("coronary artery disease", ("1",)),
        GenotypeGroup("no coronary artery disease", ("0",)),
    ),
)


def parse_plink1(bed: Path, companions: Mapping[str, Path]) -> Cohort:
    """Read the set and the clinical table; a person is a family identifier, here one per person."""
    plink, clinical = read_plink(bed, companions), companions["clinical"]
    table = pd.read_csv(clinical, dtype=str)
    person, disease = (table[name] for name in _CLINICAL.columns)
    return labeled_cohort(
        plink.families,
        plink.snps,
        plink.calls,
        dict(zip(person, disease.where(disease.isin(["0", "1"]), ""), strict=True)),
        labels_file=clinical.name,
        others_expected=False,
    )


PARSERS = {"plink1": parse_plink1}
