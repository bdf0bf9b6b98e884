"""Order parameters of a flock: what describes a frame of boids in four numbers.

- Polarization: the length of the mean heading, 0 to 1 (Vicsek et al. 1995).
- Mean alignment: the mean over boids of heading · A, where A is the mean heading of the perceived boids.
- Mean number of neighbors: the mean of nAC.
- Mean speed: the mean length of the velocity.

They are put into public units and clipped at ±3. The guarantee covers this step. A row is a frame.
Frames of one simulation are similar. Where a whole simulation is protected, a row is a simulation: the mean
of its frames, with their label.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from data.errors import DataError
from data.prepare.frame_features import CLIP, stream_frames
from data.prepare.table_design import INTERCEPT, PreparedTable
from data.store.references import FramesRef

# Name, center and scale. The first two follow from the range of a length or a cosine: its middle, and the
# standard deviation of a uniform variable. The others are rounded from the published summary of two boids.
ORDER_PARAMETERS = (
    ("polarization", 0.5, 0.3),
    ("mean alignment", 0.0, 0.6),
    ("mean number of neighbors", 26.0, 34.0),
    ("mean speed", 10.0, 5.0),
)

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
