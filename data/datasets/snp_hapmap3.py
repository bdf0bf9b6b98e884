"""HapMap 3, thinned: 957 founders of eleven populations at 14,079 SNPs, as PLINK 1 files."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd

from data.dataset import Dataset, GenotypeGroup, Source
from data.formats.cohort import Cohort, labeled_cohort
from data.formats.plink import read_plink
from data.store.references import Repair

_POPULATIONS = Source(
    file="snp/relationships_w_pops_121708.txt",
    url="",
    layout="populations",
    sha256="2f109108a43a4115d7e696a469470999858bfd177df51dc5bf5331bcc7205691",
    columns=("FID", "IID", "population"),
    embedded=True,
    note="The HapMap project's list of its panel; no address is verified here.",
)

DATASET = Dataset(
    name="snp_hapmap3",
    kind="genotypes",
    title="HapMap 3, thinned: Europeans and East Asians",
    description=(
        "Copies of an allele (0, 1, 2) of 957 founders of eleven populations at 14,079 autosomal SNPs, "
        "thinned to low linkage. Compared are CEU and TSI with CHB, CHD and JPT; the other populations "
        "serve as a public panel. A strong signal."
    ),
    privacy_unit="one person, with all genotypes",
    n_rows=957,
    n_snps=14079,
    license="released without restriction by the International HapMap Project",
    citation=(
        "International HapMap 3 Consortium (2010). Integrating common and rare genetic variation in "
        "diverse human populations. Nature 467, 52-58; thinned as in G. Abraham and M. Inouye (2014). "
        "Fast principal component analysis of large-scale genome-wide data. PLoS ONE 9(4), e93766."
    ),
    source=Source(
        file="snp/HM3_thinned_autosomal_overlap.bed",
        url="",
        layout="plink1",
        sha256="4e7cbb58b47c05026bce109db4e425f852382ac597735dc32ebfc29e7f84efb8",
        embedded=True,
        note=(
            "Distributed with flashpca (folder HapMap3), made from "
            "hapmap3_r2_b36_fwd.consensus.qc.poly; no address is verified here."
        ),
        companions=(
            Source(
                file="snp/HM3_thinned_autosomal_overlap.bim",
                url="",
                layout="bim",
                sha256="7db221e0612a19bffcc53fef5c73b7592e425de431221c1985a6fbeecadea26c",
                embedded=True,
                note="With the bed file.",
            ),
            Source(
                file="snp/HM3_thinned_autosomal_overlap.fam",
                url="",
                layout="fam",
                sha256="d70ddafd3caed0b974e5029f550817a822a8afafe277920633c28766069ec509",
                embedded=True,
                note="With the bed file.",
            ),
            _POPULATIONS,
        ),
    ),
    groups=(
        GenotypeGroup("European (CEU, TSI)", ("CEU", "TSI")),
        GenotypeGroup("East Asian (CHB, CHD, JPT)", ("CHB", "CHD", "JPT")),
    ),
)


def parse_plink1(bed: Path, companions: Mapping[str, Path]) -> Cohort:
    """Read the set and the panel's list of people.

    A person has a family and an individual identifier. Individual identifiers are unique in the list. They
    alone are used if the list has another family: its release of December 2008 corrected families. The list
    has the whole panel, including children. Some of its rows therefore have no genotypes here.
    """
    plink, panel = read_plink(bed, companions), companions["populations"]
    table = pd.read_csv(panel, sep=r"\s+", dtype=str)
    listed = {(family, person): name for family, person, name in table[[*_POPULATIONS.columns]].to_numpy()}
    population_of = {person: population for (_, person), population in listed.items()}
    cohort = labeled_cohort(
        plink.people,
        plink.snps,
        plink.calls,
        population_of,
        labels_file=panel.name,
        others_expected=True,
    )
    elsewhere = set(zip(plink.families, plink.people, strict=True)) - listed.keys()
    without, joined = (
        population_of.keys() - set(plink.people),
        [p for _, p in elsewhere if p in cohort.people],
    )
    repairs = (
        Repair("listed without genotypes", len(without), "person", "passed over"),
        Repair(
            "in another family's list", len(joined), "person", "joined by the individual identifier alone"
        ),
    )
    return replace(cohort, repairs=(*cohort.repairs, *(each for each in repairs if each.count)))


PARSERS = {"plink1": parse_plink1}
