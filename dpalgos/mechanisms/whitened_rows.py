"""Gradients of least squares on whitened rows, clipped row by row, for all replicates at once.

With u_i = W x_i the gradient at θ is the mean of u_i r_i, r_i = y_i − u_i'θ. Clipping needs ‖u_i r_i‖, which
is |r_i| ‖u_i‖, and ‖u_i‖² = x_i' W² x_i is a quadratic form, so that no whitened row is ever stored:
everything is a product of the (n, d) rows with (d, R) coefficients.
"""

import numpy as np

from dpalgos.mechanisms.clipping import clip_factor
from dpalgos.mechanisms.symmetric import quadratic_forms
from dpalgos.sample import Group, Sample
from dpalgos.typing import FloatArray


class WhitenedRows:
    """The rows u_i = W x_i of every replicate, of which only norms and products are ever formed.

    Parameters
    ----------
    sample : Sample
        Rows x_i and responses.
    whitening : (R, d, d) array
        W, symmetric, per replicate; released or public.
    """

    def __init__(self, sample: Sample, whitening: FloatArray) -> None:
        self._sample = sample
        self._whitening = whitening
        gram = whitening @ whitening
        self._groups = []
        for group in sample.groups():
            squares = quadratic_forms(group.X, gram[group.replicates])
            self._groups.append((group, np.sqrt(np.maximum(squares, 0, out=squares))))

    def clipped_gradient(self, theta: FloatArray, level: FloatArray) -> FloatArray:
        """Return the mean over rows of u (y − u'θ) clipped to ℓ2 norm ``level``, (d, R)."""
        cross = np.empty_like(theta)
        for group, norms in self._groups:
            residual = self._residual(group, theta)
            factor = np.abs(residual)
            factor *= norms
            chosen = level[group.replicates]
            np.divide(chosen, np.maximum(factor, chosen, out=factor), out=factor)
            factor *= residual
            factor *= group.weights
            cross[:, group.replicates] = group.X.T @ factor
        return np.asarray(np.einsum("rij,jr->ir", self._whitening, cross) / self._sample.n_rows)

    def clipped_second_moments(self, theta: FloatArray, level: FloatArray) -> FloatArray:
        """Return the mean over rows of g g' for g = u (y − u'θ) clipped to ℓ2 norm ``level``, (R, d, d)."""
        d = len(theta)
        first, second = np.triu_indices(d)
        moments = np.empty((theta.shape[1], d, d))
        for group, norms in self._groups:
            chosen = group.replicates
            residual = self._residual(group, theta)
            weights = (residual * clip_factor(np.abs(residual) * norms, level[chosen])) ** 2 * group.weights
            packed = weights.T @ (group.X[:, first] * group.X[:, second])
            moments[chosen, first, second] = packed
            moments[chosen, second, first] = packed
        moments /= self._sample.n_rows[:, None, None]
        return np.asarray(self._whitening @ moments @ self._whitening)

    def counts_above(self, theta: FloatArray, level: FloatArray, cache: dict[int, FloatArray]) -> FloatArray:
        """Return how many gradients have an ℓ2 norm above ``level``, (R,)."""
        counts = np.empty(self._sample.n_replicates)
        for index, (group, norms) in enumerate(self._groups):
            if index not in cache:
                cache[index] = np.abs(self._residual(group, theta)) * norms * group.weights
            counts[group.replicates] = (cache[index] > level[group.replicates]).sum(axis=0)
        return counts

    def _residual(self, group: Group, theta: FloatArray) -> FloatArray:
        chosen = group.replicates
        coef = np.einsum("rij,jr->ir", self._whitening[chosen], theta[:, chosen])
        residual: FloatArray = group.X @ coef
        np.subtract(group.y[:, None], residual, out=residual)
        return residual
