"""Intervals of means: of truncated entries, or of offsets from a center that are clipped to a ball.

An interval needs two more releases. Squares estimate the variance. Shares of rows by size bound the bias of
clipping. Entries have them per column (:mod:`dpalgos.intervals.spread`), offsets in a ball of radius r
(:mod:`dpalgos.core.ball`) have them per row. With pure ε-DP noise, both together take 0.4 of ε.
"""

from typing import NamedTuple

import numpy as np

from dpalgos.accounting.events import Event, Gaussian
from dpalgos.accounting.other_events import Cube, Laplace
from dpalgos.catalog import Release
from dpalgos.core.ball import Ball, mean_offset, mean_squares
from dpalgos.core.other_plans import part_of_epsilon
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.interval import CLIPPED, Interval
from dpalgos.intervals.half_widths import LARGEST_BIAS, interval_by_variance, part_along
from dpalgos.intervals.spread import SCORE_MOMENTS, TruncatedEntries, release_second_moments
from dpalgos.intervals.tails import (
    NONE_UNSEEN,
    TAIL,
    Tail,
    Unseen,
    release_tail,
    shares_above,
    tail_l1_sensitivity,
    tail_sensitivity,
)
from dpalgos.mechanisms.sensitivity import ball_mean, box, interval, outer_product
from dpalgos.typing import FloatArray

SHARES = {SCORE_MOMENTS: 0.05, TAIL: 0.12}  # of μ²
CUBE_SHARE = 0.4  # of ε, where noise is of pure ε; a share of μ² is worth its square root
_SQUARES_SHARE = 0.25  # of that, for squares; the rest is for shares by size
_MOST_OUTSIDE = 0.05  # of the rows: the bound on the bias of so many is an extrapolation
_LARGEST_HIDDEN = 20.0  # the largest bias by clipping that the noise hides, in half-widths without it
UNSEEN_ENTRIES = Unseen(near=1.5)
_UNSEEN_OFFSETS = Unseen(near=2.5, far=6.5)
BALL_SQUARES = Release(SCORE_MOMENTS, outer_product)
BALL_TAIL = Release(TAIL, tail_sensitivity)
ENTRY_SQUARES = Release(SCORE_MOMENTS, box)
ENTRY_TAIL = Release(TAIL, tail_sensitivity)
BALL_LEMMAS = {each.label: each.lemma for each in (BALL_SQUARES, BALL_TAIL)}
PURE_SQUARES = Release(SCORE_MOMENTS, interval)
PURE_TAIL = Release(TAIL, tail_l1_sensitivity)


class ReleasedOffset(NamedTuple):
    """A released mean offset from a center (…, d), and the noise in it, (…,)."""

    value: FloatArray
    noise_std: FloatArray


def released_offset(rows: Rows, spend: Spend, label: str, ball: Ball) -> ReleasedOffset:
    """Release the mean offset of rows clipped to a ball, whose lemma is ``ball_mean``."""
    offset, std = spend(label, ball_mean.of(mean_offset(rows, ball), ball.radius, rows.n))
    return ReleasedOffset(offset, std)


class RowSpread(NamedTuple):
    """How rows spread: means of squared offsets (d, R), shares by size (6, …, R), and what those may miss."""

    squares: FloatArray
    above: FloatArray
    unseen: Unseen = NONE_UNSEEN


def pure_parts(epsilon: float, *, interval: bool) -> tuple[float, float]:
    """Return the ε of a mean and of its interval, 0 without one, where noise is of pure ε."""
    share = CUBE_SHARE if interval else 0.0
    return part_of_epsilon(epsilon, 1 - share), part_of_epsilon(epsilon, share)


def pure_slots(epsilon: float) -> dict[str, Event]:
    """Return slots of the spread of entries for ε: squares take a quarter, shares by size the rest."""
    squares = _SQUARES_SHARE * epsilon
    return {SCORE_MOMENTS: Cube(squares), TAIL: Laplace(epsilon - squares)}


