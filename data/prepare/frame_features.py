"""Prepare the frames of a flock for classification: scale their features and add an intercept.

Features are (value − center) / scale, clipped at ±3: 3 is a public bound on every entry. With public
constants per type of feature, the guarantee covers this step. With each column's own mean and standard
deviation, as the paper may have done, it does not.

The unit of privacy is a frame. Frames of one simulation are similar. With rows split at random, they are in
both parts, which makes every estimator look too good. Splitting by simulation keeps them together.

Order parameters describe a frame of boids in four numbers:

- Polarization: the length of the mean heading, 0 to 1 (Vicsek et al. 1995).
- Mean alignment: the mean over boids of heading · A, where A is the mean heading of the perceived boids.
- Mean number of neighbors: the mean of nAC.
- Mean speed: the mean length of the velocity.

They are put into public units and clipped at ±3. The guarantee covers this step. A row is a frame.
Frames of one simulation are similar. Where a whole simulation is protected, a row is a simulation: the mean
of its frames, with their label.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic.dataclasses import dataclass

from data.dataset import FRAME_LABEL, Dataset
from data.errors import DataError
from data.prepare.table_design import INTERCEPT, PreparedTable, Units, public_units
from data.store.references import FramesRef, verified_path
from data.store.shared import name_below_home

CLIP = 3.0
# Name, center and scale. The first two follow from the range of a length or a cosine: its middle, and the
# standard deviation of a uniform variable. The others are rounded from the published summary of two boids.
ORDER_PARAMETERS = (
    ("polarization", 0.5, 0.3),
    ("mean alignment", 0.0, 0.6),
    ("mean number of neighbors", 26.0, 34.0),
    ("mean speed", 10.0, 5.0),
)


@dataclass(frozen=True)
class Scales:
    """The transformation from columns of frames to features, stored in place of the features."""

    ref: FramesRef
    center: tuple[float, ...]
    scale: tuple[float, ...]
    names: tuple[str, ...]


def scales(ref: FramesRef, dataset: Dataset, units: Units) -> Scales:
    """Return the centers and scales of a table's columns, either public or from the data."""
    ref, names = replace(ref, path=name_below_home(Path(ref.path))), dataset.frame_columns
    if units == "standardized":
        from sklearn.preprocessing import StandardScaler  # here: it takes long to load

        scaler = StandardScaler()
        for block, _ in stream_frames(ref):
            scaler.partial_fit(block.T)
        center, scale = scaler.mean_, np.sqrt(scaler.var_)
        if not (scale > 0).all():
            name = names[int(np.argmin(scale))]
            raise DataError(f"column {name!r} of {ref.name} is constant; use public constants instead")
        return Scales(ref, tuple(center.tolist()), tuple(scale.tolist()), names)
    center, scale = public_units(dataset, dataset.columns)
    boids = dataset.n_boids
    return Scales(ref, tuple(center.tolist()) * boids, tuple(scale.tolist()) * boids, names)


def load_frames(about: Scales) -> PreparedTable:
    ref, d = about.ref, len(about.names)
    X = np.empty((ref.n_rows, d + 1), dtype=np.float32)
    y = np.empty(ref.n_rows)
    center, scale = (np.array(values, dtype=np.float32) for values in (about.center, about.scale))
    start = 0
    for block, labels in stream_frames(ref):
        rows = slice(start, start + len(labels))
        X[rows, :d], y[rows] = np.clip((block.T - center) / scale, -CLIP, CLIP), labels
        start += len(labels)
    X[:, d] = 1.0
    X.flags.writeable = False  # a wide design, which an estimator would otherwise copy
    length = ref.frames_per_simulation
    return PreparedTable(
        X=X,
        y=y,
        column_names=(*about.names, INTERCEPT),
        to_standard=None,
        groups=np.arange(ref.n_rows) // length if length else None,
    )


def stream_frames(ref: FramesRef) -> Iterator[tuple[npt.NDArray[np.float32], npt.NDArray[np.int8]]]:
    """Yield columns (d, k) and labels (k,) of stored frames, row group by row group, verified."""
    with pq.ParquetFile(verified_path(ref), pre_buffer=False) as file:
        for i in range(file.num_row_groups):
            yield _columns(file.read_row_group(i, use_threads=False))


def _columns(table: pa.Table) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int8]]:
    (features,) = table.drop_columns([FRAME_LABEL]).combine_chunks().to_batches()
    return features.to_tensor(row_major=False).to_numpy().T, table.column(FRAME_LABEL).to_numpy()


FloatArray = npt.NDArray[np.float64]


def order_parameters(frames: npt.NDArray[np.floating[Any]], columns: Sequence[str]) -> FloatArray:
    """Return the four parameters of frames (boids × columns, k), in the units of the file, (k, 4)."""
    by_column = frames.reshape(-1, len(columns), frames.shape[1]).swapaxes(0, 1)  # (columns, boids, k)
    of = {name: values.astype(np.float64) for name, values in zip(columns, by_column, strict=True)}
    velocity = np.stack([of["xVel"], of["yVel"]])
    speed = np.hypot(*velocity)
    heading = np.divide(velocity, speed, out=np.zeros_like(velocity), where=speed > 0)
    alignment = heading[0] * of["xA"] + heading[1] * of["yA"]
    parameters = (
        np.hypot(*heading.mean(axis=1)),
        *(each.mean(axis=0) for each in (alignment, of["nAC"], speed)),
    )
    return np.stack(parameters, axis=1)


def order_table(ref: FramesRef, columns: Sequence[str], *, by_simulation: bool) -> PreparedTable:
    """Return the parameters of stored frames in public units; a row is a frame, or a simulation."""
    parts = [(order_parameters(block, columns), labels) for block, labels in stream_frames(ref)]
    X, y = (np.concatenate(each).astype(np.float64) for each in zip(*parts, strict=True))
    center, scale = (np.array(values) for values in list(zip(*ORDER_PARAMETERS, strict=True))[1:])
    X = np.clip((X - center) / scale, -CLIP, CLIP)
    length = ref.frames_per_simulation
    groups = np.arange(len(X)) // length if length else None
    if by_simulation:
        if groups is None:
            raise DataError("unit='simulation' needs simulated frames, these are not; use unit='frame'")
        sizes = np.bincount(groups)
        X = np.stack([np.bincount(groups, weights=column) / sizes for column in X.T], axis=1)
        y, groups = y[::length], np.arange(len(X))
    return PreparedTable(
        X=np.column_stack([X, np.ones(len(X))]),
        y=y,
        column_names=(*(name for name, _, _ in ORDER_PARAMETERS), INTERCEPT),
        to_standard=np.eye(len(ORDER_PARAMETERS), len(ORDER_PARAMETERS) + 1),
        groups=groups,
    )
