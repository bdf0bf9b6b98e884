"""Read PLINK 1 files: ``.bed`` (two bits per call, SNP-major), ``.bim`` (SNPs) and ``.fam`` (people).

Each may be compressed by gzip. Calls are copies of the bim file's first allele, A1, as coded in the file.
"""

import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
import pandas as pd

from data.errors import CorruptSource
from data.formats.archives import is_gzip, open_plain
from data.formats.cohort import BLOCK_SNPS, MISSING, SnpBlock

MAGIC = b"\x6c\x1b"
SNP_MAJOR, SAMPLE_MAJOR = b"\x01", b"\x00"
BED_READER_MISSING = -127


@dataclass(frozen=True, eq=False)
class PlinkSet:
    """A checked set of PLINK 1 files.

    ``families`` and ``people`` are the fam file's first two columns; the bim file's columns are those of
    `SnpBlock.snps`.
    """

    bed: Path
    families: tuple[str, ...]
    people: tuple[str, ...]
    snps: pd.DataFrame

    def blocks(self, kept: npt.NDArray[np.bool_]) -> Iterator[SnpBlock]:
        """Read the calls of the kept people block by block."""
        from bed_reader import open_bed

        with ExitStack() as stack:
            bed = self.bed
            if is_gzip(bed):
                bed = Path(stack.enter_context(TemporaryDirectory())) / "calls.bed"
                bed.write_bytes(read_bytes(self.bed))
            sizes = {"iid_count": len(self.people), "sid_count": len(self.snps)}
            reader = stack.enter_context(open_bed(bed, **sizes, properties={}, num_threads=1))
            for start in range(0, len(self.snps), BLOCK_SNPS):
                block = slice(start, start + BLOCK_SNPS)
                calls = reader.read((kept, block), dtype="int8", order="F").T
                calls[calls == BED_READER_MISSING] = MISSING
                yield SnpBlock(self.snps.iloc[block], calls)


def open_plink(bed: Path, bim: Path, fam: Path) -> PlinkSet:
    """Read the two tables, and check that the three files are complete and belong together."""
    people = _rows(fam, 6)
    snps = _rows(bim, 6)
    _check_bed(bed, bim, fam, len(people), len(snps))
    try:
        positions = [int(row[3]) for row in snps]
    except ValueError:
        raise CorruptSource(f"{bim.name} has positions that are not whole numbers; correct it") from None
    table = pd.DataFrame(
        {
            "snp": [row[1] for row in snps],
            "chromosome": [row[0] for row in snps],
            "position": positions,
            "allele_1": [row[4] for row in snps],
            "allele_2": [row[5] for row in snps],
        }
    )
    return PlinkSet(bed, tuple(row[0] for row in people), tuple(row[1] for row in people), table)


def companion(companions: Mapping[str, Path], part: str, file: str) -> Path:
    if part not in companions:
        raise CorruptSource(f"{file} came without its {part} file; add all files of the set")
    return companions[part]


def read_bytes(path: Path) -> bytes:
    """Return a file's bytes, decompressed if it is a gzip file with any name."""
    try:
        with open_plain(path) as handle:
            return handle.read()
    except (EOFError, OSError, zlib.error):
        raise CorruptSource(f"{path.name} is truncated or damaged; get it again") from None


def _rows(path: Path, n_fields: int) -> list[list[str]]:
    """Return the fields of a blank-separated file without quotation marks, which some tools write."""
    content = read_bytes(path)
    try:
        content.decode()
        encoding = "utf-8-sig"
    except UnicodeDecodeError:
        encoding = "latin-1"  # a letter for each byte
    # Only ASCII blanks separate fields: a name may contain other blanks.
    lines = (line.replace(b'"', b"").split() for line in content.splitlines())
    rows = [[field.decode(encoding) for field in line] for line in lines if line]
    if not rows:
        raise CorruptSource(f"{path.name} has no rows; get it again")
    if wrong := sum(len(row) != n_fields for row in rows):
        raise CorruptSource(
            f"{path.name} has {wrong:,} of {len(rows):,} rows without exactly {n_fields} fields; get it again"
        )
    return rows


def _check_bed(bed: Path, bim: Path, fam: Path, n_people: int, n_snps: int) -> None:
    start, size = _start_and_size(bed)
    if start[:2] != MAGIC:
        raise CorruptSource(
            f"{bed.name} is not a PLINK 1 bed file: it does not begin with the bytes 6c 1b; get it again"
        )
    if start[2:3] == SAMPLE_MAJOR:
        raise CorruptSource(
            f"{bed.name} is sample-major, which PLINK has not written since 2007; "
            "convert it with `plink --make-bed`"
        )
    if start[2:3] != SNP_MAJOR:
        raise CorruptSource(f"{bed.name} is neither SNP-major nor sample-major; get it again")
    n_bytes = 3 + n_snps * -(-n_people // 4)
    if size != n_bytes:
        raise CorruptSource(
            f"{bed.name} has {size:,} bytes, but the {n_people:,} people of {fam.name} and the {n_snps:,} "
            f"SNPs of {bim.name} need {n_bytes:,}: one is truncated or of another set; get all three again"
        )


def _start_and_size(path: Path) -> tuple[bytes, int]:
    """Return the first three bytes, and the number of bytes, of the decompressed file."""
    try:
        with open_plain(path) as opened:
            start = opened.read(3)
            size = len(start)
            while chunk := opened.read(1 << 20):
                size += len(chunk)
            return start, size
    except (EOFError, OSError, zlib.error):
        raise CorruptSource(f"{path.name} is truncated or damaged; get it again") from None