def interval_in_ball(
    rows: Rows,
    spend: Spend,
    level: float | None,
    ball: Ball,
    offset: ReleasedOffset,
    unseen: Unseen = _UNSEEN_OFFSETS,
) -> Interval | None:
    """Release the spread of offsets clipped to a ball, whose mean is released as ``offset``.

    Return the interval of the mean; None without a level.
    """
    if level is None:
        return None
    radius, unit = np.atleast_1d(ball.radius), rows.by_column(np.broadcast_to(ball.unit, ball.center.shape))
    second = rows.by_column(mean_squares(rows, ball))
    squares, std = release_second_moments(spend, BALL_SQUARES, second, radius, rows.n)
    tail = release_tail(spend, BALL_TAIL, shares_above(rows, ball), rows.n)
    along = part_along(squares, np.maximum(squares, 0).sum(axis=0))
    return mean_interval(
        level,
        rows.n,
        offset=unit * rows.by_column(offset.value),
        noise_std=unit * offset.noise_std,
        squares=unit**2 * squares,
        squares_std=unit**2 * std,
        clipping=unit * tail.moved(along * radius, unseen=unseen),
        largest_bias=_largest_bias(tail),
    )


def interval_of_entries(
    rows: Rows,
    spend: Spend,
    level: float,
    entries: TruncatedEntries,
    noise_std: FloatArray,
    unseen: Unseen,
) -> Interval:
    """Release the spread of entries truncated to public intervals; return the interval of their mean."""
    spread = RowSpread(entries.squares(rows), entries.shares_above(rows), unseen)
    return entry_interval(rows, spend, level, entries, spread, noise_std)


def entry_interval(
    rows: Rows,
    spend: Spend,
    level: float,
    entries: TruncatedEntries,
    spread: RowSpread,
    noise_std: FloatArray,
) -> Interval:
    """Release the spread of truncated entries, whose squares are relative; return the interval.

    ``noise_std`` is that of the mean.
    """
    if isinstance(spend.plan[SCORE_MOMENTS], Gaussian):
        query = box.of(spread.squares, np.ones(len(spread.squares)), rows.n)
        squares, std = spend.columns(SCORE_MOMENTS, query)
        tail = release_tail(spend, ENTRY_TAIL, spread.above, rows.n)
    else:
        squares, std = spend.columns(SCORE_MOMENTS, interval.of(spread.squares, 1, rows.n))
        tail = release_tail(spend, PURE_TAIL, spread.above, rows.n)
    half = (entries.upper - entries.lower) / 2
    farthest = np.maximum(entries.upper - entries.center, entries.center - entries.lower)
    return mean_interval(
        level,
        rows.n,
        offset=entries.mean - (entries.upper + entries.lower) / 2,
        noise_std=noise_std,
        squares=half**2 * squares,
        squares_std=half**2 * std,
        clipping=tail.moved(farthest, unseen=spread.unseen),
        largest_bias=_largest_bias(tail),
    )


def _largest_bias(tail: Tail) -> FloatArray:
    visible = np.where(tail.share_outside > _MOST_OUTSIDE, 0.0, LARGEST_BIAS)
    return np.where(tail.is_visible, visible, _LARGEST_HIDDEN)


def mean_interval(
    level: float,
    n_rows: float,
    *,
    offset: FloatArray,
    noise_std: FloatArray,
    squares: FloatArray,
    squares_std: FloatArray,
    clipping: FloatArray,
    largest_bias: FloatArray,
) -> Interval:
    """Return the interval of a mean, the average of offsets from a public or released center.

    ``offset`` (d, R) is the released mean offset, with its noise, (), (R,) or (d, R). ``squares`` are
    released means of squared offsets, with their noise, (R,) or (d, R). ``clipping`` (d, R) bounds how far
    clipping moved the mean. Above ``largest_bias`` half-widths, there is no interval.
    """
    noise = np.asarray(noise_std) ** 2
    spread = np.maximum(squares - offset**2 + noise, 0.0)
    # Of the released squares, of the square of the released mean, and of a sample's variance.
    unsure = np.asarray(squares_std) ** 2 + noise * (4 * offset**2 + 2 * noise) + 2 * spread**2 / n_rows
    return interval_by_variance(
        level,
        variance=noise + spread / n_rows,
        variance_std=np.sqrt(unsure) / n_rows,
        sampling=spread / n_rows,
        biases={CLIPPED: clipping},
        largest_bias=largest_bias,
    )
