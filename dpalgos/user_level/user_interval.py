"""Intervals of regressions over users: a Newton step from their last gradient, on their released curvature.

    β̃ = θ − Ĥ⁻¹ ĝ,   Ĥ the mean of users' curvatures + noise,  ĝ that of their gradients, at the last θ

Users' gradients are clipped to a public G, their curvatures to a public K: released are the mean curvature,
√2 K/n, second moments of gradients over G², √2/n, and shares of users by size, √2/n.
"""

from typing import Protocol

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.catalog import Release, with_interval
from dpalgos.interval import BENT, CLIPPED, HIDDEN, Interval
from dpalgos.intervals.half_widths import interval_by_variance
from dpalgos.intervals.released import center_of, error_of, unresolved
from dpalgos.mechanisms.for_intervals.score_curvature import (
    CURVATURE,
    RESOLVED,
    ScoreCurvature,
)
from dpalgos.mechanisms.for_intervals.spread import SCORE_MOMENTS, release_second_moments
from dpalgos.mechanisms.for_intervals.tails import TAIL, release_tail
from dpalgos.mechanisms.sensitivity import outer_product
from dpalgos.release.transcript import Transcript
from dpalgos.steps.denoising import ReleasedSteps
from dpalgos.steps.moments import svec, unsvec
from dpalgos.typing import FloatArray


class BoundedUnits(Protocol):
    """Units of which gradients and curvatures have public bounds, as users."""

    @property
    def n_units(self) -> FloatArray: ...
    @property
    def curvature_bound(self) -> float: ...
    @property
    def bend(self) -> float: ...

    def mean_curvature(self, coef: FloatArray) -> FloatArray:
        """Return the mean of the units' curvatures, (R, d, d), each of Frobenius norm at most its bound."""
        ...

    def score_moments(self, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return second moments of the units' scores, (R, d, d), and shares of units above sizes, (6, R)."""
        ...


def interval_by_users(
    transcript: Transcript, level: float, budget: SplitBudget, units: BoundedUnits, steps: ReleasedSteps
) -> Interval:
    """Release what the interval around the last of the steps needs, and return it."""
    n_units, d = units.n_units, len(steps.end)
    multiplier = budget.gaussian_multiplier(CURVATURE)
    sensitivity = outer_product(np.sqrt(units.curvature_bound), n_units)
    value = svec(units.mean_curvature(steps.end))
    released = transcript.gaussian(
        value, l2_sensitivity=sensitivity, noise_multiplier=multiplier, label=CURVATURE
    )
    noise = transcript.noise_std(sensitivity, multiplier, len(value))
    values, vectors = np.linalg.eigh(unsvec(released, d))
    least = np.broadcast_to(RESOLVED * np.sqrt(d) * noise[:, None], values.shape)
    raised, unit = np.maximum(values, least), np.ones_like(noise)
    variances = np.broadcast_to(noise[:, None, None] ** 2, vectors.shape)
    curvature = ScoreCurvature(vectors, raised, variances, values < least, steps.end, unit, noise)
    center = center_of(curvature, steps)
    moments, above = units.score_moments(center.theta)
    moments, moments_std = release_second_moments(
        transcript,
        moments,
        bound=steps.level,
        n_rows=n_units,
        multiplier=budget.gaussian_multiplier(SCORE_MOMENTS),
    )
    rows = np.broadcast_to(np.eye(d), vectors.shape)
    error = error_of(curvature, center, moments, moments_std, rows, n_units)
    tail = release_tail(transcript, above, n_rows=n_units, multiplier=budget.gaussian_multiplier(TAIL))
    size = (center.step**2).sum(axis=0) if units.bend else 0.0
    return interval_by_variance(
        level,
        variance=error.variance,
        variance_std=error.variance_std,
        sampling=error.sampling,
        biases={CLIPPED: error.moved(tail, steps.level, moments, n_units), BENT: size / 2 + 0 * center.theta},
        flags={HIDDEN: unresolved(curvature, rows)},
        center=center.theta,
    )


RELEASES = (
    Release(CURVATURE, 0.15, "√2 K/n", interval_by_users, with_interval),
    Release(SCORE_MOMENTS, 0.06, "sqrt(min(d, 2))/n", release_second_moments, with_interval),
    Release(TAIL, 0.14, "sqrt(2)/n", release_tail, with_interval),
)
