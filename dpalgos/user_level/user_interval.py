"""Intervals of regressions over users: a Newton step from their last gradient, on their released curvature.

    β̃ = θ − Ĥ⁻¹ ĝ,   Ĥ the mean of users' curvatures + noise,  ĝ that of their gradients, at the last θ

Users' gradients are clipped to a public G, their curvatures to a public K: released are the mean curvature,
√2 K/n, second moments of gradients over G², √2/n, and shares of users by size, √2/n.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.catalog import Release, with_interval
from dpalgos.interval import BENT, CLIPPED, HIDDEN, Interval
from dpalgos.intervals.half_widths import interval_by_variance
from dpalgos.intervals.regression import RESOLVED, ScoreCurvature, center_of, error_of, unresolved
from dpalgos.intervals.spread import SCORE_MOMENTS, release_second_moments
from dpalgos.intervals.tails import TAIL, Tail, release_tail
from dpalgos.mechanisms.sensitivity import outer_product
from dpalgos.models.newton_steps import NewtonSteps
from dpalgos.release.symmetric import svec, unsvec
from dpalgos.release.transcript import Transcript
from dpalgos.typing import FloatArray

CURVATURE = "curvature"


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
    transcript: Transcript,
    level: float,
    budget: SplitBudget,
    units: BoundedUnits,
    steps: Sequence[NewtonSteps],
) -> Interval:
    """Release what the interval around the last steps needs, one for each replicate, and return it."""
    n_units, d = units.n_units, len(steps[0].end)
    multiplier = budget.gaussian_multiplier(CURVATURE)
    sensitivity = outer_product(np.sqrt(units.curvature_bound), n_units)
    ends, bound = np.column_stack([each.end for each in steps]), np.array([each.threshold for each in steps])
    value = svec(units.mean_curvature(ends))
    released = transcript.gaussian(
        value, l2_sensitivity=sensitivity, noise_multiplier=multiplier, label=CURVATURE
    )
    noise = np.broadcast_to(transcript.noise_std(sensitivity, multiplier, len(value)), n_units.shape)
    curvatures = [
        _curvature(*one) for one in zip(unsvec(released, d), noise, (each.end for each in steps), strict=True)
    ]
    centers = [center_of(*one) for one in zip(curvatures, steps, strict=True)]
    moments, above = units.score_moments(np.column_stack([center.theta for center in centers]))
    moments, moments_std = release_second_moments(
        transcript,
        moments,
        bound=bound,
        n_rows=n_units,
        multiplier=budget.gaussian_multiplier(SCORE_MOMENTS),
    )
    tail = release_tail(transcript, above, n_rows=n_units, multiplier=budget.gaussian_multiplier(TAIL))
    stds = np.broadcast_to(moments_std, n_units.shape)
    found = []
    for r, (curvature, center) in enumerate(zip(curvatures, centers, strict=True)):
        error = error_of(curvature, center, moments[r], float(stds[r]), np.eye(d), float(n_units[r]))
        own = Tail(above=tail.above[:, [r]], std=np.broadcast_to(tail.std, tail.above.shape)[:, [r]])
        clipped = error.clipping_bias(own, float(bound[r]), moments[r], float(n_units[r]))
        curved = np.full(d, center.step @ center.step / 2 if units.bend else 0.0)
        found.append(
            interval_by_variance(
                level,
                variance=error.variance[:, None],
                variance_std=error.variance_std[:, None],
                sampling=error.sampling[:, None],
                biases={CLIPPED: clipped[:, None], BENT: curved[:, None]},
                flags={HIDDEN: unresolved(curvature, np.eye(d))[:, None]},
                center=center.theta[:, None],
            )
        )
    return Interval.joined(found)


def _curvature(moments: FloatArray, noise: float, end: FloatArray) -> ScoreCurvature:
    """Return what is known of a released curvature (d, d); noise may have made eigenvalues below a floor."""
    values, vectors = np.linalg.eigh(moments)
    least = RESOLVED * float(np.sqrt(len(end)) * noise)
    variances = np.full_like(vectors, noise**2)
    return ScoreCurvature(
        vectors, np.maximum(values, least), variances, values < least, end, 1.0, float(noise)
    )


RELEASES = (
    Release(CURVATURE, 0.15, "√2 K/n", interval_by_users, with_interval),
    Release(SCORE_MOMENTS, 0.06, "sqrt(min(d, 2))/n", release_second_moments, with_interval),
    Release(TAIL, 0.14, "sqrt(2)/n", release_tail, with_interval),
)
