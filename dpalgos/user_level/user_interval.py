"""Intervals of regressions over users: a Newton step from the last gradient, with a released curvature.

    β̃ = θ − Ĥ⁻¹ ĝ,   Ĥ the mean of users' curvatures + noise,  ĝ that of their gradients, at the last θ

A user is a row: its gradient is clipped to a public norm G, its curvature to a public Frobenius norm K. The
size of a user is the largest of its norms over their bounds. The released quantities are

- the mean gradient, of sensitivity 2G/n;
- the mean curvature, √2 K/n: curvatures are positive semidefinite, so their inner products are not negative;
- second moments of gradients over G², √2/n;
- shares of users by size, √2/n.
"""

import numpy as np

from dpalgos.catalog import Release, with_interval
from dpalgos.interval import BENT, CLIPPED, HIDDEN, Interval
from dpalgos.intervals.half_widths import interval_by_variance
from dpalgos.intervals.regression import RESOLVED, ScoreCurvature, center_of, error_of, unresolved
from dpalgos.intervals.spread import SCORE_MOMENTS, release_second_moments
from dpalgos.intervals.tails import TAIL, counts, release_tail, tail_sensitivity
from dpalgos.mechanisms.sensitivity import ball_mean, outer_product
from dpalgos.models.newton_steps import NewtonSteps
from dpalgos.release.spend import Spend
from dpalgos.release.symmetric import unsvec
from dpalgos.rows.ball import Ball, mean_offset
from dpalgos.rows.clipping import clip_factor, row_lengths
from dpalgos.rows.moments import weighted_moments
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray
from dpalgos.user_level.first_order import UserObjective

LAST_GRADIENT = Release("last gradient", 0.25, ball_mean, when=with_interval)
CURVATURE = Release("curvature", 0.15, outer_product, when=with_interval)
SQUARES = Release(SCORE_MOMENTS, 0.06, outer_product, when=with_interval)
SHARES_BY_SIZE = Release(TAIL, 0.14, tail_sensitivity, when=with_interval)
RELEASES = CURVATURE, SQUARES, SHARES_BY_SIZE


def interval_by_users(
    spend: Spend, level: float, objective: UserObjective, bounds: tuple[float, float], end: FloatArray
) -> Interval:
    """Release what the interval around the last iterate (d, 1) needs, and return it; bounds are (G, K).

    The loss has a second derivative, and there is no ridge.
    """
    d, n_users = len(end), np.array([float(objective.users.n_users)])
    sizes, (gradient_bound, curvature_bound) = np.zeros(objective.users.n_users), bounds

    def clipped_mean(vectors: FloatArray, bound: float) -> FloatArray:
        """Return the mean of vectors (n, p) clipped to a norm, (p, 1); remember their sizes."""
        np.maximum(sizes, row_lengths(vectors) / bound, out=sizes)
        ball = Ball(np.zeros((vectors.shape[1], 1)), np.array([bound]))
        return mean_offset(Sample.of_vectors(vectors), ball)

    gradient = clipped_mean(objective.gradients(end), gradient_bound)
    released, std = spend(LAST_GRADIENT, gradient, np.array([gradient_bound]), n_users)
    steps = NewtonSteps(end.T, -released.T, np.broadcast_to(std, (1,)), gradient_bound, end[:, 0])
    moments = unsvec(clipped_mean(objective.curvatures(end), curvature_bound), d)
    matrices, noise = spend.symmetric(CURVATURE, moments, np.sqrt(curvature_bound), n_users)
    curvature = _curvature(matrices[0], noise.item(), end[:, 0])
    center = center_of(curvature, steps)

    gradients = objective.gradients(center.theta[:, None])
    clipped_mean(gradients, gradient_bound)
    factor = clip_factor(row_lengths(gradients), gradient_bound)
    squares, squares_std = release_second_moments(
        spend, SQUARES, weighted_moments(gradients, factor[:, None] ** 2) / n_users, steps.threshold, n_users
    )
    above = counts(sizes[:, None]) / n_users
    tail = release_tail(spend, SHARES_BY_SIZE, above, n_users)
    spend.check_complete()
    error = error_of(curvature, center, squares[0], squares_std.item(), np.eye(d), n_users.item())
    clipped = error.clipping_bias(tail, gradient_bound, squares[0], n_users.item())
    curved = np.full(d, center.step @ center.step / 2 if objective.loss.curvature < 1 else 0.0)
    return interval_by_variance(
        level,
        variance=error.variance[:, None],
        variance_std=error.variance_std[:, None],
        sampling=error.sampling[:, None],
        biases={CLIPPED: clipped[:, None], BENT: curved[:, None]},
        flags={HIDDEN: unresolved(curvature, np.eye(d))[:, None]},
        center=center.theta[:, None],
    )


def _curvature(moments: FloatArray, noise: float, end: FloatArray) -> ScoreCurvature:
    """Return what is known of a released curvature (d, d); noise may have made eigenvalues below a floor."""
    values, vectors = np.linalg.eigh(moments)
    floor = RESOLVED * float(np.sqrt(len(end)) * noise)
    variances = np.full_like(vectors, noise**2)
    return ScoreCurvature(vectors, np.maximum(values, floor), variances, values < floor, end, 1.0, noise)
