"""Read genotype calls from a GEO series matrix (``*_series_matrix.txt``, plain or compressed by gzip).

The file begins with ``!Sample_…`` lines, tab-separated with one quoted field per sample. The table of calls
is between ``!series_matrix_table_begin`` and ``!series_matrix_table_end``: a header ``ID_REF`` with the
samples' accessions, and a line per probe. A sample's group may be in any of the lines
``!Sample_characteristics_ch1``. The stored number is the copies of allele A.
"""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from data.errors import CorruptSource
from data.formats.archives import read_bytes
from data.formats.cohort import MISSING, Cohort, labeled_cohort

CALLS = {"AA": 2, "AB": 1, "BA": 1, "BB": 0, "NoCall": MISSING, "NC": MISSING, "": MISSING, "null": MISSING}
_BEGIN, _END = "!series_matrix_table_begin", "!series_matrix_table_end"


def parse_series_matrix(path: Path, phrases: Sequence[str]) -> Cohort:
    """Read a series matrix; a person's label is the phrase in lower case that their characteristics have."""
    lines = read_bytes(path).decode("latin-1").splitlines()
    rows = [row for row in csv.reader(lines, delimiter="\t") if row]
    keys = [row[0] for row in rows]
    if _BEGIN not in keys or keys[-1] != _END or keys[keys.index(_BEGIN) + 1] != "ID_REF":
        raise CorruptSource(
            f"{path.name} is not a whole GEO series matrix: it needs the lines {_BEGIN}, ID_REF and {_END}. "
            "Calls in a RAW archive are not supported; get the file again"
        )
    begin = keys.index(_BEGIN)
    people, table = rows[begin + 1][1:], rows[begin + 2 : -1]
    known = [row[1:] for row in rows[:begin] if row[0].startswith("!Sample_characteristics_ch")]
    samples = next((row[1:] for row in rows[:begin] if row[0] == "!Sample_geo_accession"), [])
    if any(len(row) != len(people) for row in (samples, *known)) or not known:
        raise CorruptSource(
            f"{path.name} needs a line !Sample_geo_accession and lines !Sample_characteristics_ch1 of its "
            f"{len(people):,} samples; get the file again"
        )
    labels = [_label(" ".join(fields).lower(), phrases) for fields in zip(*known, strict=True)]
    if wrong := sum(len(row) != 1 + len(people) or not CALLS.keys() >= set(row[1:]) for row in table):
        raise CorruptSource(
            f"{path.name}: {wrong:,} rows of its table do not have {len(people):,} calls, each of "
            f"{', '.join(filter(None, CALLS))}; this layout is not supported"
        )
    names = [row[0] for row in table]
    # A series matrix has only the probes; their positions are in the platform's table.
    about = {"snp": names, "chromosome": "", "position": pd.NA, "allele_1": "A", "allele_2": "B"}
    calls = np.array([[CALLS[cell] for cell in row[1:]] for row in table], dtype=np.int8)
    return labeled_cohort(
        people,
        pd.DataFrame(about),
        calls.reshape(-1, len(people)),
        dict(zip(samples, labels, strict=True)),
        labels_file=path.name,
        others_expected=False,
    )


def _label(characteristics: str, phrases: Sequence[str]) -> str:
    found = [phrase for phrase in phrases if phrase in characteristics]
    return found[0] if len(found) == 1 else ""
