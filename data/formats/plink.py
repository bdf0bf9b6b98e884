"""Read PLINK 1 files by bed-reader: ``.bed`` (calls, SNP-major), ``.bim`` (SNPs) and ``.fam`` (people).

Each may be compressed by gzip. Calls are copies of the bim file's first allele, A1, as coded in the file.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from data.errors import CorruptSource
from data.formats.archives import open_plain
from data.formats.cohort import MISSING, Calls

HEADER = b"\x6c\x1b\x01"  # of a file that lists all people of one SNP after another
BED_READER_MISSING = -127


@dataclass(frozen=True, eq=False)
class PlinkSet:
    """A checked set of PLINK 1 files.

    ``families`` and ``people`` are the fam file's first two columns; ``snps`` and ``calls`` are as in
    `data.formats.cohort.Cohort`.
    """

    families: tuple[str, ...]
    people: tuple[str, ...]
    snps: pd.DataFrame
    calls: Calls


def read_plink(bed: Path, companions: Mapping[str, Path]) -> PlinkSet:
    """Read a bed file with its bim and fam files, and check that they belong together."""
    from bed_reader import open_bed

    contents = {part: read_bytes(path) for part, path in (("bed", bed), *companions.items())}
    with TemporaryDirectory() as folder:
        for part in ("bed", "bim", "fam"):
            content = contents[part] if part == "bed" else contents[part].replace(b'"', b"")
            Path(folder, f"set.{part}").write_bytes(content)
        try:
            with open_bed(Path(folder, "set.bed"), num_threads=1) as opened:
                n_people, n_snps = opened.iid_count, opened.sid_count
                n_bytes = 3 + n_snps * -(-n_people // 4)
                if len(contents["bed"]) != n_bytes or not contents["bed"].startswith(HEADER):
                    raise CorruptSource(
                        f"{bed.name} is no SNP-major PLINK 1 bed file of {n_people:,} people and "
                        f"{n_snps:,} SNPs, which its fam and bim files list; get all three again, or "
                        "convert them with `plink --make-bed`"
                    )
                calls = opened.read(dtype="int8", order="F").T
                snps = pd.DataFrame(
                    {
                        "snp": opened.sid,
                        "chromosome": opened.chromosome,
                        "position": opened.bp_position.astype(np.int64),
                        "allele_1": opened.allele_1,
                        "allele_2": opened.allele_2,
                    }
                )
                families, people = (tuple(map(str, ids)) for ids in (opened.fid, opened.iid))
        except CorruptSource:
            raise
        except Exception as error:  # of the reader, for lines without exactly six fields, for example
            raise CorruptSource(
                f"{bed.name}, {companions['bim'].name} and {companions['fam'].name} cannot be read as a set "
                f"of PLINK 1 files with 6 fields a line ({type(error).__name__}); get all three again"
            ) from None
    calls[calls == BED_READER_MISSING] = MISSING
    return PlinkSet(families, people, snps, calls)


def read_bytes(path: Path) -> bytes:
    """Return a file's bytes, decompressed if it is a gzip file with any name."""
    try:
        with open_plain(path) as handle:
            return handle.read()
    except (EOFError, OSError, zlib.error):
        raise CorruptSource(f"{path.name} is truncated or damaged; get it again") from None
