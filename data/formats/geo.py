"""Read genotype calls from a GEO series matrix (``*_series_matrix.txt``, plain or compressed by gzip).

The file begins with ``!Series_…`` and ``!Sample_…`` lines, tab-separated with one quoted field per sample.
The table is between ``!series_matrix_table_begin`` and ``!series_matrix_table_end``. It has a header
``ID_REF`` with the samples' accessions and one line of calls per probe. ``!Sample_characteristics_ch1`` lines
need not be aligned between samples. The reader therefore looks for a sample's group in all of them.

Calls are ``AA``, ``AB``, ``BB``, ``NoCall``, or the codes of Affymetrix CHP files. The codes are 6 = AA, 7 =
BB, 8 = AB, 11 = none. Blank and ``null`` are missing. The stored number is the copies of allele A.
Intensities, log ratios, and the CEL or CHP files of a ``…_RAW.tar`` are not supported and are refused by
name.
"""

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data.errors import CorruptSource
from data.formats.archives import open_plain
from data.formats.cohort import BLOCK_SNPS, MISSING, Cohort, SnpBlock, label_people, unplaced_snps

_ABSENT = MISSING % 256
CODES = {
    "AA": 2, "AB": 1, "BA": 1, "BB": 0, "NoCall": _ABSENT, "NC": _ABSENT, "": _ABSENT, "null": _ABSENT,
    "6": 2, "7": 0, "8": 1, "11": _ABSENT,
}  # fmt: skip
_OTHER_WAY = (
    "convert the calls of its RAW archive to AA, AB, BB in a series matrix, or to PLINK 1 files; CEL and CHP "
    "files are not supported"
)
_BEGIN, _END = "!series_matrix_table_begin", "!series_matrix_table_end"


def parse_series_matrix(path: Path, phrases: Sequence[str]) -> Cohort:
    """Read a series matrix; its genotype calls are streamed in constant memory.

    ``phrases`` are in lower case. The characteristics of each sample contain one of them, which becomes the
    person's label. The cohort's blocks raise faults below the table's header.
    """
    lines = _lines(path)
    accessions, labels = _samples(path.name, lines, phrases)
    header = _fields(next(lines, ""))
    if header[0] == _END or header == [""]:
        raise CorruptSource(f"{path.name} has an empty table of calls; {_OTHER_WAY}")
    if header[0] != "ID_REF":
        raise CorruptSource(f"{path.name}: its table does not begin with ID_REF; get the file again")
    people = header[1:]
    kept, of_kept, repairs = label_people(
        people, dict(zip(accessions, labels, strict=True)), labels_file=path.name, others_expected=False
    )
    return Cohort(
        tuple(np.array(people)[kept].tolist()), of_kept, _blocks(path.name, lines, kept), len(people), repairs
    )


def _samples(file: str, lines: Iterator[str], phrases: Sequence[str]) -> tuple[list[str], list[str]]:
    """Read the lines before the table; return the samples' accessions and labels."""
    accessions: list[str] = []
    characteristics: list[list[str]] = []
    for line in lines:
        if line.startswith(_BEGIN):
            break
        if line.startswith("!Sample_geo_accession"):
            accessions = _fields(line)[1:]
        elif line.startswith("!Sample_characteristics_ch"):
            characteristics.append(_fields(line.lower())[1:])
    else:
        raise CorruptSource(f"{file} is not a GEO series matrix: it has no line {_BEGIN}; get the file again")
    if not accessions:
        raise CorruptSource(f"{file} has no line !Sample_geo_accession; get the file again")
    if any(len(values) != len(accessions) for values in characteristics):
        raise CorruptSource(
            f"{file} has !Sample_characteristics_ch1 lines that are not of its {len(accessions):,} samples; "
            "get the file again"
        )
    labels = []
    for values in zip(*characteristics, strict=True) if characteristics else ():
        phrases_here = [phrase for phrase in phrases if any(phrase in value for value in values)]
        labels.append(phrases_here[0] if len(phrases_here) == 1 else "")
    if not any(labels):
        raise CorruptSource(
            f"{file}: no !Sample_characteristics_ch1 says {' or '.join(map(repr, phrases))}, so the groups "
            "are not known; this layout is not supported"
        )
    return accessions, labels


def _blocks(file: str, lines: Iterator[str], kept: npt.NDArray[np.bool_]) -> Iterator[SnpBlock]:
    names: list[str] = []
    rows: list[bytes] = []
    for line in lines:
        if line.startswith(_END):
            break
        name, *cells = line.rstrip("\r\n").replace('"', "").split("\t")
        if len(cells) != len(kept):
            raise CorruptSource(
                f"{file}: a row of its table has {len(cells):,} calls, the header {len(kept):,} samples; "
                "get the file again"
            )
        try:
            rows.append(bytes(map(CODES.__getitem__, cells)))
        except KeyError:
            raise CorruptSource(f"{file}: {_what_else(cells)}") from None
        names.append(name)
        if len(rows) == BLOCK_SNPS:
            yield _block(names, rows, kept)
            names, rows = [], []
    else:
        raise CorruptSource(f"{file} is truncated: it has no line {_END}; get the file again")
    if rows:
        yield _block(names, rows, kept)


def _block(names: list[str], rows: list[bytes], kept: npt.NDArray[np.bool_]) -> SnpBlock:
    calls = np.frombuffer(b"".join(rows), dtype=np.int8).reshape(len(rows), -1)[:, kept]
    # A series matrix has only the probes; their positions are in the platform's table.
    return SnpBlock(unplaced_snps(names), calls)


def _what_else(cells: list[str]) -> str:
    others = [cell for cell in cells if cell not in CODES]
    try:
        for cell in others:
            float(cell)
    except ValueError:
        return (
            f"a row of its table has {len(others):,} of {len(cells):,} entries that are none of AA, AB, BB, "
            "NoCall, 6, 7, 8; this layout is not supported"
        )
    return (
        "its table holds numbers that are no genotype calls (intensities or log ratios?), "
        f"expected AA, AB, BB, NoCall or 6, 7, 8; {_OTHER_WAY}"
    )


def _fields(line: str) -> list[str]:
    return [field.strip().strip('"') for field in line.rstrip("\r\n").split("\t")]


def _lines(path: Path) -> Iterator[str]:
    """Yield the non-blank lines of a text file, compressed or not."""
    try:
        with open_plain(path) as opened:
            start = opened.peek(512) if hasattr(opened, "peek") else b""
            if start[257:262] == b"ustar":
                raise CorruptSource(
                    f"{path.name} is an archive of raw array files, not a series matrix; {_OTHER_WAY}"
                )
            while line := opened.readline():
                if line.strip():
                    yield line.decode("latin-1")
    except (EOFError, OSError, zlib.error):
        raise CorruptSource(f"{path.name} is truncated or damaged; get it again") from None
