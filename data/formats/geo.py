"""Read genotype calls from a GEO series matrix (``*_series_matrix.txt``, plain or compressed by gzip).

The file begins with ``!Sample_…`` lines, tab-separated with one quoted field per sample. The table of calls
is between ``!series_matrix_table_begin`` and ``!series_matrix_table_end``: a header ``ID_REF`` with the
samples' accessions, and a line per probe. ``!Sample_characteristics_ch1`` lines need not be aligned between
samples. The reader therefore looks for a sample's group in all of them. The stored number is the copies of
allele A.
"""

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data.errors import CorruptSource
from data.formats.archives import open_plain
from data.formats.cohort import BLOCK_SNPS, MISSING, Cohort, SnpBlock, label_people, unplaced_snps

CALLS = {"AA": 2, "AB": 1, "BA": 1, "BB": 0, "NoCall": MISSING, "NC": MISSING, "": MISSING, "null": MISSING}
_BEGIN, _END = "!series_matrix_table_begin", "!series_matrix_table_end"


def parse_series_matrix(path: Path, phrases: Sequence[str]) -> Cohort:
    """Read a series matrix; its genotype calls are streamed in constant memory.

    ``phrases`` are in lower case. The characteristics of each sample contain one of them, which becomes the
    person's label. The cohort's blocks raise faults below the table's header.
    """
    rows = _rows(path)
    samples, characteristics = list[str](), list[list[str]]()
    for key, *fields in rows:
        if key == _BEGIN:
            break
        if key == "!Sample_geo_accession":
            samples = fields
        elif key.startswith("!Sample_characteristics_ch"):
            characteristics.append([field.lower() for field in fields])
    else:
        raise CorruptSource(f"{path.name} is not a GEO series matrix: it has no line {_BEGIN}")
    if not samples or any(len(fields) != len(samples) for fields in characteristics):
        raise CorruptSource(
            f"{path.name} needs a line !Sample_geo_accession, and lines !Sample_characteristics_ch1 of its "
            f"{len(samples):,} samples; get the file again"
        )
    labels = [_label(fields, phrases) for fields in zip(*characteristics, strict=True)]
    if not any(labels):
        raise CorruptSource(
            f"{path.name}: no !Sample_characteristics_ch1 says {' or '.join(map(repr, phrases))}, so the "
            "groups are not known; this layout is not supported"
        )
    key, *people = next(rows, [_END])
    if key != "ID_REF":
        raise CorruptSource(
            f"{path.name}: its table does not begin with ID_REF; a table without calls, as of series whose "
            "calls are in a RAW archive, is not supported"
        )
    kept, of_kept, repairs = label_people(
        people, dict(zip(samples, labels, strict=True)), labels_file=path.name, others_expected=False
    )
    names = tuple(np.array(people)[kept].tolist())
    return Cohort(names, of_kept, _blocks(path.name, rows, kept), len(people), repairs)


def _label(characteristics: Sequence[str], phrases: Sequence[str]) -> str:
    found = [phrase for phrase in phrases if any(phrase in value for value in characteristics)]
    return found[0] if len(found) == 1 else ""


def _blocks(file: str, rows: Iterator[list[str]], kept: npt.NDArray[np.bool_]) -> Iterator[SnpBlock]:
    names, calls = list[str](), list[list[int]]()
    for name, *cells in rows:
        if name == _END:
            break
        if len(cells) != len(kept):
            raise CorruptSource(
                f"{file}: a row of its table has {len(cells):,} calls, the header {len(kept):,} samples; "
                "get the file again"
            )
        if others := sum(cell not in CALLS for cell in cells):
            raise CorruptSource(
                f"{file}: a row of its table has {others:,} of {len(cells):,} entries that are none of "
                f"{', '.join(filter(None, CALLS))}; this layout is not supported"
            )
        names.append(name)
        calls.append([CALLS[cell] for cell in cells])
        if len(names) == BLOCK_SNPS:
            yield _block(names, calls, kept)
            names, calls = [], []
    else:
        raise CorruptSource(f"{file} is truncated: it has no line {_END}; get the file again")
    if names:
        yield _block(names, calls, kept)


def _block(names: list[str], calls: list[list[int]], kept: npt.NDArray[np.bool_]) -> SnpBlock:
    # A series matrix has only the probes; their positions are in the platform's table.
    return SnpBlock(unplaced_snps(names), np.array(calls, dtype=np.int8)[:, kept])


def _rows(path: Path) -> Iterator[list[str]]:
    """Yield the fields of the lines that are not blank."""
    try:
        with open_plain(path) as opened:
            while line := opened.readline().decode("latin-1"):
                if line.strip():
                    yield [field.strip().strip('"') for field in line.rstrip("\r\n").split("\t")]
    except (EOFError, OSError, zlib.error):
        raise CorruptSource(f"{path.name} is truncated or damaged; get it again") from None
