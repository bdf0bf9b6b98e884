"""Regression by gradient steps on winsorized means of users' gradients; users are protected with all rows.

    g_t = a winsorized mean over users of (mean over the user's rows of ∂ℓ(x'θ_t, y)/∂z · x)
    θ_(t+1) = Π_‖·‖≤radius(θ_t − η g_t),   T steps from 0

Guarantee: (ε, δ) under replacing one user with all of that user's rows; the number of users is public.
Public:
``gradient_bound`` G on the norm of the mean gradient, the radius of the ball, T and η, and
``concentration_radius`` τ. Users' mean gradients lie within τ of their mean (∝ 1/√m).

Why it is private. θ_t follows from earlier releases. Given θ_t, replacing a user replaces one vector of the
mean over users. The T means are released under one budget (:mod:`dpalgos.user_level.aggregation`), for any
loss. No gradient needs a bound: the balls to which vectors are clipped have one.

With ``aggregation="clipped"`` it is gradient descent with users' gradients clipped to G, the usual baseline.

Each user counts once, for any number of rows. Users' rows may follow different laws, at most Δ in total
variation from those of other users. For losses within B, Theorem 10 adds B(mn + 2)Δ to the bound on the
excess risk for equal laws. This is useful for tiny Δ only.

Interval (``interval=0.95``; tight, clipped gradients, a smooth convex loss): the steps get 0.4 of μ². A
Newton step follows from the last iterate (:mod:`dpalgos.user_level.user_interval`); its result is not
projected. Then
``curvature_bound`` K, for users' mean ∂²ℓ/∂z² x x', is public, too.

Reference: Levy et al., Learning with User-Level Privacy, Algorithms 3 and 7, Theorem 4.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.events import Relation
from dpalgos.catalog import (
    Form,
    Neighbors,
    Published,
    pair,
    register,
    shares_of,
)
from dpalgos.errors import InputError
from dpalgos.intervals.half_widths import IntervalParams
from dpalgos.params import choice, count, positive
from dpalgos.release.spend import Spend
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray
from dpalgos.user_level import user_interval
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
        return self.split_budget({user_interval.LAST_GRADIENT.label: 1.0}, reserved)


def _all_bins_left(_: GradientStepParams, d: int, __: Published) -> Neighbors:
    return pair(np.zeros((2, d)), np.full((2, d), 1e9), 1.0)


def _opposite_gradients(_: GradientStepParams, d: int, __: Published) -> Neighbors:
    """Return the two rows of one user, whose gradients at the start are large and opposite."""
    far, ones = np.zeros((2, d)), np.ones(2)
    far[:, 0] = 1e9
    return far, ones, far, -ones


def _user_along(d: int, axis: int) -> FloatArray:
    return 1e9 * np.repeat(np.eye(d)[[axis]], 2, axis=0)


def _opposite_responses(_: Any, d: int, __: Published) -> Neighbors:
    return pair(_user_along(d, 0), _user_along(d, 0), 1e30, -1e30)


def _orthogonal_users(_: Any, d: int, __: Published) -> Neighbors:
    return pair(_user_along(d, 0), _user_along(d, -1))


def _far_user_and_none(_: Any, d: int, __: Published) -> Neighbors:
    return pair(_user_along(d, 0), np.zeros((2, d)))


GRADIENT_RELEASES = mean_releases("gradient", "", _all_bins_left, _opposite_gradients)
RELEASES = (
    *GRADIENT_RELEASES,
    replace(user_interval.LAST_GRADIENT, witness=_opposite_responses),
    replace(user_interval.CURVATURE, witness=_orthogonal_users),
    replace(user_interval.SQUARES, witness=_orthogonal_users),
    replace(user_interval.SHARES_BY_SIZE, witness=_far_user_and_none),
)


@register(
    title="Winsorized gradient descent over users",
    order=31,
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
    releases=RELEASES,
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
        transcript.interval = user_interval.interval_by_users(
            Spend.of_budget(transcript, budget, labels=labels),
            params.interval,
            objective,
            (params.gradient_bound, params.curvature_bound),
            reached,
        )
    return reached
