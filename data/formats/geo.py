"""Read genotype calls from a GEO series matrix (``*_series_matrix.txt``, plain or compressed by gzip).

The file begins with ``!Sample_…`` lines, tab-separated with one quoted field per sample. The table of calls
is between ``!series_matrix_table_begin`` and ``!series_matrix_table_end``: a header ``ID_REF`` with the
samples' accessions, and a line per probe. A sample's group may be in any of the lines
``!Sample_characteristics_ch1``. The stored number is the copies of allele A.
"""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv

from data.errors import CorruptSource, DamagedFile
from data.formats.archives import open_unpacked
from data.formats.cohort import MISSING, Calls, Cohort, labeled_cohort

CALLS = {"AA": 2, "AB": 1, "BA": 1, "BB": 0, "NoCall": MISSING, "NC": MISSING, "": MISSING, "null": MISSING}
PIECE_BYTES = 1 << 22
_BEGIN, _END = "!series_matrix_table_begin", "!series_matrix_table_end"
_UNKNOWN = -2  # a cell that is no call


def parse_series_matrix(path: Path, phrases: Sequence[str]) -> Cohort:
    """Read a series matrix; a person's label is the phrase in lower case that their characteristics have."""
    with open_unpacked(path) as stream:
        above, people = _read_header(stream, path)
        known = [row[1:] for row in above if row[0].startswith("!Sample_characteristics_ch")]
        samples = next((row[1:] for row in above if row[0] == "!Sample_geo_accession"), [])
        if any(len(row) != len(people) for row in (samples, *known)) or not known or not people:
            raise CorruptSource(
                f"{path.name} needs a line !Sample_geo_accession and lines !Sample_characteristics_ch1 of "
                f"its {len(people):,} samples; get the file again"
            )
        labels = [_label(" ".join(fields).lower(), phrases) for fields in zip(*known, strict=True)]
        names, calls = _read_calls(stream, len(people), path)
    # A series matrix has only the probes; their positions are in the platform's table.
    about = {"snp": names, "chromosome": "", "position": pd.NA, "allele_1": "A", "allele_2": "B"}
    return labeled_cohort(
        people,
        pd.DataFrame(about),
        calls,
        dict(zip(samples, labels, strict=True)),
        labels_file=path.name,
        others_expected=False,
    )


def _read_header(stream: Iterable[bytes], path: Path) -> tuple[list[list[str]], list[str]]:
    """Read the lines above the table of calls and its header; return their fields, and the samples."""
    lines = (line.decode("latin-1") for line in stream)
    rows = (row for row in csv.reader(lines, delimiter="\t") if row)
    above: list[list[str]] = []
    for row in rows:
        if row[0] == _BEGIN:
            header = next(rows, [""])
            if header[0] != "ID_REF":
                break
            return above, header[1:]
        above.append(row)
    raise _incomplete(path)


def _read_calls(stream: BinaryIO, n_people: int, path: Path) -> tuple[pa.ChunkedArray, Calls]:
    """Read the table of calls in pieces; return the names of its probes and the calls (n_snps, n_people)."""
    n_wrong, is_complete = 0, False

    def count_wrong_row(row: pa_csv.InvalidRow) -> str:
        nonlocal n_wrong, is_complete
        is_complete = row.text.strip() == _END
        n_wrong += not is_complete
        return "skip"

    cell = pa.dictionary(pa.int32(), pa.string())
    columns = {"ID_REF": pa.string(), **{str(i): cell for i in range(n_people)}}
    pieces = pa_csv.open_csv(
        stream,
        pa_csv.ReadOptions(
            column_names=list(columns), block_size=PIECE_BYTES, use_threads=False, encoding="latin-1"
        ),
        pa_csv.ParseOptions(delimiter="\t", invalid_row_handler=count_wrong_row),
        pa_csv.ConvertOptions(column_types=columns),
    )
    names, calls = [], bytearray()  # a list of pieces would need the memory twice when it is joined
    for piece in pieces:
        names.append(piece.column(0))
        codes = np.stack([_codes(column) for column in piece.columns[1:]], axis=1)
        n_wrong += int((codes == _UNKNOWN).any(axis=1).sum())
        calls += codes.data
    if not is_complete:
        raise _incomplete(path)
    if n_wrong:
        raise CorruptSource(
            f"{path.name}: {n_wrong:,} rows of its table do not have {n_people:,} calls, each of "
            f"{', '.join(filter(None, CALLS))}; this layout is not supported"
        )
    return pa.chunked_array(names, pa.string()), np.frombuffer(calls, dtype=np.int8).reshape(-1, n_people)


def _codes(cells: pa.DictionaryArray) -> npt.NDArray[np.int8]:
    codes = [CALLS.get(text, _UNKNOWN) for text in cells.dictionary.to_pylist()]
    indices: npt.NDArray[np.int32] = cells.indices.to_numpy()
    return np.array(codes, dtype=np.int8)[indices]


def _incomplete(path: Path) -> DamagedFile:
    return DamagedFile(
        f"{path.name} is not a whole GEO series matrix: it needs the lines {_BEGIN}, ID_REF and {_END}. "
        "Calls in a RAW archive are not supported; get the file again"
    )


def _label(characteristics: str, phrases: Sequence[str]) -> str:
    labels = [phrase for phrase in phrases if phrase in characteristics]
    return labels[0] if len(labels) == 1 else ""
