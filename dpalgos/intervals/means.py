"""Intervals of means: of truncated entries, or of offsets from a center that are clipped to a ball.

Released for them are squares, which tell the spread, and shares of rows by size, which bound how far clipping
may have moved the mean: for entries per column (:mod:`dpalgos.mechanisms.for_intervals.spread`), for offsets
in a ball (:mod:`dpalgos.steps.clipping`) of radius r

    quantity        sensitivity             share  label
    means of y_j²   √2 r²/n, r²/n for d=1   .05    score moments
    sizes ‖y‖/r     √2/n                    .12    shares by size

Where noise is of pure ε both take .4 of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpalgos.catalog import Neighbors, Witnesses, pair
from dpalgos.errors import InputError
from dpalgos.intervals.half_widths import IntervalParams, note_mean_interval, reach_along
from dpalgos.mechanisms.for_intervals.spread import (
    SCORE_MOMENTS,
    TruncatedEntries,
    release_entry_squares,
    release_second_moments,
)
from dpalgos.mechanisms.for_intervals.tails import NONE_UNSEEN, TAIL, Unseen, release_tail, shares_above
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Grouped, Sample
from dpalgos.steps.clipping import Ball, far_along_axes, mean_squares
from dpalgos.typing import FloatArray

INTERVAL = "interval"
SHARES = {SCORE_MOMENTS: 0.05, TAIL: 0.12}  # of μ²
CUBE_SHARE = 0.4  # of ε, where noise is of pure ε; a share of μ² is worth its square root
_UNSEEN_ENTRIES = Unseen(near=1.5)
_UNSEEN_OFFSETS = Unseen(near=2.5, far=6.5)


@dataclass(frozen=True, kw_only=True)
class MeanInterval(IntervalParams):
    """Keywords of means that have intervals, and all that their estimators need for them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.interval is not None and getattr(self, "shrinkage", None) is not None:
            raise InputError(
                f"interval must be None for a shrunk answer, whose bias is not known, got {self.interval!r}; "
                "leave out one of interval and shrinkage"
            )

    @property
    def interval_shares(self) -> dict[str, float]:
        """The shares of μ² that the interval takes; none without one."""
        return {} if self.interval is None else dict(SHARES)

    @property
    def interval_epsilon(self) -> dict[str, float]:
        """The share of ε that the interval takes where noise is of pure ε."""
        return {} if self.interval is None else {INTERVAL: CUBE_SHARE}

    def note_entries(
        self,
        transcript: Transcript,
        sample: Sample,
        *,
        lower: FloatArray,
        upper: FloatArray,
        mean: FloatArray,
        squares: Callable[[], FloatArray],
        unseen: tuple[FloatArray | float, float] = (1.5, 0.0),
        **noise: Any,
    ) -> None:
        """Note the half-widths of the mean (d, R) of entries truncated to intervals, if there is to be any.

        ``squares`` returns the means of squared offsets from the middle, over half the width, squared;
        ``unseen`` says how many levels away outliers are taken to lie that the noise hides. ``noise`` is that
        of :func:`note_entry_interval`.
        """
        if self.interval is None:
            return
        entries = TruncatedEntries(lower=lower, upper=upper, mean=mean)
        note_entry_interval(
            transcript,
            self.interval,
            entries,
            squares=squares(),
            above=entries.shares_above(sample),
            n_rows=sample.n_rows,
            unseen=Unseen(*unseen),
            **noise,
        )

    def note_ball(
        self,
        transcript: Transcript,
        sample: Sample,
        ball: Ball,
        offset: FloatArray,
        noise_std: FloatArray,
        multiplier: Callable[[str], float],
    ) -> None:
        """Note the half-widths of a mean of clipped offsets, released as ``offset`` with its noise."""
        if self.interval is None:
            return
        distances: Grouped[FloatArray] = sample.grouped(
            lambda group: np.asarray(ball.distances(group) * group.weights), together=True
        )
        note_ball_interval(
            transcript,
            self.interval,
            squares=mean_squares(sample, ball),
            above=shares_above(sample, distances, ball.radius),
            radius=ball.radius,
            unit=ball.unit,
            offset=offset,
            noise_std=noise_std,
            n_rows=sample.n_rows,
            multiplier=multiplier,
            unseen=_UNSEEN_OFFSETS,
        )

    @staticmethod
    def entry_witnesses(middle: FloatArray, end: FloatArray, far: FloatArray) -> Witnesses:
        """Return rows (1, d): of middles of the intervals, of their ends, and beyond."""
        return {SCORE_MOMENTS: pair(middle, end), TAIL: pair(middle, far)}

    @staticmethod
    def user_witnesses(squares: Neighbors, sizes: Neighbors) -> Witnesses:
        """Return the data sets that attain the sensitivity of the squares, and of the shares by size."""
        return {SCORE_MOMENTS: squares, TAIL: sizes}

    @staticmethod
    def ball_witnesses(center: FloatArray) -> Witnesses:
        """Return far rows along different axes from a released center (d, 1), and one against the center."""
        apart = far_along_axes(center)
        return {SCORE_MOMENTS: apart, TAIL: pair(apart[0], center.T)}


def note_ball_interval(
    transcript: Transcript,
    level: float,
    *,
    squares: FloatArray,
    above: FloatArray,
    radius: FloatArray,
    offset: FloatArray,
    noise_std: FloatArray,
    n_rows: FloatArray,
    multiplier: Callable[[str], float],
    unit: FloatArray | float = 1.0,
    unseen: Unseen = NONE_UNSEEN,
) -> None:
    """Release squares of clipped offsets (d, R) and shares of vectors by size (6, R); note half-widths."""
    released, std = release_second_moments(
        transcript, squares, bound=radius, n_rows=n_rows, multiplier=multiplier(SCORE_MOMENTS)
    )
    tail = release_tail(transcript, above, n_rows=n_rows, multiplier=multiplier(TAIL))
    along = reach_along(released, np.maximum(released, 0).sum(axis=0))
    note_mean_interval(
        transcript,
        level,
        squares=unit**2 * released,
        squares_std=unit**2 * std,
        offset=unit * offset,
        noise_std=unit * noise_std,
        clipping=unit * tail.moved(along * radius, unseen=unseen),
        n_rows=n_rows,
    )


def note_entry_interval(
    transcript: Transcript,
    level: float,
    entries: TruncatedEntries,
    *,
    squares: FloatArray,
    above: FloatArray,
    n_rows: FloatArray,
    noise_std: FloatArray,
    unseen: Unseen = _UNSEEN_ENTRIES,
    **noise: Any,
) -> None:
    """Release relative squares (d, R) and shares by size of truncated entries; note half-widths.

    ``noise_std`` is that of the mean; ``noise`` is that of
    :func:`dpalgos.mechanisms.for_intervals.spread.release_entry_squares`.
    """
    released, std, tail = release_entry_squares(transcript, squares, above, n_rows, **noise)
    half = (entries.upper - entries.lower) / 2
    reach = np.maximum(entries.upper - entries.center, entries.center - entries.lower)
    note_mean_interval(
        transcript,
        level,
        squares=half**2 * released,
        squares_std=half**2 * std,
        offset=entries.mean - (entries.upper + entries.lower) / 2,
        noise_std=noise_std,
        clipping=tail.moved(reach, unseen=unseen),
        n_rows=n_rows,
    )
