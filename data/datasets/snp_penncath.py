"""PennCATH (lite): coronary artery disease of 1,401 people, 4,367 SNPs, as PLINK 1 files; and a stand-in."""

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from data.errors import CorruptSource
from data.formats.cohort import Cohort, label_people
from data.formats.plink import companion, open_plink, read_bytes
from data.standins.genotypes import hardy_weinberg

CASES, CONTROLS = 933, 468


def parse_plink1(bed: Path, companions: Mapping[str, Path]) -> Cohort:
    """Read the set and the clinical table; a person is a family identifier, here one per person."""
    files = [companion(companions, part, bed.name) for part in ("bim", "fam", "clinical")]
    plink = open_plink(bed, files[0], files[1])
    kept, labels, repairs = label_people(
        plink.families, _disease(files[2]), labels_file=files[2].name, others_expected=False
    )
    names = tuple(np.array(plink.families)[kept].tolist())
    return Cohort(names, labels, plink.blocks(kept), len(plink.families), repairs)


def _disease(path: Path) -> dict[str, str]:
    rows = list(csv.DictReader(read_bytes(path).decode("latin-1").splitlines()))
    if not rows or not {"FamID", "CAD"} <= rows[0].keys():
        raise CorruptSource(f"{path.name} has no columns FamID and CAD; get the file again")
    label_of = {row["FamID"]: row["CAD"] if row["CAD"] in ("0", "1") else "" for row in rows}
    if len(label_of) < len(rows):
        raise CorruptSource(
            f"{path.name} labels {len(rows) - len(label_of):,} people twice; get the file again"
        )
    return label_of


PARSERS = {"plink1": parse_plink1}


def stand_in(n_people: int, rng: np.random.Generator) -> Cohort:
    """Simulate a null study: cases and controls from one population."""
    sizes = {"1": CASES, "0": n_people - CASES}
    alike = {"1": "all", "0": "all"}
    return hardy_weinberg(sizes, 4_367, rng, population_of=alike, missing_rate=0.023)
