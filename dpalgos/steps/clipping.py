"""Clipping of rows, responses and iterates, and means of what is clipped: it makes sensitivities finite.

Clipping is a part of the guarantee, not an assumption on the data: estimators always apply it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from dpalgos.catalog import Neighbors, pair
from dpalgos.rows.group import Group
from dpalgos.rows.sample import Grouped, Sample
from dpalgos.typing import FloatArray, IntArray


def row_lengths(X: FloatArray) -> FloatArray:
    """Return the ℓ2 norms of the rows of X (..., d), (...), in double precision and without arrays like X."""
    return np.asarray(np.sqrt(np.einsum("...j,...j->...", X, X, dtype=float)))


def clip_rows_l2(X: FloatArray, bound: float) -> FloatArray:
    """Scale the rows of X (n, d) whose ℓ2 norm exceeds ``bound`` down to it, in double precision."""
    return np.asarray(np.multiply(X, clip_factor(row_lengths(X), bound)[:, None], dtype=float))


def truncate(values: FloatArray, bound: float | FloatArray) -> FloatArray:
    """Clip every entry to [-bound, bound] (Π_R of paper A for scalars); bounds may be one per replicate."""
    return np.clip(values, -np.asarray(bound), bound)


@dataclass(frozen=True)
class RelativeSquares:
    """A function of rows with values ((clip(x) − c)/h)², equal to another of the same c and h."""

    middle: tuple[float, ...]
    half: tuple[float, ...]

    def __call__(self, rows: FloatArray, bound: float) -> FloatArray:
        relative = (rows - np.array(self.middle)) / np.array(self.half)
        return np.asarray(np.clip(relative, -bound, bound) ** 2)


def project_l2_ball(coef: FloatArray, radius: float) -> FloatArray:
    """Project the columns of ``coef`` (d, R) onto the ℓ2 ball (Π_C of paper A)."""
    norms = np.linalg.norm(coef, axis=0)
    return np.asarray(coef * (radius / np.maximum(norms, radius)))


def clip_factor(norms: FloatArray, level: float | FloatArray) -> FloatArray:
    """Return min(1, level / norm), the factor that clips a vector of that norm."""
    return np.asarray(level / np.maximum(norms, level))


def counts_above(norms: Grouped[FloatArray], levels: FloatArray) -> Callable[[IntArray], FloatArray]:
    """Return a function: a choice (R,) of ascending levels (m, R) → how many norms exceed the chosen, (R,).

    Streamed rows are read once, here, and sorted into the intervals between levels. Norms that are held are
    compared with a level when it is chosen.
    """
    n_levels, n_replicates = levels.shape
    replicate = np.arange(n_replicates)
    if norms.kept is not None:

        def above(choice: IntArray) -> FloatArray:
            level = levels[choice, replicate]

            def part(group: Group, sizes: FloatArray) -> FloatArray:
                exceed = level[group.replicates, None] < sizes.T
                return np.array([np.count_nonzero(each) for each in exceed])

            return norms.total((n_replicates,), part)

        return above

    def intervals(group: Group, sizes: FloatArray) -> FloatArray:
        own = levels[:, group.replicates].T
        columns = np.broadcast_to(sizes, (len(sizes), len(own))).T
        exceeded = map(np.searchsorted, own, columns)
        return np.stack([np.bincount(each, minlength=n_levels + 1) for each in exceeded], axis=1)

    table = norms.total((n_levels + 1, n_replicates), intervals)[::-1].cumsum(axis=0)[-2::-1]
    return lambda choice: np.asarray(table[choice, replicate])


def clipped_residual_gradient(
    sample: Sample, bound: float | Callable[[FloatArray], FloatArray], *, row_bound: float | None = None
) -> Callable[[FloatArray], FloatArray]:
    """Return β (d, R) ↦ g(β) = (1/n) Σ_i x_i clip(x_i'β − y_i, ±b_i), (d, R).

    ``bound`` is b: a number, or a function that returns one for each of some rows (m, d). Rows are clipped to
    the ℓ2 norm ``row_bound`` if it is given. Replacing one row moves g by at most 2 max ‖x_i‖ b_i / n,
    whatever β is: attained by the same row with residuals clipped at either end.
    """

    def prepared(group: Group) -> tuple[FloatArray, float | FloatArray]:
        rows = group.X if row_bound is None else clip_rows_l2(group.X, row_bound)
        return rows, bound(rows)[:, None] if callable(bound) else bound

    groups = sample.grouped(prepared)

    def at(coef: FloatArray) -> FloatArray:
        def part(group: Group, made: tuple[FloatArray, float | FloatArray]) -> FloatArray:
            rows, most = made
            residual = (coef[:, group.replicates].T @ rows.T).T
            residual -= group.y[:, None]
            np.clip(residual, -most, most, out=residual)
            residual *= group.weights
            return rows.T @ residual

        return np.asarray(groups.total(coef.shape, part) / sample.n_rows)

    return at


def mean_in_ball(vectors: Sequence[FloatArray], center: FloatArray, radius: FloatArray) -> FloatArray:
    """Return c + (1/n) Σ_i clip(x_i − c, r), (d, R), for centers (d, R) and radii (R,), public or released.

    ``vectors`` holds an array (n_r, d) per replicate, which may be one and the same: then all are two
    products. Clipping shortens a vector to ℓ2 norm r.
    """
    means = np.empty_like(center)
    for X, replicates in distinct(vectors):
        middles, radii = center[:, replicates], radius[replicates]
        origin = middles.mean(axis=1, keepdims=True)  # what distances are computed from, against cancellation
        offsets, moved = X - origin.T, middles - origin
        squares = np.einsum("ij,ij->i", offsets, offsets)[:, None] - 2 * offsets @ moved
        squares += (moved**2).sum(axis=0)
        factor = clip_factor(np.sqrt(np.maximum(squares, 0)), radii)
        means[:, replicates] = middles + (offsets.T @ factor - moved * factor.sum(axis=0)) / len(X)
    return means


def ball_squares(
    vectors: Sequence[FloatArray], center: FloatArray, radius: FloatArray
) -> tuple[FloatArray, list[FloatArray]]:
    """Return mean squares of offsets clipped likewise, (d, R), and each vector's distance over the radius.

    The arguments are those of :func:`mean_in_ball`.
    """
    squares, sizes = np.empty_like(center), []
    for r, X in enumerate(vectors):
        offsets = X - center[:, r]
        norms = np.linalg.norm(offsets, axis=1)
        squares[:, r] = clip_factor(norms, radius[r]) ** 2 @ offsets**2 / len(X)
        sizes.append(norms / radius[r])
    return squares, sizes


def distinct(arrays: Sequence[FloatArray]) -> Iterator[tuple[FloatArray, IntArray]]:
    """Yield every array of a sequence over replicates once, with the replicates that share it."""
    replicates: dict[int, list[int]] = {}
    for r, array in enumerate(arrays):
        replicates.setdefault(id(array), []).append(r)
    for chosen in replicates.values():
        yield arrays[chosen[0]], np.array(chosen)


@dataclass(frozen=True, eq=False)
class Ball:
    """Rows within ``radius`` r (R,) of ``center`` c, (d, R) or (d, 1), in units u (d, R) or (1, 1).

    y_i = clip((x_i − c) / u, r) shortens an offset to ℓ2 norm r; an answer is c + u · mean(y_i). Whatever u
    is, opposite rows far away move the mean of y by 2r/n, and its noise moves coordinate j of the answer by
    u_j times as much.
    """

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
