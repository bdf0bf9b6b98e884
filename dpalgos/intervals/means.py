"""Intervals of means: of truncated entries, or of offsets from a center that are clipped to a ball.

Released for them are squares, which tell the spread, and shares of rows by size, which bound how far clipping
may have moved the mean: for entries per column (:mod:`dpalgos.intervals.spread`), for offsets
in a ball (:mod:`dpalgos.steps.clipping`) of radius r.
Where noise is of pure ε both take .4 of it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpalgos.catalog import Neighbors, Release, pair, with_interval
from dpalgos.interval import CLIPPED, Interval
from dpalgos.intervals.half_widths import IntervalParams, interval_by_variance, reach_along
from dpalgos.intervals.spread import (
    SCORE_MOMENTS,
    TruncatedEntries,
    release_entry_squares,
    release_second_moments,
)
from dpalgos.intervals.tails import NONE_UNSEEN, TAIL, Unseen, release_tail, shares_above
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Grouped, Sample
from dpalgos.steps.clipping import Ball, far_along_axes, mean_squares
from dpalgos.typing import FloatArray

INTERVAL = "interval"
SHARES = {SCORE_MOMENTS: 0.05, TAIL: 0.12}  # of μ²
CUBE_SHARE = 0.4  # of ε, where noise is of pure ε; a share of μ² is worth its square root
UNSEEN_ENTRIES = Unseen(near=1.5)
_UNSEEN_OFFSETS = Unseen(near=2.5, far=6.5)


class ReleasedOffset(NamedTuple):
    """A released mean offset from a center (d, R), the noise in it, (R,) or (d, R), and of how many rows."""

    value: FloatArray
    noise_std: FloatArray
    n_rows: FloatArray


class RowSpread(NamedTuple):
    """How rows spread: means of squared offsets (d, R), shares by size (6, …, R), and what those may miss."""

    squares: FloatArray
    above: FloatArray
    unseen: Unseen = NONE_UNSEEN


def interval_shares(params: IntervalParams) -> dict[str, float]:
    """Return the shares of μ² that the interval takes; none without one."""
    return {} if params.interval is None else dict(SHARES)


def interval_epsilon(params: IntervalParams) -> dict[str, float]:
    """Return the share of ε that the interval takes where noise is of pure ε."""
    return {} if params.interval is None else {INTERVAL: CUBE_SHARE}


def entry_witnesses(middle: FloatArray, end: FloatArray, far: FloatArray) -> list[Neighbors]:
    """Return rows (1, d): of middles of the intervals, of their ends, and beyond."""
    return [pair(middle, end), pair(middle, far)]


def ball_witnesses(center: FloatArray) -> list[Neighbors]:
    """Return far rows along different axes from a released center (d, 1), and one against the center."""
    apart = far_along_axes(center)
    return [apart, pair(apart[0], center.T)]


def interval_in_ball(
    transcript: Transcript,
    level: float | None,
    sample: Sample,
    ball: Ball,
    offset: ReleasedOffset,
    multiplier: Callable[[str], float],
) -> Interval | None:
    """Return the interval of a mean of clipped offsets, released as ``offset``; None without a level."""
    if level is None:
        return None
    distances: Grouped[FloatArray] = sample.grouped(
        lambda group: np.asarray(ball.distances(group) * group.weights), together=True
    )
    above = shares_above(sample, distances, ball.radius)
    spread = RowSpread(mean_squares(sample, ball), above, _UNSEEN_OFFSETS)
    return ball_interval(transcript, level, ball, offset, spread, multiplier)


def ball_interval(
    transcript: Transcript,
    level: float,
    ball: Ball,
    offset: ReleasedOffset,
    spread: RowSpread,
    multiplier: Callable[[str], float],
) -> Interval:
    """Release the spread of offsets clipped to a ball, with noise by label; return the interval."""
    n_rows = offset.n_rows
    squares, std = release_second_moments(
        transcript, spread.squares, bound=ball.radius, n_rows=n_rows, multiplier=multiplier(SCORE_MOMENTS)
    )
    tail = release_tail(transcript, spread.above, n_rows=n_rows, multiplier=multiplier(TAIL))
    along = reach_along(squares, np.maximum(squares, 0).sum(axis=0))
    return mean_interval(
        level,
        ReleasedOffset(ball.unit * offset.value, ball.unit * offset.noise_std, n_rows),
        squares=ball.unit**2 * squares,
        squares_std=ball.unit**2 * std,
        clipping=ball.unit * tail.moved(along * ball.radius, unseen=spread.unseen),
    )


def entry_interval(
    transcript: Transcript,
    level: float,
    entries: TruncatedEntries,
    n_rows: FloatArray,
    spread: RowSpread,
    *,
    noise_std: FloatArray,
    **noise: Any,
) -> Interval:
    """Release the spread of truncated entries, whose squares are relative; return the interval.

    ``noise_std`` is that of the mean; ``noise`` is that of
    :func:`dpalgos.intervals.spread.release_entry_squares`.
    """
    squares, std, tail = release_entry_squares(transcript, spread.squares, spread.above, n_rows, **noise)
    half = (entries.upper - entries.lower) / 2
    reach = np.maximum(entries.upper - entries.center, entries.center - entries.lower)
    return mean_interval(
        level,
        ReleasedOffset(entries.mean - (entries.upper + entries.lower) / 2, noise_std, n_rows),
        squares=half**2 * squares,
        squares_std=half**2 * std,
        clipping=tail.moved(reach, unseen=spread.unseen),
    )


def mean_interval(
    level: float,
    offset: ReleasedOffset,
    *,
    squares: FloatArray,
    squares_std: FloatArray,
    clipping: FloatArray,
) -> Interval:
    """Return the interval of a mean, the average of offsets from a public or released center.

    ``squares`` are released means of squared offsets, with their noise, (R,) or (d, R). ``clipping`` (d, R)
    bounds how far clipping moved the mean.
    """
    noise, n_rows = np.asarray(offset.noise_std) ** 2, offset.n_rows
    spread = np.maximum(squares - offset.value**2 + noise, 0.0)
    # Of the released squares, of the square of the released mean, and of a sample's variance.
    unsure = np.asarray(squares_std) ** 2 + noise * (4 * offset.value**2 + 2 * noise) + 2 * spread**2 / n_rows
    return interval_by_variance(
        level,
        variance=noise + spread / n_rows,
        variance_std=np.sqrt(unsure) / n_rows,
        sampling=spread / n_rows,
        biases={CLIPPED: clipping},
    )


OF_ENTRIES = (
    Release(SCORE_MOMENTS, SHARES[SCORE_MOMENTS], "sqrt(d)/n", release_entry_squares, with_interval),
    Release(TAIL, SHARES[TAIL], "sqrt(min(d + 1, 3))/n", release_tail, with_interval),
)
IN_BALL = (
    Release(SCORE_MOMENTS, SHARES[SCORE_MOMENTS], "sqrt(min(d, 2))/n", release_second_moments, with_interval),
    Release(TAIL, SHARES[TAIL], "sqrt(2)/n", release_tail, with_interval),
)
