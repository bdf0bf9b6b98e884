"""What an interval of a mean needs, of truncated entries or of clipped offsets from a center.

Entries, truncated to an interval per column. With c_j the middle of column j's interval, h_j half of its
width and m_j the released mean, released are

    per column the mean of ((clip(x) − c)/h)²   √d/n, or 1/n in ℓ∞ (:func:`square_sensitivity`)
    the shares of rows by size                  √2/n, or 2/n in ℓ1 (:mod:`dpalgos.mechanisms.tails`)

An entry's size is its distance from m_j over that of the end on its side, and a row's the largest of its
entries'. Columns share one tail of rows, and have one each in which there is √d times the noise: a column
beyond its bounds says nothing about another. The squares tell the spread of the entries, the shares how far
cutting them may have moved the mean of a column.

Offsets, clipped to a ball (:mod:`dpalgos.steps.ball_means`) of radius r:

    means of the squares of offsets over r²      √2/n, or 1/n for one column
    the shares of rows by size, norm over r      √2/n
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpalgos.catalog import Neighbors, Witnesses, pair
from dpalgos.errors import InputError
from dpalgos.intervals.half_widths import (
    SCORE_MOMENTS,
    IntervalParams,
    note_mean_interval,
    reach_along,
    release_second_moments,
)
from dpalgos.mechanisms.tails import (
    FAR,
    LEVELS,
    NONE_UNSEEN,
    TAIL,
    Unseen,
    counts,
    release_tail,
    shares_above,
)
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Group, Grouped, Sample
from dpalgos.steps.ball_means import Ball, far_along_axes, mean_squares
from dpalgos.steps.clipping import unit_mean_sensitivity
from dpalgos.steps.denoising import coordinate_std
from dpalgos.typing import BoolArray, FloatArray

INTERVAL = "interval"
SHARES = {SCORE_MOMENTS: 0.09, TAIL: 0.21}  # of μ²
CUBE_SHARE = 0.4  # of ε, where noise is of pure ε; a share of μ² is worth its square root
_SQUARES_SHARE = 0.25  # of that
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
        of :meth:`TruncatedEntries.note_interval`.
        """
        if self.interval is None:
            return
        entries = TruncatedEntries(lower=lower, upper=upper, mean=mean, unseen=Unseen(*unseen))
        above = entries.shares_above(sample)
        entries.note_interval(
            transcript, self.interval, squares=squares(), above=above, n_rows=sample.n_rows, **noise
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


@dataclass(frozen=True, eq=False, kw_only=True)
class TruncatedEntries:
    """Intervals to which entries were truncated, (d, R) or (d, 1), and the released mean (d, R)."""

    lower: FloatArray
    upper: FloatArray
    mean: FloatArray
    unseen: Unseen = _UNSEEN_ENTRIES

    @property
    def center(self) -> FloatArray:
        """Return the mean, at least a twentieth of the interval away from its ends."""
        inside = (self.upper - self.lower) / 20
        return np.asarray(np.clip(self.mean, self.lower + inside, self.upper - inside))

    def shares_above(self, sample: Sample) -> FloatArray:
        """Return the shares of rows above each size, (6, R), or of rows and columns, (6, 1 + d, R)."""
        d, shape = sample.n_features, (len(LEVELS), sample.n_features + 1, sample.n_replicates)

        def counted(group: Group, moved: BoolArray | None) -> FloatArray:
            above = np.zeros(shape)
            for r, weights in enumerate(np.broadcast_to(group.weights, (len(group.X), shape[-1])).T):
                sizes = self.sizes(group.X, r)
                if moved is not None:
                    sizes = np.where(moved, FAR, sizes)
                sizes *= weights[:, None]
                above[:, :1, r] += counts(sizes.max(axis=1, keepdims=True))
                above[:, 1:, r] += counts(sizes)
            return above

        above = sample.grouped(sample.moved_cells, together=True).total(shape, counted)
        return np.asarray((above if d > 1 else above[:, 0]) / sample.n_rows)

    def sizes(self, rows: FloatArray, replicate: int) -> FloatArray:
        """Return the sizes of the entries of rows, (n, d)."""
        center = self.center[:, replicate]
        over, under = (self.upper - self.center)[:, replicate], (self.center - self.lower)[:, replicate]
        offsets = rows - center
        return np.asarray(np.maximum(offsets / over, -offsets / under))

    def note_interval(
        self,
        transcript: Transcript,
        level: float,
        *,
        squares: FloatArray,
        above: FloatArray,
        n_rows: FloatArray,
        noise_std: FloatArray,
        multiplier: Callable[[str], float] | None = None,
        epsilon: float = 0.0,
    ) -> None:
        """Release relative squares (d, R) and shares of :meth:`shares_above`, and note half-widths.

        With Gaussian noise by ``multiplier``, of the parts of :data:`SHARES`; else with noise in a cube
        and Laplace noise,
        for ``epsilon`` together. ``noise_std`` is that of the mean.
        """
        d, half = len(squares), (self.upper - self.lower) / 2
        if multiplier is not None:
            moved, z = square_sensitivity(d, n_rows), multiplier(SCORE_MOMENTS)
            released = transcript.gaussian(
                squares, l2_sensitivity=moved, noise_multiplier=z, label=SCORE_MOMENTS
            )
            std = transcript.noise_std(moved, z, d)
            tail = release_tail(transcript, above, n_rows=n_rows, multiplier=multiplier(TAIL))
        else:
            moved, spent = unit_mean_sensitivity(n_rows), _SQUARES_SHARE * epsilon
            released = transcript.box(squares, linf_sensitivity=moved, epsilon=spent, label=SCORE_MOMENTS)
            std = transcript.box_scale(moved, spent, d) * coordinate_std(d)
            tail = release_tail(transcript, above, n_rows=n_rows, epsilon=epsilon - spent)
        note_mean_interval(
            transcript,
            level,
            squares=half**2 * released,
            squares_std=half**2 * std,
            offset=self.mean - (self.upper + self.lower) / 2,
            noise_std=noise_std,
            clipping=tail.moved(
                np.maximum(self.upper - self.center, self.center - self.lower), unseen=self.unseen
            ),
            n_rows=n_rows,
        )


def square_sensitivity(d: int, n_rows: FloatArray) -> FloatArray:
    """Return the ℓ2 sensitivity √d/n of d means of squares in [0, 1].

    Attained by a row of middles against one of ends.
    """
    return np.asarray(np.sqrt(d) / n_rows)
