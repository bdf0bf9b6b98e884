"""Means of offsets of rows from a center, clipped to a ball or an ellipsoid.

    y_i = clip((x_i − c) / u, r),   clip shortens a vector to ℓ2 norm r;   the answer is c + u · mean(y_i)

Whatever u is, opposite rows far away move the mean of y by 2r/n, and its noise moves coordinate j of the
answer by u_j times as much.
"""

from dataclasses import dataclass, field

import numpy as np

from dpalgos.catalog import Neighbors, pair
from dpalgos.rows.sample import Group, Sample
from dpalgos.steps.clipping import clip_factor
from dpalgos.typing import FloatArray


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
    """Return the mean of the clipped offsets, (d, R)."""
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


def mean_squares(sample: Sample, ball: Ball) -> FloatArray:
    """Return means of the squares of the clipped offsets, (d, R), at most r² in sum."""
    origin = ball.center.mean(axis=1, keepdims=True)
    moved, d = ball.center - origin, sample.n_features

    def part(group: Group, distances: FloatArray) -> FloatArray:
        rows, weights = group.X - origin.T, group.weights * clip_factor(distances, ball.radius) ** 2
        squares = (rows**2).T @ weights - 2 * moved * (rows.T @ weights)
        return np.asarray(squares + moved**2 * weights.sum(axis=0))

    total = sample.grouped(ball.distances, together=True).total((d, sample.n_replicates), part)
    return np.asarray(np.maximum(total, 0.0) / ball.unit**2 / sample.n_rows)


def far_along_axes(center: FloatArray) -> Neighbors:
    """Return far rows along the first and the last axis from a center (d, 1)."""
    d = len(center)
    return pair(center.T + 1e9 * np.eye(d)[[0]], center.T + 1e9 * np.eye(d)[[d - 1]])
