"""What an interval of a mean needs, of truncated entries or of clipped offsets from a center.

Entries, truncated to an interval per column (:class:`TruncatedEntries`). With c_j the middle of column j's
interval, h_j half of its width and m_j the released mean, released are

    per column the mean of ((clip(x) − c)/h)²   √d/n, or 1/n in ℓ∞ (:func:`square_sensitivity`)
    the shares of rows by size                  √2/n, or 2/n in ℓ1 (:mod:`dpalgos.intervals.tails`)

An entry's size is its distance from m_j over that of the end on its side, and a row's the largest of its
entries'. Columns share one tail of rows, and have one each in which there is √d times the noise: a column
beyond its bounds says nothing about another. The squares tell the spread of the entries, the shares how far
cutting them may have moved the mean of a column.

Offsets of rows from a center, clipped to a ball or an ellipsoid (:class:`Ball`):

    y_i = clip((x_i − c) / u, r),   clip shortens a vector to ℓ2 norm r;   the answer is c + u · mean(y_i)

Whatever u is, opposite rows far away move the mean of y by 2r/n, and its noise moves coordinate j of the
answer by u_j times as much.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dpalgos.catalog import Neighbors, Witnesses, pair
from dpalgos.intervals.half_widths import (
    SCORE_MOMENTS,
    note_mean_interval,
    reach_along,
    release_score_moments,
)
from dpalgos.intervals.tails import FAR, LEVELS, TAIL, Unseen, counts, counts_by_level, release_tail
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Group, Sample
from dpalgos.steps.clipping import clip_factor, unit_mean_sensitivity
from dpalgos.steps.denoising import coordinate_std
from dpalgos.typing import BoolArray, FloatArray

INTERVAL = "interval"
CUBE_SHARE = 0.4  # of ε, where noise is of pure ε; a share of μ² is worth its square root
_SQUARES_SHARE = 0.25  # of that
_UNSEEN_ENTRIES = Unseen(near=1.5)
_UNSEEN_OFFSETS = Unseen(near=2.5, far=6.5)


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

        With Gaussian noise by ``multiplier``, of a part of
        :func:`dpalgos.intervals.half_widths.interval_shares`; else with noise in a cube and Laplace noise,
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


@dataclass(frozen=True)
class RelativeSquares:
    """A function of rows with values ((clip(x) − c)/h)², equal to another of the same c and h."""

    middle: tuple[float, ...]
    half: tuple[float, ...]

    def __call__(self, rows: FloatArray, bound: float) -> FloatArray:
        """Return the squares, at most ``bound``²."""
        relative = (rows - np.array(self.middle)) / np.array(self.half)
        return np.asarray(np.clip(relative, -bound, bound) ** 2)


@dataclass(frozen=True, eq=False)
class Ball:
    """Rows within ``radius`` r (R,) of ``center`` c, (d, R) or (d, 1), in units u (d, R) or (1, 1)."""

    center: FloatArray
    radius: FloatArray
    unit: FloatArray = field(default_factory=lambda: np.ones((1, 1)))

    def distances(self, group: Group) -> FloatArray:
        """Return ‖(x − c) / u‖ of every row for every replicate, (n, R)."""
        # What distances are computed from, lest digits cancel.
        origin = self.center.mean(axis=1, keepdims=True)
        offsets, moved = group.X - origin.T, self.center - origin
        weight = np.broadcast_to(self.unit**-2.0, (len(self.center), self.unit.shape[1]))
        squares = offsets**2 @ weight - 2 * offsets @ (moved * weight) + (moved**2 * weight).sum(axis=0)
        return np.asarray(np.sqrt(np.maximum(squares, 0)))


def mean_offset(sample: Sample, ball: Ball) -> FloatArray:
    """Return the mean of y, (d, R)."""
    center, radius = ball.center, ball.radius
    if center.shape[1] == 1 and np.ptp(radius) == 0 and ball.unit.size == 1:

        def clipped(X: FloatArray) -> FloatArray:
            offsets = (X - center.T) / ball.unit
            offsets *= radius[0] / np.maximum(np.linalg.norm(offsets, axis=1, keepdims=True), radius[0])
            return offsets

        return sample.mean_of(clipped)
    origin = center.mean(axis=1, keepdims=True)

    def part(group: Group, distances: FloatArray) -> FloatArray:
        factor = clip_factor(distances, radius) * group.weights
        return np.asarray((group.X - origin.T).T @ factor - (center - origin) * factor.sum(axis=0))

    total = sample.grouped(ball.distances, together=True).total((len(center), sample.n_replicates), part)
    return np.asarray(total / ball.unit / sample.n_rows)


def mean_squares(sample: Sample, ball: Ball) -> tuple[FloatArray, FloatArray]:
    """Return means of the squares of y, (d, R), at most r² in sum, and shares of rows by size, (6, R)."""
    origin = ball.center.mean(axis=1, keepdims=True)
    moved, d = ball.center - origin, sample.n_features

    def part(group: Group, distances: FloatArray) -> FloatArray:
        rows, weights = group.X - origin.T, group.weights * clip_factor(distances, ball.radius) ** 2
        squares = (rows**2).T @ weights - 2 * moved * (rows.T @ weights) + moved**2 * weights.sum(axis=0)
        return np.concatenate([squares, counts_by_level(sample, group, distances / ball.radius)])

    shape = d + len(LEVELS), sample.n_replicates
    total, above = np.split(sample.grouped(ball.distances, together=True).total(shape, part), [d])
    return np.maximum(total, 0.0) / ball.unit**2 / sample.n_rows, above / sample.n_rows


def note_offset_interval(
    sample: Sample,
    ball: Ball,
    offset: FloatArray,
    noise_std: FloatArray,
    level: float,
    multiplier: Callable[[str], float],
    transcript: Transcript,
) -> None:
    """Release squares of clipped offsets and the share clipped; note the half-widths of the answer.

    Arguments are those of :func:`mean_offset`, what it released and the noise in it, the confidence, and the
    noise multipliers of :func:`dpalgos.intervals.half_widths.release_score_moments`.
    """
    squares, above = mean_squares(sample, ball)
    scores = release_score_moments(
        transcript, squares, above, bound=ball.radius, n_rows=sample.n_rows, multiplier=multiplier
    )
    along = reach_along(scores.moments, np.maximum(scores.moments, 0).sum(axis=0))
    note_mean_interval(
        transcript,
        level,
        squares=ball.unit**2 * scores.moments,
        squares_std=ball.unit**2 * scores.std,
        offset=ball.unit * offset,
        noise_std=ball.unit * noise_std,
        clipping=ball.unit * scores.tail.moved(along * ball.radius, unseen=_UNSEEN_OFFSETS),
        n_rows=sample.n_rows,
    )


def interval_witnesses(center: FloatArray) -> Witnesses:
    """Return far rows along different axes from a released center (d, 1), and one against the center."""
    apart = far_along_axes(center)
    return {SCORE_MOMENTS: apart, TAIL: pair(apart[0], center.T)}


def far_along_axes(center: FloatArray) -> Neighbors:
    """Return far rows along the first and the last axis from a center (d, 1)."""
    d = len(center)
    return pair(center.T + 1e9 * np.eye(d)[[0]], center.T + 1e9 * np.eye(d)[[d - 1]])
