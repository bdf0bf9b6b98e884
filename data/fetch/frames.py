"""Frames of a flock in the store: a wide CSV, read as a stream, and a Parquet file of float32 columns.

A row is a frame: the features of boid 1, of boid 2, … and a label, 0 or 1. Text is read in pieces of a few
megabytes and written in row groups of 4,096 frames, so that memory is that of one row group whatever the
file's size. The Parquet file says in its metadata where its rows come from, with a digest of its content.
"""

import hashlib
import json
import logging
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from data import datasets
from data.dataset import FRAME_LABEL, Dataset
from data.errors import CorruptSource, DataError
from data.fetch.raw_files import RawFile
from data.formats.delimited import damaged
from data.formats.frames_csv import Matrix, read_csv
from data.formats.table import MAX_DROPPED_FRACTION, describe
from data.store.folders import atomic_write
from data.store.references import FramesRef, Repair

ROW_GROUP = 4096

Opener = Callable[[Path], AbstractContextManager[BinaryIO]]

_log = logging.getLogger(__name__)


def store_frames(dataset: Dataset, raw: RawFile, path: Path, seed: int, n_rows: int) -> FramesRef:
    """Read, check and write a dataset's frames.

    Parameters
    ----------
    dataset : Dataset
        Of kind ``"frames"``.
    raw : RawFile
        From `data.fetch.raw_files`; of origin ``"stand-in"`` a flock is simulated.
    path : pathlib.Path
        The Parquet file.
    seed : int
        Of the simulation.
    n_rows : int
        Frames of the simulation.

    Returns
    -------
    FramesRef
        Without the checksum of the Parquet file.

    Raises
    ------
    CorruptSource
        The file is damaged, of another layout, or not the published one; rows and columns are named, values
        never.
    StoreError
        The store cannot be written.
    """
    facts: dict[str, Any] = {}
    atomic_write(path, lambda handle: facts.update(_write(handle, dataset, raw, seed, n_rows)))
    if facts["repairs"]:
        dropped = facts["rows_read"] - facts["n_rows"]
        _log.warning("%s: %d rows dropped (%s)", dataset.name, dropped, describe(facts["repairs"]))
    return FramesRef(
        name=dataset.name,
        path=str(path),
        sha256="",
        source_sha256=raw.sha256,
        source_url=raw.source_url,
        layout=raw.layout,
        origin=raw.origin,
        data_source="stand-in" if raw.origin == "stand-in" else "real",
        reasons=raw.reasons,
        **facts,
    )


def _write(handle: BinaryIO, dataset: Dataset, raw: RawFile, seed: int, n_rows: int) -> dict[str, Any]:
    """Write row groups as they fill, and return the metadata that is complete only at the end."""
    names = (*dataset.frame_columns, FRAME_LABEL)
    schema = pa.schema([*((name, pa.float32()) for name in names[:-1]), (FRAME_LABEL, pa.int8())])
    made_up = raw.origin == "stand-in"
    module = datasets.load(dataset.name)
    checked = _Checked(dataset)
    digest, n_written, ones = hashlib.sha256(" ".join(names).encode()), 0, 0
    options: Any = {"compression": "zstd", "compression_level": 1, "use_dictionary": False}
    with pq.ParquetWriter(handle, schema, write_statistics=False, **options) as writer:
        source = _simulated(module, n_rows, seed) if made_up else _read(dataset, raw, module)
        for block in _row_groups(checked.of(source)):
            digest.update(np.ascontiguousarray(block.T, dtype="<f4").tobytes())
            arrays = [*map(pa.array, block[:-1]), pa.array(block[-1].astype(np.int8))]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            n_written += block.shape[1]
            ones += int(block[-1].sum())
        checked.finish(published=0 if made_up else dataset.n_rows)
        facts: dict[str, Any] = {
            "n_rows": n_written,
            "rows_read": checked.rows_read,
            "repairs": tuple(checked.repairs()),
            "label_counts": (n_written - ones, ones),
            "frames_per_simulation": module.FRAMES_PER_SIMULATION if made_up else 0,
            "table_sha256": digest.hexdigest(),
        }
        about = {
            **{key: facts[key] for key in ("table_sha256", "rows_read", "frames_per_simulation")},
            "dataset": dataset.name,
            "kind": dataset.kind,
            "data_source": "stand-in" if made_up else "real",
            "source_sha256": raw.sha256,
            "source_url": raw.source_url,
            "layout": raw.layout,
            "repairs": json.dumps([asdict(repair) for repair in facts["repairs"]]),
        }
        writer.add_key_value_metadata({f"dpcost.{key}": str(value) for key, value in about.items()})
    return facts


