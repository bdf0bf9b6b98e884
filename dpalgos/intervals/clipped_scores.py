"""Second moments of the scores x (y − x'β) of least squares, clipped row by row, and sizes of rows.

Rows are clipped to ℓ2 norm B_x and scores to norm B_x B_y, so that one row moves their mean of squares by a
bounded amount whatever β and its response are
(:func:`dpalgos.intervals.half_widths.score_moment_sensitivity`). The size of a row is the largest of ‖x‖/B_x,
|y|/B_y and its score's norm over B_x B_y.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.catalog import Neighbors
from dpalgos.intervals.half_widths import SCORE_MOMENTS
from dpalgos.intervals.tails import LEVELS, TAIL, counts_by_level
from dpalgos.rows.sample import Group, Sample
from dpalgos.steps.clipping import clip_factor, clip_rows_l2
from dpalgos.steps.moments import from_upper_triangles, row_moments
from dpalgos.typing import FloatArray


def clipped_score_moments(
    sample: Sample, coef: FloatArray, covariate_bound: float, response_bound: float
) -> tuple[FloatArray, FloatArray]:
    """Return the mean of s s' over clipped scores s, (R, d, d), and shares of rows above each size, (6, R).

    B_x and B_y are the covariate and the response bound, ``coef`` (d, R) is public or released.
    """
    d, bound = sample.n_features, covariate_bound * response_bound
    first, second = np.triu_indices(d)

    def part(group: Group, X: FloatArray) -> FloatArray:
        residual = group.y[:, None] - X @ coef[:, group.replicates]
        norms = np.abs(residual) * np.linalg.norm(X, axis=1)[:, None]
        row = np.maximum(np.linalg.norm(group.X, axis=1) / covariate_bound, np.abs(group.y) / response_bound)
        sizes = np.maximum(norms / bound, row[:, None])
        weights = (residual * clip_factor(norms, bound)) ** 2 * group.weights
        packed = (weights.T @ (X[:, first] * X[:, second])).T
        return np.concatenate([packed, counts_by_level(sample, group, sizes)])

    clipped = sample.grouped(lambda group: clip_rows_l2(group.X, covariate_bound))
    total = clipped.total((len(first) + len(LEVELS), sample.n_replicates), part)
    packed, above = np.split(total, [len(first)])
    return from_upper_triangles(packed.T, d) / sample.n_rows[:, None, None], above / sample.n_rows


def score_witnesses(covariate_bound: float, d: int) -> dict[str, Neighbors]:
    """Return rows along different axes with far responses, clipped whatever β is, and one against no row."""
    axes, far, zero = covariate_bound * np.eye(d), np.full(1, 1e9), np.zeros(1)
    return {
        SCORE_MOMENTS: (axes[:1], far, axes[-1:], far),
        TAIL: (axes[:1], far, 0 * axes[:1], zero),
    }


@dataclass(frozen=True, eq=False)
class BoundedRegression:
    """Rows clipped to c_x, responses to ±R, as :class:`dpalgos.intervals.newton.BoundedScores` wants them."""

    sample: Sample
    row_bound: float
    response_bound: float
    bend = 0.0

    @property
    def n_units(self) -> FloatArray:
        return self.sample.n_rows

    @property
    def curvature_bound(self) -> float:
        return self.row_bound**2

    @property
    def score_bound(self) -> float:
        return self.row_bound * self.response_bound

    def mean_curvature(self, coef: FloatArray) -> FloatArray:
        """Return X'X/n, the same everywhere."""
        d, n = len(coef), self.n_units[:, None, None]
        return row_moments(self.sample, self.row_bound, self.response_bound)[:, :d, :d] / n

    def score_moments(self, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return those of clipped scores, and the share of rows clipped."""
        return clipped_score_moments(self.sample, coef, self.row_bound, self.response_bound)
