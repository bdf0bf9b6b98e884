"""Regression by gradient steps on winsorized means of users' gradients; users are protected with all rows.

    g_t = a winsorized mean over users of (mean over the user's rows of ∂ℓ(x'θ_t, y)/∂z · x)
    θ_(t+1) = Π_‖·‖≤radius(θ_t − η g_t),   T steps from 0

Guarantee: (ε, δ) under replacing one user with all of that user's rows; the number of users is public.
Also public: ``gradient_bound`` G on the norm of the mean gradient, the radius of the ball, T and η, and
``concentration_radius`` τ. Users' mean gradients lie within τ of their mean (∝ 1/√m).

Why it is private. θ_t follows from earlier releases. Given θ_t, replacing a user replaces one vector of the
mean over users. The T means are released under one budget (:mod:`dpalgos.user_level.aggregation`), for any
loss. No gradient needs a bound: the balls to which vectors are clipped have one.

With ``aggregation="clipped"`` it is gradient descent with users' gradients clipped to G, the usual baseline.

Each user counts once, for any number of rows. Users' rows may follow different laws, at most Δ in total
variation from those of other users. For losses within B, Theorem 10 adds B(mn + 2)Δ to the bound on the
excess risk for equal laws. This is useful for tiny Δ only.

Interval (``interval=0.95``; tight, clipped gradients, a smooth convex loss). The steps get 0.4 of μ². A
Newton step follows from the last iterate, with the mean of users' curvatures. Its result is not projected.

    β̃ = θ − Ĥ⁻¹ ĝ,   Ĥ the mean of users' curvatures + noise,  ĝ that of their gradients, at the last θ

A user is a row: its gradient is clipped to G, its mean curvature ∂²ℓ/∂z² x x' to the public Frobenius norm
``curvature_bound`` K. The size of a user is the largest of its norms over their bounds. The released
quantities are

- the mean gradient, of sensitivity 2G/n;
- the mean curvature, √2 K/n: curvatures are positive semidefinite, so their inner products are not negative;
- second moments of gradients over G², √2/n;
- shares of users by size, √2/n.

Reference: Levy et al., Learning with User-Level Privacy, Algorithms 3 and 7, Theorem 4.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.events import Relation
from dpalgos.catalog import Form, Release, register, shares_of, with_interval
from dpalgos.errors import InputError
from dpalgos.interval import BENT, CLIPPED, HIDDEN, Interval
from dpalgos.intervals.half_widths import interval_by_variance
from dpalgos.intervals.regression import RESOLVED, ScoreCurvature, center_of, error_of, unresolved
from dpalgos.intervals.spread import SCORE_MOMENTS, release_second_moments
from dpalgos.intervals.tails import TAIL, counts, release_tail, tail_sensitivity
from dpalgos.mechanisms.sensitivity import ball_mean, outer_product
from dpalgos.models.newton_steps import NewtonSteps
from dpalgos.params import IntervalParams, choice, count, positive
from dpalgos.release.spend import Spend
from dpalgos.release.symmetric import unsvec
from dpalgos.release.transcript import Transcript
from dpalgos.rows.ball import Ball, mean_offset
from dpalgos.rows.clipping import clip_factor, row_lengths
from dpalgos.rows.moments import weighted_moments
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray
from dpalgos.user_level.aggregation import AggregationParams, UserAggregation, mean_releases
from dpalgos.user_level.first_order import LINEAR_LOSSES, UserObjective, descend

_STEP_SHARE = 0.4  # of μ², with an interval


@dataclass(frozen=True, kw_only=True)
class GradientStepParams(AggregationParams):
    """Keywords of estimators that minimize a loss."""

    loss: str = choice("of the linear predictor", tuple(LINEAR_LOSSES))
    gradient_bound: float = positive("G: bounds the ℓ2 norm of the mean gradient")
    radius: float = positive("coefficients are looked for in the ℓ2 ball of this radius around 0")
    n_iterations: int = count("T, number of gradient steps", default=8)
    step_size: float = positive("η; at most 1 / smoothness of the mean loss")

    def aggregation_of_gradients(self, n_features: int, budget: SplitBudget | None = None) -> UserAggregation:
        """Return the aggregation that releases the mean gradient over users, once for each step."""
        return UserAggregation(
            self,
            GRADIENT_RELEASES,
            bound=self.gradient_bound,
            n_features=n_features,
            n_queries=self.n_iterations,
            budget=budget,
        )


@dataclass(frozen=True, kw_only=True)
class UserLevelRegressionParams(IntervalParams, GradientStepParams):
    """Keywords of :func:`user_level_regression`."""

    curvature_bound: float | None = positive(
        "K: bounds the Frobenius norm of a user's mean curvature; for an interval",
        default=None,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_interval()

    def _check_interval(self) -> None:
        if self.interval is None:
            return
        if self.aggregation != "clipped":
            raise InputError(
                f"interval must be None for aggregation={self.aggregation!r}, got {self.interval!r}: the "
                "distance of a few steps from the minimum is not known; pass aggregation='clipped'"
            )
        if LINEAR_LOSSES[self.loss].bend is None:
            raise InputError(
                f"interval must be None for loss={self.loss!r}, got {self.interval!r}: this loss has no "
                "second derivative everywhere; pass loss='squared' or 'logistic'"
            )
        if self.curvature_bound is None:
            raise InputError(
                "curvature_bound is needed with an interval, got None; pass e.g. a bound on users' mean ‖x‖²"
            )

    def budget(self) -> SplitBudget:
        """Return how μ² is spent with an interval: on steps, and on what follows them."""
        return self.split_budget({"steps": _STEP_SHARE, **shares_of(INTERVAL_RELEASES, self)})


GRADIENT_RELEASES = mean_releases("gradient")
LAST_GRADIENT = Release("last gradient", ball_mean, share=0.25, when=with_interval)
CURVATURE = Release("curvature", outer_product, share=0.15, when=with_interval)
SQUARES = Release(SCORE_MOMENTS, outer_product, share=0.06, when=with_interval)
SHARES_BY_SIZE = Release(TAIL, tail_sensitivity, share=0.14, when=with_interval)
INTERVAL_RELEASES = LAST_GRADIENT, CURVATURE, SQUARES, SHARES_BY_SIZE


@register(
    title="Winsorized gradient descent over users",
    order=34,
    task="linear_regression",
    relation=Relation.USER,
    one_replicate=True,
    reference="Levy et al., Learning with User-Level Privacy, Algorithms 3 and 7",
    summary="Gradient descent on winsorized means of users' gradients.",
    example={
        "loss": "squared",
        "gradient_bound": 20.0,
        "concentration_radius": 0.2,
        "radius": 2.0,
        "n_iterations": 2,
        "step_size": 3.0,
        "range_failure": 1.0,
    },
    releases=(*GRADIENT_RELEASES, *INTERVAL_RELEASES),
    forms={
        "clipped": Form(keywords={"aggregation": "clipped"}),
        "interval": Form(
            keywords={"aggregation": "clipped", "interval": 0.95, "curvature_bound": 2.0, "n_iterations": 2}
        ),
        "Huber loss": Form(keywords={"loss": "huber", "n_iterations": 3}),
    },
)
def user_level_regression(
    sample: Sample, params: UserLevelRegressionParams, transcript: Transcript
) -> FloatArray:
    """Return the coefficients, (d, 1)."""
    objective = UserObjective(
        users=params.users(sample), loss=LINEAR_LOSSES[params.loss], radius=params.radius
    )
    budget = None if params.interval is None else params.budget()
    reached = descend(
        objective,
        params.aggregation_of_gradients(sample.n_features, budget),
        np.zeros((sample.n_features, 1)),
        transcript,
        step_size=params.step_size,
        n_iterations=params.n_iterations,
    )
    if params.interval is not None and budget is not None:
        assert params.curvature_bound is not None
        labels = [label for label in budget.shares if label != "steps"]
        transcript.interval = interval_by_users(
            Spend.of_budget(transcript, budget, labels=labels),
            params.interval,
            objective,
            (params.gradient_bound, params.curvature_bound),
            reached,
        )
    return reached


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
    released, std = spend(LAST_GRADIENT, ball_mean.of(gradient, np.array([gradient_bound]), n_users))
    steps = NewtonSteps(end.T, -released.T, np.broadcast_to(std, (1,)), gradient_bound, end[:, 0])
    moments = unsvec(clipped_mean(objective.curvatures(end), curvature_bound), d)
    matrices, noise = spend.symmetric(CURVATURE, outer_product.of(moments, np.sqrt(curvature_bound), n_users))
    curvature = _curvature(matrices[0], noise.item(), end[:, 0])
    center = center_of(curvature, steps)

    gradients = objective.gradients(center.theta[:, None])
    clipped_mean(gradients, gradient_bound)
    factor = clip_factor(row_lengths(gradients), gradient_bound)
    moments = weighted_moments(gradients, factor[:, None] ** 2) / n_users
    bound = np.array([gradient_bound])
    squares, squares_std = release_second_moments(spend, SQUARES, moments, bound, n_users)
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
