"""Scores of a generalized linear model on whitened rows, clipped row by row, for all replicates at once.

With u_i = W x_i the score of row i at θ is u_i (y_i − ψ'(u_i'θ))', of norm ‖u_i‖ ‖y_i − ψ'(u_i'θ)‖ (that of
Frobenius with classes). ‖u_i‖² = x_i' W² x_i is a quadratic form, so that no whitened row is ever stored:
everything is a product of the (n, d) rows with (d, R) or (d, K, R) coefficients.
"""

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
