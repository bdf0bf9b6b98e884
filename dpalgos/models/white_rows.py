"""Scores of a linear or generalized linear model on whitened rows, clipped row by row, for all replicates.

With u_i = W x_i the score of row i at θ is u_i (y_i − ψ'(u_i'θ))', of norm ‖u_i‖ ‖y_i − ψ'(u_i'θ)‖ (that of
Frobenius with classes). Rows are whitened before they are clipped and summed, so that rounding is relative to
the clip level, however ill-conditioned W is. They are kept from step to step where memory allows.
"""

import numpy as np

from dpalgos.models.families import Family
from dpalgos.rows.group import Group
from dpalgos.rows.sample import Grouped, Sample
from dpalgos.steps.clipping import clip_factor, row_lengths
from dpalgos.steps.moments import clipped_row_sums, row_norms, whitened, whitened_moments
from dpalgos.typing import BoolArray, FloatArray, IntArray

_Prepared = tuple[FloatArray, FloatArray, FloatArray | None, tuple[IntArray, ...]]
_Scores = tuple[FloatArray, FloatArray, FloatArray, FloatArray | None]
_CurvatureParts = tuple[FloatArray, FloatArray, BoolArray]
_MOST_KEPT = 2**24  # numbers


def constant_on(whitening: FloatArray) -> FloatArray:
    """Return the white coefficients (d, R) of the last column of x on rows of a whitening, (R, d, d)."""
    return np.asarray(np.linalg.inv(whitening)[:, :, -1].T)


class WhiteRows:
    """The rows W x_i of every replicate, and the norms and clipped means of their scores.

    ``whitening`` (R, d, d) is W', released or public, and so is ``origin`` (d, R), the coefficients at θ = 0,
    0 if omitted, and ``typical_offset`` (R,), near to which offsets lie. ``shape`` is that of θ, (d, R) or
    (d, K, R). Scores of a row longer than ``reach`` are those of the row and its response, shortened to it.
    """

    def __init__(
        self,
        sample: Sample,
        family: Family,
        whitening: FloatArray,
        origin: FloatArray | float = 0.0,
        typical_offset: FloatArray | float = 0.0,
        reach: float = np.inf,
    ) -> None:
        self.sample, self.whitening, self.family, self.origin = sample, whitening, family, origin
        self.typical_offset, self._reach = typical_offset, reach
        self.shape = (sample.n_features, *family.classes, sample.n_replicates)

        keeps = not sample.rows.streamed and sample.n_rows.sum() * sample.n_features <= _MOST_KEPT

        def prepared(group: Group) -> _Prepared:
            own = whitening[group.replicates]
            rows = whitened(group.X, own) if keeps else None
            norms = row_norms(group.X, own) if rows is None else row_lengths(rows).T
            far = np.nonzero(norms > reach) if norms.max() > reach else ()
            return family.encode(group.y), norms, rows, far

        self._groups = sample.grouped(prepared)

    def on(self, whitening: FloatArray) -> "WhiteRows":
        """Return the scores on rows of another whitening, (R, d, d)."""
        return WhiteRows(self.sample, self.family, whitening, self.origin, self.typical_offset, self._reach)

    def coef(self, theta: FloatArray) -> FloatArray:
        """Return the coefficients of x, W'θ from the origin, in the shape of θ."""
        return np.asarray(np.einsum("rij,j...r->i...r", self.whitening, theta) + self.origin)

    def at(self, theta: FloatArray) -> "ScoresAt":
        coef = self.coef(theta)

        def made(group: Group, prepared: _Prepared) -> _Scores:
            y, norms, rows, far = prepared
            chosen = coef[..., group.replicates]
            product = (chosen.reshape(len(chosen), -1).T @ group.X.T).T.reshape(-1, *chosen.shape[1:])
            residual = np.asarray(y - self.family.mean(group.shifted(product)))
            if far:
                residual[far] *= (self._reach / norms[far]) ** 2
            residual *= group.weights[:, None] if self.family.classes else group.weights
            size = row_lengths(residual.swapaxes(1, 2)) if self.family.classes else np.abs(residual)
            return residual, np.asarray(size * norms), norms, rows

        return ScoresAt(self, self._groups.then(made))

    def norms(self) -> Grouped[FloatArray]:
        """Return the ℓ2 norms of all rows u, 0 where a replicate does not use the row."""
        return self._groups.then(lambda group, prepared: prepared[1] * group.weights)

    def curvature(self, theta: FloatArray, level: FloatArray) -> "CurvatureAt":
        """Return rows' parts of the curvature of the mean of clipped scores at θ (d, R), without classes.

        ``level`` (R,) is the norm to which scores are clipped.
        """
        coef = self.coef(theta)

        def made(group: Group, prepared: _Prepared) -> _CurvatureParts:
            y, norms, *_ = prepared
            predictor = group.shifted(group.X @ coef[:, group.replicates])
            kept = np.abs(y - self.family.mean(predictor)) * norms <= level[group.replicates]
            second = self.family.second_derivative(predictor) * group.weights
            return np.asarray(second), np.asarray(second * (norms**2 + 1)), kept

        return CurvatureAt(self, self._groups.then(made))

    def mean_squares(self, weights: Grouped[FloatArray]) -> FloatArray:
        """Return the mean over rows of w u u' for weights w of every group's rows, (R, d, d)."""
        d = self.sample.n_features
        moments = weights.total(
            (self.sample.n_replicates, d, d),
            lambda group, own: whitened_moments(group.X, self.whitening[group.replicates], own),
            axis=0,
        )
        return np.asarray(moments / self.sample.n_rows[:, None, None])


