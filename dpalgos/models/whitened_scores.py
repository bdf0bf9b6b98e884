"""Scores of a linear or generalized linear model on whitened rows, clipped row by row, for all replicates.

With u_i = W x_i the score of row i at θ is u_i (y_i − ψ'(u_i'θ))', of norm ‖u_i‖ ‖y_i − ψ'(u_i'θ)‖ (that of
Frobenius with classes). Rows are whitened before they are clipped and summed, so that rounding is relative to
the clip level, however ill-conditioned W is; no whitened row is stored.
"""

import numpy as np

from dpalgos.models.families import Family
from dpalgos.rows.sample import Group, Grouped, Sample
from dpalgos.steps.clipping import clip_factor
from dpalgos.steps.moments import clipped_row_sums, row_norms, whitened_moments
from dpalgos.typing import FloatArray

_Prepared = tuple[FloatArray, FloatArray]


class WhitenedScores:
    """The scores of every replicate on rows W x_i, of which only norms and a clipped mean are ever formed.

    ``whitening`` (R, d, d) is W, symmetric, released or public; ``shape`` is that of θ, (d, R) or (d, K, R).
    """

    def __init__(self, sample: Sample, family: Family, whitening: FloatArray) -> None:
        self.sample, self.whitening, self._family = sample, whitening, family
        self.shape = (sample.n_features, *family.classes, sample.n_replicates)

        def prepared(group: Group) -> _Prepared:
            return family.encode(group.y), row_norms(group.X, whitening[group.replicates])

        self._groups = sample.grouped(prepared)

    def at(self, theta: FloatArray) -> "ScoresAt":
        """Return the scores at θ."""
        coef = np.einsum("rij,j...r->i...r", self.whitening, theta)

        def made(group: Group, prepared: _Prepared) -> _Prepared:
            y, norms = prepared
            chosen = coef[..., group.replicates]
            predictor = (group.X @ chosen.reshape(len(chosen), -1)).reshape(-1, *chosen.shape[1:])
            residual = np.asarray(y - self._family.mean(predictor))
            size = np.linalg.norm(residual, axis=1) if self._family.classes else np.abs(residual)
            return residual, np.asarray(size * norms * group.weights)

        return ScoresAt(self, self._groups.then(made))

    def norms(self) -> Grouped[FloatArray]:
        """Return the ℓ2 norms of all rows u, 0 where a replicate does not use the row."""
        return self._groups.then(lambda group, prepared: prepared[1] * group.weights)

    def curvature(self, theta: FloatArray) -> "CurvatureAt":
        """Return the rows' parts of the Hessian at θ (d, R), for a family without classes."""
        coef = np.einsum("rij,jr->ir", self.whitening, theta)

        def made(group: Group, prepared: _Prepared) -> _Prepared:
            second = self._family.second_derivative(group.X @ coef[:, group.replicates])
            return second, np.asarray(second * prepared[1] ** 2 * group.weights)

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


class _RowParts:
    """What every row adds to a mean at one θ, with its norm, 0 where a replicate does not use the row."""

    def __init__(self, scores: WhitenedScores, parts: Grouped[_Prepared]) -> None:
        self._scores, self._parts = scores, parts

    def norms(self) -> Grouped[FloatArray]:
        """Return the norms of all parts."""
        return self._parts.then(lambda group, made: made[1])


class CurvatureAt(_RowParts):
    """The parts ψ''(u'θ) u u' of the Hessian at one θ: each row's ψ'' and ψ''‖u‖²."""

    def clipped_mean(self, level: FloatArray) -> FloatArray:
        """Return the mean over rows of parts clipped to norm ``level`` (R,), (R, d, d)."""

        def weights(group: Group, made: _Prepared) -> FloatArray:
            second, norms = made
            return np.asarray(second * clip_factor(norms, level[group.replicates]) * group.weights)

        return self._scores.mean_squares(self._parts.then(weights))


class ScoresAt(_RowParts):
    """The scores at one θ: residuals, made once where rows are held, and ℓ2 norms."""

    def clipped_second_moments(self, level: FloatArray) -> FloatArray:
        """Return the mean over rows of g g', g a score clipped to norm ``level`` (R,), (R, d, d)."""

        def weights(group: Group, made: _Prepared) -> FloatArray:
            residual, norms = made
            return np.asarray((residual * clip_factor(norms, level[group.replicates])) ** 2 * group.weights)

        return self._scores.mean_squares(self._parts.then(weights))

    def clipped_mean(self, level: FloatArray) -> FloatArray:
        """Return the mean over rows of scores clipped to norm ``level`` (R,), in the shape of θ."""

        def part(group: Group, made: _Prepared) -> FloatArray:
            residual = made[0]
            weights = group.weights[:, None] if residual.ndim == 3 else group.weights
            whitening = self._scores.whitening[group.replicates]
            return clipped_row_sums(group.X, whitening, residual * weights, level[group.replicates])

        total = self._parts.total(self._scores.shape, part)
        return np.asarray(total / self._scores.sample.n_rows)
