"""Intervals of means: of truncated entries, or of offsets from a center that are clipped to a ball.

An interval needs two more releases. Squares estimate the variance. Shares of rows by size bound the bias of
clipping. Entries have them per column (:mod:`dpalgos.intervals.spread`), offsets in a ball of radius r
(:mod:`dpalgos.rows.ball`) have them per row. With pure ε-DP noise, both together take 0.4 of ε.
"""

from typing import NamedTuple

import numpy as np

from dpalgos.catalog import Release
from dpalgos.core.plans import part_of_epsilon
from dpalgos.core.rows import Rows
from dpalgos.core.slots import Cube, Gaussian, Laplace, Slot
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
from dpalgos.rows.ball import Ball, mean_offset, mean_squares
from dpalgos.rows.grouped import Grouped, map_groups
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray

SHARES = {SCORE_MOMENTS: 0.05, TAIL: 0.12}  # of μ²
CUBE_SHARE = 0.4  # of ε, where noise is of pure ε; a share of μ² is worth its square root
_SQUARES_SHARE = 0.25  # of that, for squares; the rest is for shares by size
_LARGEST_HIDDEN = 20.0  # the largest bias by clipping that the noise hides, in half-widths without it
UNSEEN_ENTRIES = Unseen(near=1.5)
_UNSEEN_OFFSETS = Unseen(near=2.5, far=6.5)


class ReleasedOffset(NamedTuple):
    """A released mean offset from a center (d, R), the noise in it, (R,) or (d, R), and of how many rows."""

    value: FloatArray
    noise_std: FloatArray
    n_rows: FloatArray


def released_offset(rows: Rows, spend: Spend, label: str, ball: Ball) -> ReleasedOffset:
    """Release the mean offset of rows clipped to a ball, whose lemma is ``ball_mean``."""
    mean = rows.by_replicate(mean_offset(rows.sample, ball))
    offset, std = spend(label, ball_mean.of(mean, ball.radius, rows.n))
    return ReleasedOffset(rows.by_column(offset), std, rows.sample.n_rows)


class RowSpread(NamedTuple):
    """How rows spread: means of squared offsets (d, R), shares by size (6, …, R), and what those may miss."""

    squares: FloatArray
    above: FloatArray
    unseen: Unseen = NONE_UNSEEN


def pure_parts(epsilon: float, *, interval: bool) -> tuple[float, float]:
    """Return the ε of a mean and of its interval, 0 without one, where noise is of pure ε."""
    share = CUBE_SHARE if interval else 0.0
    return part_of_epsilon(epsilon, 1 - share), part_of_epsilon(epsilon, share)


def pure_slots(epsilon: float) -> dict[str, Slot]:
    """Return slots of the spread of entries for ε: squares take a quarter, shares by size the rest."""
    squares = _SQUARES_SHARE * epsilon
    return {SCORE_MOMENTS: Cube(squares), TAIL: Laplace(epsilon - squares)}


def interval_in_ball(
    spend: Spend,
    level: float | None,
    sample: Sample,
    ball: Ball,
    offset: ReleasedOffset,
    unseen: Unseen = _UNSEEN_OFFSETS,
) -> Interval | None:
    """Release the spread of offsets clipped to a ball, whose mean is released as ``offset``.

    Return the interval of the mean; None without a level.
    """
    if level is None:
        return None
    n_rows = offset.n_rows
    distances: Grouped[FloatArray] = map_groups(
        sample, lambda group: np.asarray(ball.distances(group) * group.weights), all_replicates=True
    )
    squares, std = release_second_moments(
        spend, BALL_SQUARES, mean_squares(sample, ball), ball.radius, n_rows
    )
    tail = release_tail(spend, BALL_TAIL, shares_above(sample, distances, ball.radius), n_rows)
    along = part_along(squares, np.maximum(squares, 0).sum(axis=0))
    return mean_interval(
        level,
        ReleasedOffset(ball.unit * offset.value, ball.unit * offset.noise_std, n_rows),
        squares=ball.unit**2 * squares,
        squares_std=ball.unit**2 * std,
        clipping=ball.unit * tail.moved(along * ball.radius, unseen=unseen),
        largest_bias=_largest_bias(tail),
    )


def interval_of_entries(
    spend: Spend,
    level: float,
    sample: Sample,
    entries: TruncatedEntries,
    noise_std: FloatArray,
    unseen: Unseen,
) -> Interval:
    """Release the spread of entries truncated to public intervals; return the interval of their mean."""
    spread = RowSpread(entries.squares(sample), entries.shares_above(sample), unseen)
    return entry_interval(spend, level, entries, sample.n_rows, spread, noise_std)


def entry_interval(
    spend: Spend,
    level: float,
    entries: TruncatedEntries,
    n_rows: FloatArray,
    spread: RowSpread,
    noise_std: FloatArray,
) -> Interval:
    """Release the spread of truncated entries, whose squares are relative; return the interval.

    ``noise_std`` is that of the mean.
    """
    if isinstance(spend.plan[SCORE_MOMENTS], Gaussian):
        squares, std = spend.columns(
            SCORE_MOMENTS, box.of(spread.squares, np.ones(len(spread.squares)), n_rows)
        )
        tail = release_tail(spend, ENTRY_TAIL, spread.above, n_rows)
    else:
        squares, std = spend.columns(SCORE_MOMENTS, interval.of(spread.squares, 1, n_rows))
        tail = release_tail(spend, PURE_TAIL, spread.above, n_rows)
    half = (entries.upper - entries.lower) / 2
    farthest = np.maximum(entries.upper - entries.center, entries.center - entries.lower)
    return mean_interval(
        level,
        ReleasedOffset(entries.mean - (entries.upper + entries.lower) / 2, noise_std, n_rows),
        squares=half**2 * squares,
        squares_std=half**2 * std,
        clipping=tail.moved(farthest, unseen=spread.unseen),
        largest_bias=_largest_bias(tail),
    )


def _largest_bias(tail: Tail) -> FloatArray:
    return np.where(tail.is_visible, LARGEST_BIAS, _LARGEST_HIDDEN)


def mean_interval(
    level: float,
    offset: ReleasedOffset,
    *,
    squares: FloatArray,
    squares_std: FloatArray,
    clipping: FloatArray,
    largest_bias: FloatArray,
) -> Interval:
    """Return the interval of a mean, the average of offsets from a public or released center.

    ``squares`` are released means of squared offsets, with their noise, (R,) or (d, R). ``clipping`` (d, R)
    bounds how far clipping moved the mean. Above ``largest_bias`` half-widths, there is no interval.
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
        largest_bias=largest_bias,
    )


BALL_SQUARES = Release(SCORE_MOMENTS, outer_product)
BALL_TAIL = Release(TAIL, tail_sensitivity)
ENTRY_SQUARES = Release(SCORE_MOMENTS, box)
ENTRY_TAIL = Release(TAIL, tail_sensitivity)
BALL_LEMMAS = {each.label: each.lemma for each in (BALL_SQUARES, BALL_TAIL)}
PURE_SQUARES = Release(SCORE_MOMENTS, interval)
PURE_TAIL = Release(TAIL, tail_l1_sensitivity)
