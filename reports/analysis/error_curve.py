"""The point at which a measured error curve falls to a wanted error."""

import math
from collections.abc import Sequence
from itertools import pairwise


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
