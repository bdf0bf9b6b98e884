"""Frames of a flock in the store: a wide CSV, read as a stream, and a Parquet file of float32 columns.

A row is a frame: the features of boid 1, of boid 2, … and a label, 0 or 1. Frames with a missing number are
dropped. Text is read in pieces of a few megabytes. Faults are named by row and column, never by value.
"""

import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from data import datasets
from data.dataset import FRAME_LABEL, Dataset
from data.errors import CorruptSource
from data.fetch.raw import RawFile
from data.formats.archives import damaged
from data.simulations import flock
from data.store.folders import atomic_file
from data.store.references import MAX_DROPPED_FRACTION, FramesRef, Repair

ROW_GROUP = 4096
PIECE_BYTES = 1 << 23

Matrix = npt.NDArray[np.float32]


def store_frames(dataset: Dataset, raw: RawFile, path: Path, seed: int, n_rows: int) -> FramesRef:
    """Read a dataset's frames, or simulate ``n_rows`` of them; check and write them."""
    source = _simulated(dataset, n_rows, seed) if raw.is_stand_in else _read(dataset, raw)
    rows_read, blocks = 0, []
    for block in source:
        rows_read += block.shape[1]
        blocks.append(block[:, np.isfinite(block).all(axis=0)].astype(np.float32))
    frames = np.hstack(blocks)
    dropped = rows_read - frames.shape[1]
    _check(dataset, frames, dropped, n_rows if raw.is_stand_in else dataset.n_rows, rows_read)
    labels = frames[-1].astype(np.int8)
    ref = FramesRef(
        **raw.provenance(path),
        n_rows=len(labels),
        rows_read=rows_read,
        repairs=(Repair("a number is missing", dropped),) if dropped else (),
        label_counts=(int((labels == 0).sum()), int((labels == 1).sum())),
        frames_per_simulation=flock.FRAMES if raw.is_stand_in else 0,
    )
    names = (*dataset.frame_columns, FRAME_LABEL)
    table = pa.Table.from_arrays([*map(pa.array, frames[:-1]), pa.array(labels)], names)
    options: Any = {"compression": "lz4", "use_dictionary": False, "write_statistics": False}
    with atomic_file(path) as handle:
        pq.write_table(table, handle, row_group_size=ROW_GROUP, **options)
    return ref


def _check(dataset: Dataset, frames: Matrix, dropped: int, published: int, rows_read: int) -> None:
    """Refuse frames (columns, rows) that are too few, or outside the public bounds."""
    faults = []
    if rows_read != published or dropped > MAX_DROPPED_FRACTION * rows_read:
        faults.append(
            f"the file has {rows_read:,} rows, {dropped:,} of which lack a number; {published:,} were "
            f"published, of which at most {MAX_DROPPED_FRACTION:.0%} may"
        )
    for j, column in enumerate(dataset.columns):
        values = frames[j : -1 : len(dataset.columns)]
        if values.min(initial=column.lower) < column.lower or values.max(initial=column.upper) > column.upper:
            faults.append(f"{column.name} is outside its public bounds")
    if not np.isin(frames[-1], (0, 1)).all():
        faults.append(f"the label {dataset.label!r} must be 0 or 1")
    if faults:
        raise CorruptSource(f"{dataset.name}: {'; '.join(faults)}; get the file again")


def _simulated(dataset: Dataset, n_rows: int, seed: int) -> Iterator[Matrix]:
    left = n_rows
    for frames, labels in getattr(flock, dataset.fallback)(n_rows, seed):
        yield np.column_stack([frames, labels])[:left].T
        left -= len(frames)


def _read(dataset: Dataset, raw: RawFile) -> Iterator[Matrix]:
    opener: Callable[[Path], AbstractContextManager[BinaryIO]] = datasets.parser(dataset.name, raw.layout)
    path = Path(raw.path)
    try:
        with opener(path) as stream:
            yield from read_csv(stream, (*dataset.frame_columns, dataset.label), file=path.name)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError):
        raise damaged(path) from None


def read_csv(stream: BinaryIO, names: tuple[str, ...], *, file: str) -> Iterator[Matrix]:
    """Yield comma-separated numbers under a header as float32 pieces (columns, rows), NaN for blanks.

    A fault is reported by row (the first after the header is 1) and column.
    """
    header = stream.readline().decode("utf-8-sig", "replace").split(",")
    if [name.strip().strip('"').strip() for name in header] != list(names):
        raise CorruptSource(
            f"{file} has another layout, with {len(header):,} columns; expected are {len(names):,}, from "
            f"{names[0]!r} to {names[-1]!r}; get the published file"
        )
    try:
        yield from (
            np.stack([column.to_numpy(zero_copy_only=False) for column in piece.columns])
            for piece in pa_csv.open_csv(
                stream,
                # Only a reader with one thread knows the row of a fault.
                pa_csv.ReadOptions(column_names=list(names), block_size=PIECE_BYTES, use_threads=False),
                convert_options=pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.float32()), null_values=["", "NaN", "nan"]
                ),
            )
        )
    except pa.ArrowInvalid as error:
        # The rest of the message may hold a cell.
        place = re.match(
            r"In CSV column #\d+: Row #\d+|CSV parse error: Row #\d+: \w+ \d+ \w+, got \d+", str(error)
        )
        fault = place[0] if place else "it has no rows, or a line that is too long"
        raise CorruptSource(f"{file} cannot be read as numbers ({fault}); get the file again") from None
