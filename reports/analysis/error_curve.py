"""Measured error curves: where they fall to a wanted error, and how fast."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

_FEWEST_SIZES = 3


def first_below(wanted: float, points: Sequence[tuple[float, float]], beyond: float = 1.0) -> float:
    """Return the x at which errors (x, error) first fall to a wanted error.

    Between points on log scales; after the last one along the last slope, up to ``beyond`` times as far.
    Infinite if that is not enough.
    """
    known = [(x, error) for x, error in sorted(points) if math.isfinite(error) and error > 0]
    if not known or not wanted > 0:
        return math.inf
    if known[0][1] <= wanted:
        return known[0][0]
    for (x, error), (later, less) in pairwise(known):
        if less <= wanted:
            return float(x * (later / x) ** (math.log(error / wanted) / math.log(error / less)))
    if len(known) < 2:
        return math.inf
    (x, error), (later, less) = known[-2:]
    slope = math.log(error / less) / math.log(later / x)
    needed = math.log(less / wanted) / slope if slope > 0 else math.inf
    return later * math.exp(needed) if needed <= math.log(beyond) else math.inf


def fitted_slope(points: Sequence[tuple[float, float, float]]) -> tuple[float, float] | None:
    """Return the least-squares slope of log value against log size, and its standard error.

    Points are (size, value, standard error of the value); the error is what theirs amount to.
    """
    usable = [(x, y, se) for x, y, se in points if x > 0 and y > 0 and math.isfinite(y)]
    if len({x for x, _, _ in usable}) < _FEWEST_SIZES:
        return None
    x, y, se = (np.array(column, dtype=float) for column in zip(*usable, strict=True))
    centered = np.log(x) - np.log(x).mean()
    weights = centered / (centered**2).sum()
    return float(weights @ np.log(y)), float(np.sqrt(((weights * np.nan_to_num(se) / y) ** 2).sum()))
