"""Means over rows that are clipped to a ball around a center."""

from dataclasses import dataclass

import numpy as np

from dpalgos.core.rows import Block, Rows
from dpalgos.rows.products import clip_factor
from dpalgos.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Ball:
    """Rows within ``radius`` r (…,) of ``center`` c (…, d), in units u (…, d) or (1,).

    y_i = clip((x_i − c) / u, r) shortens an offset to ℓ2 norm r. An estimate is c + u · mean(y_i). For any
    u, opposite rows far away move the mean of y by 2r/n. Its noise moves coordinate j of the estimate by u_j
    times as much.
    """

    center: FloatArray
    radius: FloatArray
    unit: FloatArray

    @classmethod
    def plain(cls, center: FloatArray, radius: float | FloatArray) -> "Ball":
        """Return a ball whose units are 1."""
        return cls(center, np.asarray(radius), np.ones(1))

    @property
    def origin(self) -> FloatArray:
        """The mean of the centers, (d,), from which offsets are computed: no digits cancel."""
        return np.asarray(self.center.reshape(-1, self.center.shape[-1]).mean(axis=0))

    def distances(self, block: Block) -> FloatArray:
        """Return ‖(x − c) / u‖ of every row for every replicate, (…, n)."""
        offsets, shift = block.X - self.origin, self.center - self.origin
        weight = np.broadcast_to(self.unit**-2.0, shift.shape)
        squares = block.predictors(weight, offsets**2) - 2 * block.predictors(shift * weight, offsets)
        return np.asarray(np.sqrt(np.maximum(squares + (shift**2 * weight).sum(axis=-1)[..., None], 0)))

    def factors(self, block: Block) -> FloatArray:
        """Return by what each row's offset is multiplied to clip it, (…, n)."""
        return clip_factor(self.distances(block), self.radius[..., None])


def mean_offset(rows: Rows, ball: Ball) -> FloatArray:
    """Return the mean of the clipped offsets, (…, d)."""
    origin = ball.origin

    def part(block: Block) -> FloatArray:
        factors = ball.factors(block)
        shift = (ball.center - origin) * block.sum(factors)[..., None]
        return block.products(factors, block.X - origin) - shift

    return np.asarray(rows.mean(part) / ball.unit)


def mean_squares(rows: Rows, ball: Ball) -> FloatArray:
    """Return means of the squares of the clipped offsets, (…, d). They sum to at most r²."""
    origin, shift = ball.origin, ball.center - ball.origin

    def part(block: Block) -> FloatArray:
        offsets, factors = block.X - origin, ball.factors(block) ** 2
        squares = block.products(factors, offsets**2) - 2 * shift * block.products(factors, offsets)
        return squares + shift**2 * block.sum(factors)[..., None]

    return np.asarray(np.maximum(rows.mean(part), 0.0) / ball.unit**2)


def counts_above(rows: Rows, ball: Ball, levels: FloatArray) -> FloatArray:
    """Return how many rows are farther from the center than each of ascending levels (…, m), (…, m)."""
    n_levels = levels.shape[-1]

    def part(block: Block) -> FloatArray:
        distances = ball.distances(block)
        shape = np.broadcast_shapes(levels.shape[:-1], distances.shape[:-1])
        pairs = zip(
            np.broadcast_to(levels, (*shape, n_levels)).reshape(-1, n_levels),
            np.broadcast_to(distances, (*shape, distances.shape[-1])).reshape(-1, distances.shape[-1]),
            strict=True,
        )
        exceeded = np.stack([np.searchsorted(own, each) for own, each in pairs])
        return block.histogram(exceeded.reshape(*shape, -1), n_levels + 1)

    return np.asarray(rows.sum(part)[..., ::-1].cumsum(axis=-1)[..., -2::-1])
