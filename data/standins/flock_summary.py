"""Comparison of the simulated flock with the published summary of the Kaggle copy (n = 23,309)."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from data.store.references import FramesRef

SOURCE = "summary of 23,309 frames in a public notebook on Kaggle (azariadr, swarm-behavior-classification)"

# mean, standard deviation, minimum, quartiles, maximum; as printed there.
PUBLISHED = {
    "x1": (104.4, 843.2, -1414.1, -542.0, 145.3, 896.2, 1406.1),
    "y1": (-73.5, 573.3, -1012.2, -611.2, -157.4, 425.7, 1015.8),
    "xVel1": (-0.70, 6.43, -18.6, -5.36, -0.45, 3.94, 18.5),
    "yVel1": (0.06, 7.37, -18.4, -5.68, -1.54, 7.26, 18.6),
    "xA1": (-0.148, 0.376, -1.00, -0.23, 0.0, 0.0, 1.00),
    "yA1": (0.152, 0.589, -1.00, -0.01, 0.0, 0.94, 1.04),
    "xS1": (-1.06, 26.4, -944.0, 0.0, 0.0, 0.0, 68.6),
    "yS1": (-0.73, 20.7, -848.0, 0.0, 0.0, 0.0, 234.7),
    "xC1": (-0.035, 0.560, -2.68, -0.04, 0.0, 0.0, 2.68),
    "yC1": (0.077, 0.628, -2.68, -0.02, 0.0, 0.02, 2.68),
    "xS200": (-1.53, 73.9, -4079.0, 0.0, 0.0, 0.0, 256.0),
    "nAC200": (26.4, 34.1, 0.0, 2.0, 12.0, 35.0, 142.0),
    "nS200": (2.13, 7.43, 0.0, 0.0, 0.0, 1.0, 64.0),
}


@dataclass(frozen=True)
class ColumnSummary:
    """One column: mean, standard deviation (divisor n − 1), minimum, quartiles and maximum, twice.

    Attributes
    ----------
    column : str
    published, simulated : tuple of float
        Seven numbers each, in that order.
    """

    column: str
    published: tuple[float, ...]
    simulated: tuple[float, ...]


def compare(ref: FramesRef) -> tuple[ColumnSummary, ...]:
    """Summarize the columns whose summary is published."""
    table = pq.read_table(Path(ref.path), columns=list(PUBLISHED))
    return tuple(
        ColumnSummary(name, published, _summary(table.column(name).to_numpy().astype(np.float64)))
        for name, published in PUBLISHED.items()
    )


def _summary(values: np.ndarray) -> tuple[float, ...]:
    ends = np.quantile(values, (0, 0.25, 0.5, 0.75, 1))
    return (float(values.mean()), float(values.std(ddof=1)), *map(float, ends))
