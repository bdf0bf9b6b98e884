"""Offsets of rows from a center, clipped to a ball or an ellipsoid: their mean, and its interval.

    y_i = clip((x_i − c) / u, r),   clip shortens a vector to ℓ2 norm r;   the answer is c + u · mean(y_i)

Whatever u is, opposite rows far away move the mean of y by 2r/n, and its noise moves coordinate j of the
answer by u_j times as much.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dpalgos.catalog import Neighbors, pair
from dpalgos.intervals.half_widths import (
    SCORE_MOMENTS,
    note_mean_interval,
    reach_along,
    release_score_moments,
)
from dpalgos.intervals.tails import LEVELS, TAIL, Unseen, counts_by_level
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Group, Sample
from dpalgos.steps.clipping import clip_factor
from dpalgos.typing import FloatArray

_UNSEEN = Unseen(near=2.5, far=6.5)


def _one() -> FloatArray:
    return np.ones((1, 1))


@dataclass(frozen=True, eq=False)
class Ball:
    """Rows within ``radius`` r (R,) of ``center`` c, (d, R) or (d, 1), in units u (d, R) or (1, 1)."""

    center: FloatArray
    radius: FloatArray
    unit: FloatArray = field(default_factory=_one)

    def distances(self, group: Group) -> FloatArray:
        """Return ‖(x − c) / u‖ of every row for every replicate, (n, R)."""
        origin = self.center.mean(
            axis=1, keepdims=True
        )  # what distances are computed from, lest digits cancel
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
        clipping=ball.unit * scores.tail.moved(along * ball.radius, unseen=_UNSEEN),
        n_rows=sample.n_rows,
    )


def interval_witnesses(center: FloatArray) -> dict[str, Neighbors]:
    """Return far rows along different axes from a released center (d, 1), and one against the center."""
    apart = far_along_axes(center)
    return {SCORE_MOMENTS: apart, TAIL: pair(apart[0], center.T)}


def far_along_axes(center: FloatArray) -> Neighbors:
    """Return far rows along the first and the last axis from a center (d, 1)."""
    d = len(center)
    return pair(center.T + 1e9 * np.eye(d)[[0]], center.T + 1e9 * np.eye(d)[[d - 1]])
