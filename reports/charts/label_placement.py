"""Places the labels at the ends of lines so that they don't overlap."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np


def spread(wanted: Sequence[float], heights: Sequence[float], low: float, high: float) -> list[float]:
    """Move labels apart, as little as possible in least squares, and keep them in [low, high].

    Parameters
    ----------
    wanted : sequence of float
        Where each label's middle would like to be, in any order.
    heights : sequence of float
        How tall each label is; all are shrunk alike where they would not fit.

    Returns
    -------
    list of float
        New middles, in the order of `wanted`.
    """
    if not wanted:
        return []
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    shrink = min(1.0, (high - low) / sum(heights))
    offsets = [0.0]  # distance of each middle from the lowest one when labels touch
    for before, after in pairwise(order):
        offsets.append(offsets[-1] + shrink * (heights[before] + heights[after]) / 2)
    blocks: list[list[float]] = []  # [sum of shifted wishes, number of labels]
    for i, offset in zip(order, offsets, strict=True):
        blocks.append([wanted[i] - offset, 1.0])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            last = blocks.pop()
            blocks[-1][0] += last[0]
            blocks[-1][1] += last[1]
    shifted = [total / number for total, number in blocks for _ in range(int(number))]
    bottom = low + shrink * heights[order[0]] / 2
    top = high - shrink * heights[order[-1]] / 2 - offsets[-1]
    out = [0.0] * len(wanted)
    for i, place, offset in zip(order, shifted, offsets, strict=True):
        out[i] = max(bottom, min(place, top)) + offset
    return out


def interpolate_log(x: Sequence[float], y: Sequence[float]) -> Callable[[float], float]:
    """Return the line through points on log–log axes; NaN outside their range and at values ≤ 0."""
    pairs = [(math.log(a), math.log(b)) for a, b in zip(x, y, strict=True) if b > 0 and math.isfinite(b)]
    if not pairs:
        return lambda _: math.nan
    xs, ys = (np.array(side) for side in zip(*sorted(pairs), strict=True))

    def at(value: float) -> float:
        where = math.log(value)
        if not xs[0] <= where <= xs[-1]:
            return math.nan
        return float(math.exp(np.interp(where, xs, ys)))

    return at


def clearest(
    line: Callable[[float], float],
    obstacles: Sequence[Callable[[float], float]],
    x_range: tuple[float, float],
    y_range: tuple[float, float],
    width: float,
    offsets: Sequence[float],
) -> tuple[float, float] | None:
    """Find where along a line a label is furthest from everything else.

    All lengths are in units of log x and log y, scaled so that both axes have length one.

    Parameters
    ----------
    line : callable
        The line to be labeled, x → y.
    obstacles : sequence of callable
        Other lines, x → y (NaN where absent).
    width : float
        The label's length as a share of the horizontal axis.
    offsets : sequence of float
        How far above (or below, negative) its line the label may sit, as shares of the vertical axis.

    Returns
    -------
    (float, float) or None
        The x of the label's middle and the offset taken; None where the line never has room.
    """
    log_x = (math.log(x_range[0]), math.log(x_range[1]))
    log_y = (math.log(y_range[0]), math.log(y_range[1]))

    def x_at(share: float) -> float:
        return math.exp(log_x[0] + share * (log_x[1] - log_x[0]))

    def share_of(y: float) -> float:
        if not (math.isfinite(y) and y > 0):
            return math.nan
        return (math.log(y) - log_y[0]) / (log_y[1] - log_y[0])

    best: tuple[float, float, float] | None = None
    middles = np.linspace(width / 2 + 0.01, 1 - width / 2 - 0.01, 25)
    for offset, middle in ((o, float(m)) for o in offsets for m in middles):
        clearance = math.inf
        for share in np.linspace(middle - width / 2, middle + width / 2, 9):
            x = x_at(float(share))
            own = share_of(line(x))
            if not (math.isfinite(own) and 0.03 <= own + offset <= 0.95):
                clearance = -1.0
                break
            others = [share_of(other(x)) for other in obstacles]
            gaps = [abs(other - own - offset) for other in others if math.isfinite(other)]
            clearance = min([clearance, *gaps])
        if clearance >= 0 and (best is None or clearance > best[0] + 1e-9):
            best = (clearance, x_at(middle), offset)
    return None if best is None else best[1:]
