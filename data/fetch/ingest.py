"""Conversion of a raw file to a Parquet table in the store with its provenance.

Frames of a flock are a wide CSV, read as a stream, and become a Parquet file of float32 columns. A row is a
frame: the features of boid 1, of boid 2, … and a label, 0 or 1. Text is read in pieces of a few megabytes. A
cell that is no number is a missing value. Faults are named by row and column, never by value."""

import hashlib
import json
import logging
import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from data import datasets
from data.dataset import FRAME_LABEL, Dataset
from data.errors import CorruptSource, DamagedFile
from data.fetch.genotypes import store_genotypes
from data.fetch.raw import RawFile
from data.fetch.tables import require_few_dropped, require_none_outside, require_published, store_table
from data.formats.archives import damaged
from data.formats.canonical import canonical_cells
from data.simulations import flock
from data.store.code_digest import code_digest
from data.store.folders import atomic_file, atomic_write, read_json, sha256_file, store_dir
from data.store.references import (
    LEFT_OUT,
    DatasetRef,
    FramesRef,
    GenotypeRef,
    Repair,
    describe_repairs,
    ref_from_dict,
)
from data.store.shared import copy_shared, name_below_home, read_shared, share

ROW_GROUP = 4096
PIECE_BYTES = 1 << 23
Matrix = npt.NDArray[np.float32]
STAND_IN_SEED = 1990
_UNREADABLE = (OSError, ValueError, KeyError, TypeError)


def store_frames(dataset: Dataset, raw: RawFile, path: Path, seed: int, n_rows: int) -> FramesRef:
    """Read a dataset's frames, or simulate ``n_rows`` of them; check and write them."""
    if raw.is_stand_in:
        source, published, length = _simulated(dataset, n_rows, seed), 0, flock.FRAMES
    else:
        source, published, length = _read(dataset, raw), dataset.n_rows, 0
    read = np.hstack([*source])
    frames, repairs = _usable(dataset, read, published)
    names, labels = (*dataset.frame_columns, FRAME_LABEL), frames[-1].astype(np.int8)
    digest = hashlib.sha256(" ".join(names).encode())
    digest.update(np.ascontiguousarray(frames.T, dtype="<f4").data)
    counts = np.bincount(labels, minlength=2)
    ref = FramesRef(
        **raw.provenance(path),
        n_rows=len(labels),
        rows_read=read.shape[1],
        repairs=repairs,
        label_counts=(int(counts[0]), int(counts[1])),
        frames_per_simulation=length,
        table_sha256=digest.hexdigest(),
    )
    table = pa.Table.from_arrays([*map(pa.array, frames[:-1]), pa.array(labels)], names)
    options: Any = {"compression": "lz4", "use_dictionary": False, "write_statistics": False}
    with atomic_file(path) as handle:
        pq.write_table(table, handle, row_group_size=ROW_GROUP, **options)
    return ref


def _usable(dataset: Dataset, frames: Matrix, published: int) -> tuple[Matrix, tuple[Repair, ...]]:
    """Return columns (features and label × frames) without incomplete frames, which are counted.

    Refuse other labels, too few frames, and values outside their public bounds.
    """
    name, rows_read = dataset.name, frames.shape[1]
    faulty = np.flatnonzero(~np.isfinite(frames).all(axis=0))
    usable = np.delete(frames, faulty, axis=1) if len(faulty) else frames
    if others := int((~np.isin(usable[-1], (0, 1))).sum()):
        raise CorruptSource(
            f"{name}: the label {dataset.label!r} must be 0 or 1, it is not in {others:,} rows; get the file "
            "again"
        )
    require_published(name, "rows", rows_read, published)
    dropped, names = Counter[str](), (*dataset.frame_columns, dataset.label)
    for frame in frames[:, faulty].T:
        place = int(np.flatnonzero(~np.isfinite(frame))[0])
        kind = "no number in column" if np.isnan(frame[place]) else "infinity in column"
        dropped[f"{kind} {names[place]}"] += 1
    repairs = tuple(Repair(reason, count) for reason, count in dropped.items())
    require_few_dropped(name, "rows", repairs, rows_read)
    features = usable[:-1].reshape(dataset.n_boids, len(dataset.columns), -1)
    bounds = [(np.float32(column.lower), np.float32(column.upper)) for column in dataset.columns]
    outside = (
        ((values < low) | (values > high)).sum()
        for values, (low, high) in zip(features.swapaxes(0, 1), bounds, strict=True)
    )
    require_none_outside(dataset, outside, "entries")
    return usable, repairs