class _Checked:
    """Columns as they pass: incomplete frames are dropped and counted, others must keep their bounds."""

    def __init__(self, dataset: Dataset) -> None:
        self.rows_read = 0
        self._dataset = dataset
        self._names = dataset.frame_columns
        self._dropped: dict[str, int] = {}
        self._outside = np.zeros(len(dataset.columns), dtype=np.int64)

    def of(self, blocks: Iterable[Matrix]) -> Iterator[Matrix]:
        """Yield the usable columns of blocks (features and label × frames)."""
        lower = np.array([column.lower for column in self._dataset.columns], dtype=np.float32)
        upper = np.array([column.upper for column in self._dataset.columns], dtype=np.float32)
        for block in blocks:
            self.rows_read += block.shape[1]
            # The sum of a frame is finite where all its entries are.
            suspects = np.flatnonzero(~np.isfinite(block.sum(axis=0)))
            faulty = suspects[~np.isfinite(block[:, suspects]).all(axis=0)]
            for frame in faulty:
                self._drop(block[:, frame])
            kept = np.delete(block, faulty, axis=1) if len(faulty) else block
            features = kept[:-1].reshape(self._dataset.n_boids, len(lower), -1)
            low, high = features.min(axis=(0, 2), initial=0), features.max(axis=(0, 2), initial=0)
            if (low < lower).any() or (high > upper).any():
                outside = (features < lower[:, None]) | (features > upper[:, None])
                self._outside += outside.sum(axis=(0, 2))
            if not np.isin(kept[-1], (0, 1)).all():
                raise CorruptSource(
                    f"{self._dataset.name}: the label {self._dataset.label!r} must be 0 or 1, it is not in "
                    f"{int((~np.isin(kept[-1], (0, 1))).sum()):,} rows; get the file again"
                )
            yield kept

    def finish(self, *, published: int) -> None:
        """Refuse a table that has too few frames, or values beyond their public bounds."""
        name, dropped = self._dataset.name, sum(self._dropped.values())
        if published and self.rows_read != published:
            raise CorruptSource(
                f"{name}: the file has {self.rows_read:,} rows, {published:,} were published; "
                "get the file again"
            )
        if dropped > MAX_DROPPED_FRACTION * self.rows_read:
            raise CorruptSource(
                f"{name}: {dropped:,} of {self.rows_read:,} rows are unusable "
                f"({describe(self.repairs())}), at most {MAX_DROPPED_FRACTION:.0%} may be dropped; "
                "get the file again"
            )
        if self._outside.any():
            faults = ", ".join(
                f"{column.name} outside its public bounds in {count:,} entries"
                for column, count in zip(self._dataset.columns, self._outside, strict=True)
                if count
            )
            raise CorruptSource(f"{name}: {faults}; get the file again or mend the bounds in the registry")

    def repairs(self) -> list[Repair]:
        """Return how many rows were dropped, by reason."""
        return [Repair(reason, count) for reason, count in self._dropped.items()]

    def _drop(self, frame: Matrix) -> None:
        place = int(np.flatnonzero(~np.isfinite(frame))[0])
        kind = "blank or NaN in column" if np.isnan(frame[place]) else "infinity in column"
        name = self._names[place] if place < len(self._names) else self._dataset.label
        self._dropped[f"{kind} {name}"] = self._dropped.get(f"{kind} {name}", 0) + 1


def _simulated(module: Any, n_rows: int, seed: int) -> Iterator[Matrix]:
    left = n_rows
    for frames, labels in module.stand_in(n_rows, seed):
        yield np.vstack([frames.T, labels[None, :]])[:, :left].astype(np.float32)
        left -= len(frames)


def _row_groups(blocks: Iterable[Matrix]) -> Iterator[Matrix]:
    """Gather columns into row groups of equal size; only the last may be smaller."""
    held: list[Matrix] = []
    for block in blocks:
        held.append(block)
        while sum(part.shape[1] for part in held) >= ROW_GROUP:
            joined = np.hstack(held)
            yield joined[:, :ROW_GROUP]
            held = [joined[:, ROW_GROUP:].copy()]
            del joined
    if held and (last := np.hstack(held)).shape[1]:
        yield last


def _read(dataset: Dataset, raw: RawFile, module: Any) -> Iterator[Matrix]:
    parsers: dict[str, Opener] = module.PARSERS
    if raw.layout not in parsers:
        raise DataError(
            f"data/datasets/{dataset.name}.py has no parser for layout {raw.layout!r}; add it to PARSERS"
        )
    path = Path(raw.path)
    try:
        with parsers[raw.layout](path) as stream:
            yield from read_csv(stream, (*dataset.frame_columns, dataset.label), file=path.name)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError):
        raise damaged(path) from None
