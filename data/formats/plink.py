"""Read PLINK 1 files by bed-reader: ``.bed`` (calls, SNP-major), ``.bim`` (SNPs) and ``.fam`` (people).

Each may be compressed by gzip. Calls are copies of the bim file's first allele, A1, as coded in the file.
"""

import codecs
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pandas as pd

from data.errors import CorruptSource
from data.formats.archives import read_bytes
from data.formats.cohort import MISSING, Calls

HEADER = b"\x6c\x1b\x01"  # of a file that lists all people of one SNP after another
BED_READER_MISSING = -127
_HEADERS = ("FID", "IID", "CHROM", "CHR")  # the first name in a header of PLINK 2, which may lack its mark
_COLUMNS = ("chromosome", "snp", "centimorgans", "position", "allele_1", "allele_2")  # of bim files


class PlinkSet(NamedTuple):
    """A checked set of PLINK 1 files."""

    families: tuple[str, ...]  # the first column of the fam file
    people: tuple[str, ...]  # the second
    snps: pd.DataFrame  # as in `data.formats.cohort.Cohort`, and so are the calls
    calls: Calls


def read_plink(bed: Path, companions: Mapping[str, Path]) -> PlinkSet:
    """Read a bed file with its bim and fam files, and check that they belong together."""
    from bed_reader import open_bed

    content, (snps, people) = read_bytes(bed), (_fields(companions[part]) for part in ("bim", "fam"))
    if len({each[:2] for each in people}) < len(people):
        raise CorruptSource(
            f"{companions['fam'].name} has a person twice (family and person identifiers); get it again"
        )
    if len(content) != 3 + len(snps) * -(-len(people) // 4) or not content.startswith(HEADER):
        raise CorruptSource(
            f"{bed.name} is no SNP-major PLINK 1 bed file of {len(people):,} people and "
            f"{len(snps):,} SNPs, which {companions['fam'].name} and {companions['bim'].name} list; get all "
            "three again, or convert them with `plink --make-bed`"
        )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "set.bed"
        path.write_bytes(content)
        with open_bed(path, iid_count=len(people), sid_count=len(snps), num_threads=1) as opened:
            calls = opened.read(dtype="int8", order="F").T
    calls[calls == BED_READER_MISSING] = MISSING
    table = pd.DataFrame(snps, columns=list(_COLUMNS)).drop(columns="centimorgans")
    try:
        table["position"] = table["position"].astype(np.int64)
    except ValueError:
        raise CorruptSource(
            f"{companions['bim'].name} has positions that are not whole numbers; get it again"
        ) from None
    return PlinkSet(tuple(each[0] for each in people), tuple(each[1] for each in people), table, calls)


def _fields(path: Path) -> list[tuple[str, ...]]:
    """Return the six fields of each row of a fam or bim file, in UTF-8 or Latin-1."""
    content = read_bytes(path).replace(b'"', b"").removeprefix(codecs.BOM_UTF8)  # some tools write these
    try:
        content.decode("utf-8")
        encoding = "utf-8"
    except UnicodeDecodeError:
        encoding = "latin-1"  # a letter for each byte
    # Only ASCII blanks separate fields: a name may contain other blanks.
    lines = (line.split() for line in content.splitlines())
    rows = [tuple(field.decode(encoding) for field in line) for line in lines if line]
    if not rows:
        raise CorruptSource(f"{path.name} has no rows; get it again")
    if rows[0][0].startswith("#") or rows[0][0].upper() in _HEADERS:
        raise CorruptSource(
            f"{path.name} begins with a header line, {rows[0][0]} …, which PLINK 1 files do not have; remove "
            "the line, or convert the set with `plink2 --make-bed`"
        )
    if any(len(row) != len(_COLUMNS) for row in rows):
        raise CorruptSource(f"{path.name} has rows without exactly 6 fields; get it again")
    return rows
