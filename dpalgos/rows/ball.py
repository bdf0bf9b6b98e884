"""Means over rows that are clipped to a ball around a center."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dpalgos.rows.clipping import clip_factor
from dpalgos.rows.group import Group
from dpalgos.rows.grouped import Grouped, map_groups
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Ball:
    """Rows within ``radius`` r (R,) of ``center`` c, (d, R) or (d, 1), in units u (d, R) or (1, 1).

    y_i = clip((x_i − c) / u, r) shortens an offset to ℓ2 norm r. An estimate is c + u · mean(y_i). For any
    u, opposite rows far away move the mean of y by 2r/n. Its noise moves coordinate j of the estimate by u_j
    times as much.
    """

    center: FloatArray
    radius: FloatArray
    unit: FloatArray = field(default_factory=lambda: np.ones((1, 1)))

    @property
    def origin(self) -> FloatArray:
        """The mean of the centers, (d, 1), from which offsets are computed: no digits cancel."""
        return np.asarray(self.center.mean(axis=1, keepdims=True))

    def distances(self, group: Group) -> FloatArray:
        """Return ‖(x − c) / u‖ of every row for every replicate, (n, R)."""
        offsets, shift = group.X - self.origin.T, self.center - self.origin
        weight = np.broadcast_to(self.unit**-2.0, (len(self.center), self.unit.shape[1]))
        squares = offsets**2 @ weight - 2 * offsets @ (shift * weight) + (shift**2 * weight).sum(axis=0)
        return np.asarray(np.sqrt(np.maximum(squares, 0)))

    def total(self, sample: Sample, part: Callable[[Group, FloatArray], FloatArray]) -> FloatArray:
        """Return the sum over rows of a function of a group and its distances, (d, R)."""
        return map_groups(sample, self.distances, all_replicates=True).total(
            (len(self.center), sample.n_replicates), part
        )


def mean_offset(sample: Sample, ball: Ball) -> FloatArray:
    """Return the mean of the clipped offsets, (d, R)."""
    origin = ball.origin

    def part(group: Group, distances: FloatArray) -> FloatArray:
        factor = clip_factor(distances, ball.radius) * group.weights
        return np.asarray((group.X - origin.T).T @ factor - (ball.center - origin) * factor.sum(axis=0))

    return np.asarray(ball.total(sample, part) / ball.unit / sample.n_rows)


def mean_squares(sample: Sample, ball: Ball) -> FloatArray:
    """Return means of the squares of the clipped offsets, (d, R). They sum to at most r²."""
    shift = ball.center - ball.origin

    def part(group: Group, distances: FloatArray) -> FloatArray:
        rows, weights = group.X - ball.origin.T, group.weights * clip_factor(distances, ball.radius) ** 2
        squares = (rows**2).T @ weights - 2 * shift * (rows.T @ weights)
        return np.asarray(squares + shift**2 * weights.sum(axis=0))

    return np.asarray(np.maximum(ball.total(sample, part), 0.0) / ball.unit**2 / sample.n_rows)


def counts_above(norms: Grouped[FloatArray], levels: FloatArray) -> FloatArray:
    """Return how many norms exceed each of ascending levels (m, R), (m, R)."""
    n_levels, n_replicates = levels.shape

    def intervals(group: Group, sizes: FloatArray) -> FloatArray:
        columns = np.broadcast_to(sizes, (len(sizes), n_replicates)).T
        exceeded = map(np.searchsorted, levels.T, columns)
        return np.stack([np.bincount(each, minlength=n_levels + 1) for each in exceeded], axis=1)

    table = norms.total((n_levels + 1, n_replicates), intervals)
    return np.asarray(table[::-1].cumsum(axis=0)[-2::-1], dtype=float)
