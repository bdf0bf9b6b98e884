"""Scores of a generalized linear model on whitened rows, clipped row by row, for all replicates at once.

With u_i = W x_i the score of row i at θ is u_i (y_i − ψ'(u_i'θ))', of norm ‖u_i‖ ‖y_i − ψ'(u_i'θ)‖ (that of
Frobenius with classes). ‖u_i‖² = x_i' W² x_i is a quadratic form, so that no whitened row is ever stored:
everything is a product of the (n, d) rows with (d, R) or (d, K, R) coefficients.
"""

from collections.abc import Iterable

import numpy as np

from dpalgos.families import Family
from dpalgos.mechanisms.clipping import clip_factor
from dpalgos.mechanisms.private_whitening import row_blocks
from dpalgos.mechanisms.symmetric import quadratic_forms
from dpalgos.sample import Group, Sample
from dpalgos.typing import FloatArray


class WhitenedScores:
    """The scores of every replicate, of which only norms and a clipped mean are ever formed.

    Parameters
    ----------
    sample : Sample
        Rows x_i and responses.
    family : Family
        Whose mean ψ'.
    whitening : (R, d, d) array
        W, symmetric, per replicate; released or public.

    Attributes
    ----------
    shape : tuple of int
        Of θ: (d, R), or (d, K, R) with classes.
    """

    def __init__(self, sample: Sample, family: Family, whitening: FloatArray) -> None:
        self.sample, self.whitening, self._family = sample, whitening, family
        self.shape = (sample.n_features, *family.classes, sample.n_replicates)
        gram = whitening @ whitening
        self._groups = []
        for group in sample.groups():
            chosen, X = gram[group.replicates], group.X
            squares = np.concatenate([quadratic_forms(X[block], chosen) for block in row_blocks(X)])
            self._groups.append((group, family.encode(group.y), np.sqrt(np.maximum(squares, 0))))

    def at(self, theta: FloatArray) -> "ScoresAt":
        """Return the scores at θ."""
        coef = np.einsum("rij,j...r->i...r", self.whitening, theta)
        parts: list[tuple[Group, FloatArray, FloatArray]] = []
        for group, y, norms in self._groups:
            chosen = coef[..., group.replicates]
            predictor = (group.X @ chosen.reshape(len(chosen), -1)).reshape(-1, *chosen.shape[1:])
            residual = np.asarray(y - self._family.mean(predictor))
            size = np.linalg.norm(residual, axis=1) if self._family.classes else np.abs(residual)
            parts.append((group, residual, size * norms))
        return ScoresAt(self, parts)

    def curvature(self, theta: FloatArray) -> "CurvatureAt":
        """Return the rows' parts of the Hessian at θ (d, R), for a family without classes."""
        coef = np.einsum("rij,jr->ir", self.whitening, theta)
        parts: list[tuple[Group, FloatArray, FloatArray]] = []
        for group, _, norms in self._groups:
            second = self._family.second_derivative(group.X @ coef[:, group.replicates])
            parts.append((group, second, second * norms**2))
        return CurvatureAt(self, parts)

    def weighted_moments(self, parts: Iterable[tuple[Group, FloatArray]]) -> FloatArray:
        """Return the mean over rows of w u u' for weights w of every group's rows, (R, d, d)."""
        d = self.sample.n_features
        first, second = np.triu_indices(d)
        moments = np.empty((self.sample.n_replicates, d, d))
        for group, weights in parts:
            packed = np.zeros((weights.shape[1], len(first)))
            for block in row_blocks(group.X):
                packed += weights[block].T @ (group.X[block][:, first] * group.X[block][:, second])
            moments[group.replicates, first, second] = packed
            moments[group.replicates, second, first] = packed
        moments /= self.sample.n_rows[:, None, None]
        return np.asarray(self.whitening @ moments @ self.whitening)


class CurvatureAt:
    """The parts ψ''(u'θ) u u' of the Hessian at one θ.

    Parameters
    ----------
    scores : WhitenedScores
    parts : list of (Group, array, array)
        For each group of replicates its rows' ψ'' and ψ''‖u‖².
    """

    def __init__(self, scores: WhitenedScores, parts: list[tuple[Group, FloatArray, FloatArray]]) -> None:
        self._scores, self._parts = scores, parts

    def counts_above(self, level: FloatArray) -> FloatArray:
        """Return how many parts have a norm above ``level`` (R,), (R,)."""
        counts = np.empty_like(level)
        for group, _, norms in self._parts:
            counts[group.replicates] = ((norms > level[group.replicates]) * group.weights).sum(axis=0)
        return counts

    def clipped_mean(self, level: FloatArray) -> FloatArray:
        """Return the mean over rows of parts clipped to norm ``level`` (R,), (R, d, d)."""
        return self._scores.weighted_moments(
            (group, second * clip_factor(norms, level[group.replicates]) * group.weights)
            for group, second, norms in self._parts
        )


class ScoresAt:
    """The scores at one θ, whose residuals are made once.

    Parameters
    ----------
    scores : WhitenedScores
    parts : list of (Group, array, array)
        For each group of replicates its rows' residuals and the norms of their scores.
    """

    def __init__(self, scores: WhitenedScores, parts: list[tuple[Group, FloatArray, FloatArray]]) -> None:
        self._scores, self._parts = scores, parts

    def counts_above(self, level: FloatArray) -> FloatArray:
        """Return how many scores have a norm above ``level`` (R,), (R,)."""
        counts = np.empty_like(level)
        for group, _, norms in self._parts:
            counts[group.replicates] = ((norms > level[group.replicates]) * group.weights).sum(axis=0)
        return counts

    def clipped_second_moments(self, level: FloatArray) -> FloatArray:
        """Return the mean over rows of g g', g a score clipped to norm ``level`` (R,), (R, d, d)."""
        return self._scores.weighted_moments(
            (group, (residual * clip_factor(norms, level[group.replicates])) ** 2 * group.weights)
            for group, residual, norms in self._parts
        )

    def clipped_mean(self, level: FloatArray) -> FloatArray:
        """Return the mean over rows of scores clipped to norm ``level`` (R,), in the shape of θ."""
        total = np.empty(self._scores.shape)
        for group, residual, norms in self._parts:
            factor = clip_factor(norms, level[group.replicates]) * group.weights
            weighted = residual * (factor[:, None] if residual.ndim == 3 else factor)
            product = group.X.T @ weighted.reshape(len(weighted), -1)
            total[..., group.replicates] = product.reshape(-1, *weighted.shape[1:])
        whitened = np.einsum("rij,j...r->i...r", self._scores.whitening, total)
        return np.asarray(whitened / self._scores.sample.n_rows)
