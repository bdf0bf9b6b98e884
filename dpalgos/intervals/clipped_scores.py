"""Second moments of the scores x (y − x'β) of least squares, clipped row by row.

Rows are clipped to ℓ2 norm B_x and scores to norm B_x B_y, so that one row moves their mean of squares by a
bounded amount whatever β and its response are
(:func:`dpalgos.intervals.half_widths.score_moment_sensitivity`).
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.catalog import Neighbors
from dpalgos.intervals.half_widths import SCORE_MOMENTS, SHARE_CLIPPED
from dpalgos.rows.sample import Sample
from dpalgos.steps.clipping import clip_factor, clip_rows_l2
from dpalgos.steps.moments import from_upper_triangles, row_moments
from dpalgos.typing import FloatArray


def clipped_score_moments(
    sample: Sample, coef: FloatArray, covariate_bound: float, response_bound: float
) -> tuple[FloatArray, FloatArray]:
    """Return the mean of s s' over clipped scores s, (R, d, d), and the share of rows clipped, (R,).

    B_x and B_y are the covariate and the response bound, ``coef`` (d, R) is public or released. A row that
    was as long as B_x, or with a score beyond B_x B_y, counts once; one of which only the response was
    truncated to ±B_y counts half, since its covariates are those of any row.
    """
    d, bound = sample.n_features, covariate_bound * response_bound
    first, second = np.triu_indices(d)
    packed, clipped = np.zeros((sample.n_replicates, len(first))), np.zeros(sample.n_replicates)
    for group, X in sample.grouped(lambda group: clip_rows_l2(group.X, covariate_bound)):
        chosen = group.replicates
        residual = group.y[:, None] - X @ coef[:, chosen]
        factor = clip_factor(np.abs(residual) * np.linalg.norm(X, axis=1)[:, None], bound)
        long = np.linalg.norm(group.X, axis=1) > covariate_bound
        counted = np.maximum(0.5 * (np.abs(group.y) > response_bound), long)
        clipped[chosen] += (np.maximum(factor < 1, counted[:, None]) * group.weights).sum(axis=0)
        packed[chosen] += ((residual * factor) ** 2 * group.weights).T @ (X[:, first] * X[:, second])
    return from_upper_triangles(packed, d) / sample.n_rows[:, None, None], clipped / sample.n_rows


def score_witnesses(covariate_bound: float, d: int) -> dict[str, Neighbors]:
    """Return rows along different axes with far responses, clipped whatever β is, and one against no row."""
    axes, far, zero = covariate_bound * np.eye(d), np.full(1, 1e9), np.zeros(1)
    return {
        SCORE_MOMENTS: (axes[:1], far, axes[-1:], far),
        SHARE_CLIPPED: (axes[:1], far, 0 * axes[:1], zero),
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
