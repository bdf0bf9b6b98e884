"""Files of local reports: an Arrow table with a row per report and the public settings in its schema.

report_id   16 random bytes, by which duplicates are seen
state       sha256 of the public message that the report answers
report      its numbers, all reports of a file having as many
"""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from data.errors import DataError
from data.store.folders import atomic_file, open_regular

ARROW = b"ARROW1"  # what an Arrow file begins with
_MESSAGE, _FILES = b"dpcost.message", b"dpcost.files"


@dataclass(frozen=True, eq=False)
class ReportTable:
    """Reports (n, p) as they were sent, with their ids and the states that they answer.

    ``message`` is what was public when they were made. ``files`` may give the keyed fingerprint of the file
    that they are made of, and its number of rows.
    """

    message: bytes
    ids: list[bytes]
    states: list[bytes]
    reports: npt.NDArray[np.float64]
    files: dict[str, int] = field(default_factory=dict)


def message_digest(message: bytes) -> bytes:
    return hashlib.sha256(message).digest()


def write_reports(path: Path, table: ReportTable) -> None:
    n, p = table.reports.shape
    flat = pa.array(np.ascontiguousarray(table.reports).reshape(n * p))
    columns = {
        "report_id": pa.array(table.ids, pa.binary(16)),
        "state": pa.array(table.states, pa.binary(32)),
        "report": pa.FixedSizeListArray.from_arrays(flat, p),
    }
    public = {_MESSAGE: table.message, _FILES: json.dumps(table.files).encode()}
    arrow = pa.table(columns).replace_schema_metadata(public)
    with atomic_file(path) as handle, pa.ipc.new_file(handle, arrow.schema) as writer:
        writer.write_table(arrow)


def read_reports(path: Path) -> ReportTable:
    try:
        with open_regular(path) as handle:
            arrow = pa.ipc.open_file(handle).read_all()
    except FileNotFoundError:
        raise DataError(f"{path} is not a file; check the path") from None
    except (pa.ArrowException, OSError):
        raise DataError(f"{path} is not an Arrow file of reports, as dpcost local report writes") from None
    expected = {"report_id": pa.binary(16), "state": pa.binary(32)}
    for name, kind in expected.items():
        if name not in arrow.column_names or arrow.schema.field(name).type != kind:
            raise DataError(f"{path} must have a column {name} of type {kind}; it is no file of reports")
    kind = arrow.schema.field("report").type if "report" in arrow.column_names else None
    if kind is None or not pa.types.is_fixed_size_list(kind) or kind.value_type != pa.float64():
        raise DataError(
            f"{path} must have a column report with lists of double-precision numbers of one size, got {kind}"
        )
    public = arrow.schema.metadata or {}
    message = public.get(_MESSAGE)
    if message is None or arrow.num_rows == 0:
        raise DataError(f"{path} has no reports, or does not say what was public when they were made")
    if any(arrow.column(name).null_count for name in (*expected, "report")):
        raise DataError(f"{path} has reports with missing entries; leave them out")
    chunk = arrow.column("report").combine_chunks()
    numbers = chunk.flatten()
    if numbers.null_count:
        raise DataError(f"{path} has reports with missing numbers; leave them out")
    return ReportTable(
        message=message,
        ids=arrow.column("report_id").to_pylist(),
        states=arrow.column("state").to_pylist(),
        reports=numbers.to_numpy(zero_copy_only=False).reshape(arrow.num_rows, kind.list_size),
        files=_files(path, public.get(_FILES, b"{}")),
    )


def _files(path: Path, content: bytes) -> dict[str, int]:
    try:
        return {str(name): int(n_rows) for name, n_rows in dict(json.loads(content)).items()}
    except (ValueError, TypeError, RecursionError):
        raise DataError(
            f"{path} does not say of which file its reports are; it is no file of reports"
        ) from None