class CurvatureAt:
    """The parts w z z', z = [u, 1], of the curvature at one θ: w = ψ'', and 0 where the score is clipped.

    The derivative of a clipped score is 0 along its residual. A part beyond the level of
    :meth:`clipped_mean` is shortened to it, whatever its residual.
    """

    def __init__(self, scores: WhiteRows, parts: Grouped[_CurvatureParts]) -> None:
        self._scores, self._parts = scores, parts

    def norms(self) -> Grouped[FloatArray]:
        """Return ψ''‖z‖² of all rows, 0 where a replicate does not use the row."""
        return self._parts.then(lambda group, made: made[1])

    def clipped_mean(self, level: FloatArray) -> FloatArray:
        """Return the mean over rows of parts of norm at most ``level`` (R,), (R, d + 1, d + 1)."""
        sample, d = self._scores.sample, self._scores.sample.n_features

        def part(group: Group, made: _CurvatureParts) -> FloatArray:
            second, norms, kept = made
            own, ones = level[group.replicates], np.ones((len(group.X), 1))
            weights = second * clip_factor(norms, own) * (kept | (norms > own))
            matrices = self._scores.whitening[group.replicates]
            rows = (np.column_stack([whitened(group.X, matrix), ones]) for matrix in matrices)
            return np.stack([(z * w[:, None]).T @ z for z, w in zip(rows, weights.T, strict=True)])

        total = self._parts.total((sample.n_replicates, d + 1, d + 1), part, axis=0)
        return np.asarray(total / sample.n_rows[:, None, None])


class ScoresAt:
    """The scores at one θ: residuals and ℓ2 norms, 0 where a row is not used, made once if rows are held."""

    def __init__(self, scores: WhiteRows, parts: Grouped[_Scores]) -> None:
        self._scores, self._parts = scores, parts

    @property
    def sample(self) -> Sample:
        return self._scores.sample

    @property
    def family(self) -> Family:
        """The family."""
        return self._scores.family

    def norms(self, of_rows: BoolArray | None = None) -> Grouped[FloatArray]:
        """Return the norms of all scores, or of rows in some replicates (R,); 0 where a row is not used."""
        if of_rows is None or not of_rows.any():
            return self._parts.then(lambda group, made: made[1])
        return self._parts.then(
            lambda group, made: np.where(of_rows[group.replicates], made[2] * group.weights, made[1])
        )

    def clipped_second_moments(self, level: FloatArray) -> FloatArray:
        """Return the mean over rows of g g', g a score clipped to norm ``level`` (R,), (R, d, d)."""

        def weights(group: Group, made: _Scores) -> FloatArray:
            residual, norms, *_ = made
            return np.asarray((residual * clip_factor(norms, level[group.replicates])) ** 2)

        return self._scores.mean_squares(self._parts.then(weights))

    def far_rows(self, level: FloatArray) -> FloatArray:
        """Return how many rows are far, (1, R): |r| max(1, ‖u‖/√d) > ``level`` (R,), or a cell was moved."""
        scale = np.sqrt(self._scores.sample.n_features)

        def part(group: Group, made: _Scores) -> FloatArray:
            above = np.maximum(np.abs(made[0]), made[1] / scale) > level[group.replicates]
            moved = self._scores.sample.moved_rows(group)
            if moved is not None:
                above = above | moved[:, None]
            return np.asarray((above * group.weights).sum(axis=0)[None])

        return self._parts.total((1, self._scores.sample.n_replicates), part)

    def residual_moments(self, level: FloatArray) -> FloatArray:
        """Return means of residuals clipped to ± ``level`` (R,), in levels, and of their squares, (2, R)."""

        def part(group: Group, made: _Scores) -> FloatArray:
            size = np.clip(made[0] / level[group.replicates], -1, 1)
            return np.stack([size.sum(axis=0), (size**2).sum(axis=0)])

        sample = self._scores.sample
        return np.asarray(self._parts.total((2, sample.n_replicates), part) / sample.n_rows)

    def clipped_mean(self, level: FloatArray) -> FloatArray:
        """Return the mean over rows of scores clipped to norm ``level`` (R,), in the shape of θ."""

        def part(group: Group, made: _Scores) -> FloatArray:
            residual, norms, _, rows = made
            own = group.replicates
            return clipped_row_sums(group.X, self._scores.whitening[own], residual, level[own], norms, rows)

        total = self._parts.total(self._scores.shape, part)
        return np.asarray(total / self._scores.sample.n_rows)
