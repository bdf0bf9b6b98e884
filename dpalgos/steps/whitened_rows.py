"""Gradients of least squares on whitened rows, clipped row by row, for all replicates at once.

With u_i = W x_i the gradient at θ is the mean of u_i r_i, r_i = y_i − u_i'θ. Clipping needs ‖u_i r_i‖, which
is |r_i| ‖u_i‖, and ‖u_i‖² = x_i' W² x_i is a quadratic form, so that no whitened row is ever stored:
everything is a product of the (n, d) rows with (d, R) coefficients.
"""

import numpy as np

from dpalgos.rows.sample import Group, Grouped, Sample
from dpalgos.steps.clipping import clip_factor
from dpalgos.steps.moments import from_upper_triangles, quadratic_forms
from dpalgos.typing import FloatArray


class WhitenedRows:
    """The rows u_i = W x_i of every replicate, of which only norms and products are ever formed.

    ``whitening`` (R, d, d) is W, symmetric, released or public.
    """

    def __init__(self, sample: Sample, whitening: FloatArray) -> None:
        self._sample = sample
        self._whitening = whitening
        gram = whitening @ whitening

        def norms(group: Group) -> FloatArray:
            squares = quadratic_forms(group.X, gram[group.replicates])
            return np.asarray(np.sqrt(np.maximum(squares, 0, out=squares)))

        self._groups = sample.grouped(norms)

    def clipped_gradient(self, theta: FloatArray, level: FloatArray) -> FloatArray:
        """Return the mean over rows of u (y − u'θ) clipped to ℓ2 norm ``level``, (d, R)."""
        cross = np.zeros_like(theta)
        for group, norms in self._groups:
            residual = self._residual(group, theta)
            factor = np.abs(residual)
            factor *= norms
            chosen = level[group.replicates]
            np.divide(chosen, np.maximum(factor, chosen, out=factor), out=factor)
            factor *= residual
            factor *= group.weights
            cross[:, group.replicates] += group.X.T @ factor
        return np.asarray(np.einsum("rij,jr->ir", self._whitening, cross) / self._sample.n_rows)

    def clipped_second_moments(self, theta: FloatArray, level: FloatArray) -> FloatArray:
        """Return the mean over rows of g g' for g = u (y − u'θ) clipped to ℓ2 norm ``level``, (R, d, d)."""
        d = len(theta)
        first, second = np.triu_indices(d)
        packed = np.zeros((theta.shape[1], len(first)))
        for group, norms in self._groups:
            chosen = group.replicates
            residual = self._residual(group, theta)
            weights = (residual * clip_factor(np.abs(residual) * norms, level[chosen])) ** 2 * group.weights
            packed[chosen] += weights.T @ (group.X[:, first] * group.X[:, second])
        moments = from_upper_triangles(packed, d) / self._sample.n_rows[:, None, None]
        return np.asarray(self._whitening @ moments @ self._whitening)

    def gradient_norms(self, theta: FloatArray) -> Grouped[FloatArray]:
        """Return the ℓ2 norms of all rows' gradients, 0 where a replicate does not use the row."""
        return self._groups.then(
            lambda group, norms: np.abs(self._residual(group, theta)) * norms * group.weights
        )

    def norms(self) -> Grouped[FloatArray]:
        """Return the ℓ2 norms of all rows u, 0 where a replicate does not use the row."""
        return self._groups.then(lambda group, norms: norms * group.weights)

    def _residual(self, group: Group, theta: FloatArray) -> FloatArray:
        chosen = group.replicates
        coef = np.einsum("rij,jr->ir", self._whitening[chosen], theta[:, chosen])
        residual: FloatArray = group.X @ coef
        np.subtract(group.y[:, None], residual, out=residual)
        return residual
