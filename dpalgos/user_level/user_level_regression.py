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

Reference: Levy et al., Learning with User-Level Privacy, Algorithms 3 and 7, Theorem 4.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.events import Relation
from dpalgos.catalog import Form, register
from dpalgos.params import choice, count, positive
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray
from dpalgos.user_level.aggregation import AggregationParams, UserAggregation, mean_releases
from dpalgos.user_level.first_order import LINEAR_LOSSES, UserObjective, descend


@dataclass(frozen=True, kw_only=True)
class GradientStepParams(AggregationParams):
    """Keywords of estimators that minimize a loss."""

    loss: str = choice("of the linear predictor", tuple(LINEAR_LOSSES))
    gradient_bound: float = positive("G: bounds the ℓ2 norm of the mean gradient")
    radius: float = positive("coefficients are looked for in the ℓ2 ball of this radius around 0")
    n_iterations: int = count("T, number of gradient steps", default=8)
    step_size: float = positive("η; at most 1 / smoothness of the mean loss")

    def aggregation_of_gradients(self, n_features: int) -> UserAggregation:
        """Return the aggregation that releases the mean gradient over users, once for each step."""
        return UserAggregation(
            self,
            GRADIENT_RELEASES,
            bound=self.gradient_bound,
            n_features=n_features,
            n_queries=self.n_iterations,
        )


GRADIENT_RELEASES = mean_releases("gradient")


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
    no_interval="the distance of a few steps from the minimum is not known; use preconditioned_regression",
    releases=GRADIENT_RELEASES,
    forms={
        "clipped": Form(keywords={"aggregation": "clipped"}),
        "Huber loss": Form(keywords={"loss": "huber", "n_iterations": 3}),
    },
)
def user_level_regression(sample: Sample, params: GradientStepParams, transcript: Transcript) -> FloatArray:
    """Return the coefficients, (d, 1)."""
    objective = UserObjective(
        users=params.users(sample), loss=LINEAR_LOSSES[params.loss], radius=params.radius
    )
    return descend(
        objective,
        params.aggregation_of_gradients(sample.n_features),
        np.zeros((sample.n_features, 1)),
        transcript,
        step_size=params.step_size,
        n_iterations=params.n_iterations,
    )
