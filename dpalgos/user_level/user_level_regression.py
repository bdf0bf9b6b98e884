"""Regression by gradient steps on winsorized means of users' gradients; users are protected with all rows.

    g_t = a winsorized mean over users of (mean over the user's rows of ∂ℓ(x'θ_t, y)/∂z · x)
    θ_(t+1) = Π_‖·‖≤radius(θ_t − η g_t),   T steps from 0

Guarantee: (ε, δ) under replacing one user with all of that user's rows; the number of users is public.
Public: ``gradient_bound`` G on the norm of the mean gradient, ``concentration_radius`` τ within which users'
mean gradients lie of it (∝ 1/√m), the radius of the ball, T and η.

Why it is private. Given θ_t, which was made of earlier releases, replacing a user replaces one vector of the
mean over users; the T means are released under one budget (:mod:`dpalgos.user_level.aggregation`), whatever
the loss. No gradient needs to be bounded for that: the balls to which vectors are clipped are.

With ``aggregation="clipped"`` it is gradient descent with users' gradients clipped to G, the usual baseline.

Users count once each, however many rows they have. Where each user's rows follow a law of their own, at most
Δ in total variation from the laws of other users, Theorem 10 bounds the excess risk by that of equal laws
plus B(mn + 2)Δ for losses within B: useful for tiny Δ only.

Interval (``interval=.95``; tight, clipped gradients, a smooth convex loss): the steps get .3 of μ², and from
where they end follows a Newton step (:mod:`dpalgos.intervals.newton`), whose answer is not projected. Public
then, too: ``curvature_bound`` K, for users' mean ∂²ℓ/∂z² x x'.

Reference: Levy et al., Learning with User-Level Privacy, Algorithms 3 and 7, Theorem 4.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.events import Relation
from dpalgos.catalog import (
    Form,
    Neighbors,
    Published,
    Release,
    pair,
    register,
    shares_of,
    with_interval,
    witnessed,
)
from dpalgos.errors import InputError
from dpalgos.intervals.half_widths import IntervalParams
from dpalgos.mechanisms.sensitivity import ball_mean
from dpalgos.models.newton_steps import NewtonSteps
from dpalgos.params import choice, count, positive
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray
from dpalgos.user_level import user_interval
from dpalgos.user_level.aggregation import AggregationParams, UserAggregation, mean_releases, users_of
from dpalgos.user_level.first_order import LINEAR_LOSSES, ClippedUsers, UserObjective, descend

_STEP_SHARE = 0.4  # of μ², with an interval
_LAST = "last gradient"


@dataclass(frozen=True, kw_only=True)
class GradientStepParams(AggregationParams):
    """Keywords of estimators that minimize a loss."""

    loss: str = choice("of the linear predictor", tuple(LINEAR_LOSSES))
    gradient_bound: float = positive("G: bounds the ℓ2 norm of the mean gradient")
    radius: float = positive("coefficients are looked for in the ℓ2 ball of this radius around 0")
    n_iterations: int = count("T, number of gradient steps", default=8)
    step_size: float = positive("η; at most 1 / smoothness of the mean loss")

    def aggregation_of_gradients(self, n_features: int, budget: SplitBudget | None = None) -> UserAggregation:
        """Return how the mean gradient over users is released, once for each step."""
        return UserAggregation(
            self,
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
                f"interval must be None for aggregation={self.aggregation!r}, got {self.interval!r}: how far "
                "an answer of a few steps has come is not known; pass aggregation='clipped'"
            )
        if LINEAR_LOSSES[self.loss].bend is None:
            raise InputError(
                f"interval must be None for loss={self.loss!r}, got {self.interval!r}: it has no curvature "
                "everywhere; pass loss='squared' or 'logistic'"
            )
        if self.curvature_bound is None:
            raise InputError(
                "curvature_bound is needed with an interval, got None; pass e.g. a bound on users' mean ‖x‖²"
            )

    def budget(self) -> SplitBudget:
        """Return how μ² is spent with an interval: on steps, and on what follows them."""
        reserved = {"steps": _STEP_SHARE, **shares_of(user_interval.RELEASES, self)}
        return self.split_budget({_LAST: 1.0}, reserved)


def gradient_witnesses(params: GradientStepParams, d: int, published: Published) -> list[Neighbors]:
    """Return the two rows of one user: far gradients in opposite directions, and none, at the start."""
    far, ones = np.zeros((2, d)), np.ones(2)
    far[:, 0] = 1e9
    apart: Neighbors = (far, ones, far, -ones)
    return [pair(0 * far, np.full((2, d), 1e9), 1.0), apart, apart]


def witnesses(params: UserLevelRegressionParams, d: int, published: Published) -> list[Neighbors]:
    """Return the witnesses of gradient steps, and users along different axes, one of them unclipped."""
    one, other = (1e9 * np.repeat(np.eye(d)[[j]], 2, axis=0) for j in (0, -1))
    last = pair(one, one, 1e30, -1e30)  # whatever the coefficients
    own = [last, pair(one, other), pair(one, other), pair(one, 0 * one)]
    return [*gradient_witnesses(params, d, published), *own]


@register(
    title="Winsorized gradient descent over users",
    order=31,
    task="linear_regression",
    relation=Relation.USER,
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
    releases=witnessed(
        witnesses,
        *mean_releases("gradient"),
        Release(_LAST, 0.25, "2 * gradient_bound / n", when=with_interval),
        *user_interval.RELEASES,
    ),
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
    """Return the coefficients, (d, R)."""
    objective = UserObjective(
        users=users_of(sample, params), loss=LINEAR_LOSSES[params.loss], radius=params.radius
    )
    budget = None if params.interval is None else params.budget()
    aggregation = params.aggregation_of_gradients(sample.n_features, budget)
    start = np.zeros((sample.n_features, sample.n_replicates))
    reached = descend(
        objective,
        aggregation,
        start,
        transcript,
        step_size=params.step_size,
        n_iterations=params.n_iterations,
    )
    if params.interval is None or budget is None:
        return reached
    assert params.curvature_bound is not None
    users = ClippedUsers(objective, params.gradient_bound, params.curvature_bound)
    sensitivity = ball_mean(np.full_like(users.n_units, params.gradient_bound), users.n_units)
    multiplier = budget.gaussian_multiplier(_LAST)
    gradient = transcript.gaussian(
        users.mean_gradient(reached),
        l2_sensitivity=sensitivity,
        noise_multiplier=multiplier,
        label=_LAST,
    )
    std = transcript.noise_std(sensitivity, multiplier, sample.n_features)
    level = np.full_like(users.n_units, params.gradient_bound)
    transcript.interval = user_interval.interval_by_users(
        transcript,
        params.interval,
        budget,
        users,
        [
            NewtonSteps(end[None], -own[None], np.array([noise]), float(threshold), end)
            for end, own, noise, threshold in zip(reached.T, gradient.T, std, level, strict=True)
        ],
    )
    return reached