def _simulated(dataset: Dataset, n_rows: int, seed: int) -> Iterator[Matrix]:
    left = n_rows
    for frames, labels in getattr(flock, dataset.stand_in)(n_rows, seed):
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
    """Yield comma-separated numbers under a header as float32 pieces (columns, rows), NaN for other cells.

    No message shows a cell, nor a header that is not as expected: it may be data.
    """
    header = stream.readline().decode("utf-8-sig", "replace").split(",")
    if [name.strip().strip('"').strip() for name in header] != list(names):
        raise CorruptSource(
            f"{file} must have {len(names):,} columns headed {names[0]!r} to {names[-1]!r}, has "
            f"{len(header):,} with other headers; get the published file"
        )
    rows = 0
    try:
        pieces = pa_csv.open_csv(
            stream,
            pa_csv.ReadOptions(column_names=list(names), block_size=PIECE_BYTES, use_threads=False),
            convert_options=pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
        for piece in pieces:
            rows += len(piece)
            yield np.stack([_numbers(column) for column in piece.columns])
    except pa.ArrowInvalid as error:
        place = re.match(r"[^:]*: Row #\d+", str(error))
        where = f" ({place[0]})" if place else ""
        raise CorruptSource(f"{file} cannot be read as rows of numbers{where}; get the file again") from None
    if not rows:
        raise CorruptSource(f"{file} has no rows; get the file again")


def _numbers(cells: pa.StringArray) -> npt.NDArray[np.float32]:
    try:
        numbers = cells.cast(pa.float32()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # some cells are blank, padded or text
        numbers = canonical_cells(cells).numbers
    return np.asarray(numbers, dtype=np.float32)


_log = logging.getLogger(__name__)


def to_parquet(
    dataset: Dataset,
    raw: RawFile,
    *,
    home: Path,
    stand_in_rows: int | None = None,
    again: bool = False,
) -> DatasetRef:
    """Parse, check and store a dataset; reuse an intact table that the same code stored before.

    ``stand_in_rows`` is the number of rows of a stand-in of frames.
    ``again`` builds the table again. A download that is whole, and yet not the expected table, stays in the
    store: a retry does not download it again. A damaged file and a copy from the mirror are deleted; the next
    call then fetches another one.
    """
    if not again and (stored := stored_before(dataset, raw, home=home, stand_in_rows=stand_in_rows)):
        return stored
    if raw.is_stand_in and not dataset.stand_in:
        raise raw.absence()
    path, n_rows = _path_and_rows(dataset, raw, home, stand_in_rows)
    try:
        if dataset.kind == "frames":
            ref: DatasetRef = store_frames(dataset, raw, path, STAND_IN_SEED, n_rows)
        else:
            ref = (store_genotypes if dataset.kind == "genotypes" else store_table)(dataset, raw, path)
    except CorruptSource as fault:
        unchecked = [file.file for file in dataset.source.files if not file.sha256]
        if raw.is_stand_in or not unchecked:
            raise
        if isinstance(fault, DamagedFile) or raw.origin == "mirror":
            for file in unchecked:
                (store_dir(home) / "raw" / file).unlink(missing_ok=True)
            raise
        raise CorruptSource(
            f"{fault}; the download is kept, and `dpcost ingest {dataset.name} --again` fetches another one"
        ) from None
    if dropped := [each for each in ref.repairs if each.done == LEFT_OUT]:
        lost_units = "people left out" if isinstance(ref, GenotypeRef) else "rows dropped"
        n_dropped = ref.rows_read - ref.n_rows
        _log.warning("%s: %d %s (%s)", ref.name, n_dropped, lost_units, describe_repairs(dropped))
    ref = replace(ref, sha256=sha256_file(path))
    keep_reference(ref)
    return ref


def stored_before(
    dataset: Dataset, raw: RawFile, *, home: Path, stand_in_rows: int | None = None
) -> DatasetRef | None:
    """Return the intact table that the same code stored before, or None."""
    path, _ = _path_and_rows(dataset, raw, home, stand_in_rows)
    stored = stored_table(path)
    return stored and replace(stored, path=str(path), origin=raw.origin, reasons=raw.reasons)


def _path_and_rows(dataset: Dataset, raw: RawFile, home: Path, stand_in_rows: int | None) -> tuple[Path, int]:
    """Return a table's file, named by its contents and code, and its expected number of rows."""
    n_rows = min(stand_in_rows or dataset.n_rows, dataset.n_rows) if raw.is_stand_in else dataset.n_rows
    key = raw.sha256[:16] or ("stand-in" if n_rows == dataset.n_rows else f"stand-in-{n_rows}")
    code = _digest_of_code_and_entry(dataset, [file.sha256 for file in raw.companions])[:8]
    return store_dir(home) / "parquet" / f"{dataset.name}-{key}-{code}.parquet", n_rows


def _digest_of_code_and_entry(dataset: Dataset, companions: list[str]) -> str:
    """Return a digest of the code and the registry entry that determine the table, without the raw file."""
    names = ("columns", "n_rows", "table_sha256", "n_snps", "groups", "label", "n_boids", "stand_in")
    facts = [getattr(dataset, name) for name in names]
    digest = hashlib.sha256(repr((facts, companions)).encode())
    parser = datasets.load(dataset.name).__name__
    digest.update(code_digest([__name__, parser]).encode())
    return digest.hexdigest()


def sidecar(path: Path) -> Path:
    return path.with_suffix(".json")


def keep_reference(ref: DatasetRef) -> None:
    """Write a table's reference next to it, and copy both to the shared store, if one is configured."""
    path = Path(ref.path)
    share(path)
    atomic_write(sidecar(path), json.dumps(ref.to_dict(), indent=1).encode())
    share(sidecar(path))


def stored_table(path: Path) -> DatasetRef | None:
    """Return the reference of a table stored here or in the shared store; None if none is intact."""
    if path.exists():
        with suppress(*_UNREADABLE):
            ref = ref_from_dict(read_json(sidecar(path)))
            if sha256_file(path) == ref.sha256:
                os.utime(path)  # how long it was not used says whether it is stale
                return ref
        _log.warning("the stored table %s is damaged and will be rebuilt", path)
    with suppress(*_UNREADABLE):
        if content := read_shared(name_below_home(sidecar(path))):
            ref = ref_from_dict(json.loads(content))
            if copy_shared(path, ref.sha256):
                atomic_write(sidecar(path), content)
                return ref
    return None
