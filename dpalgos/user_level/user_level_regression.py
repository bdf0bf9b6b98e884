"""Regression by gradient steps on winsorized means of users' gradients; users are protected with all rows.

    g_t = a winsorized mean over users of (mean over the user's rows of ∂ℓ(x'θ_t, y)/∂z · x)
    θ_(t+1) = Π_‖·‖≤radius(θ_t − η g_t),   T steps from 0

Guarantee: (ε, δ) under replacing one user with all of that user's rows; the number of users is public.
Also public: ``gradient_bound`` G on the norm of the mean gradient, the radius of the ball, T and η, and
``concentration_radius`` τ. Users' mean gradients lie within τ of their mean (∝ 1/√m).

Why it is private. θ_t follows from earlier releases. Given θ_t, replacing a user replaces one vector of the
mean over users. The T means are released under one budget (:mod:`dpalgos.user_level.aggregation`), for any
loss. No gradient needs a bound: the balls to which vectors are clipped have one.

    release                  sensitivity    share of ρ, winsorized
    range of the gradient    1 (a count)    0.1
    first gradient           2r/n           0.15
    gradient                 2r/n           0.75; all, if clipped

With ``aggregation="clipped"`` it is gradient descent with users' gradients clipped to G, the usual baseline.

Each user counts once, for any number of rows. Users' rows may follow different laws, at most Δ in total
variation from those of other users. For losses within B, Theorem 10 adds B(mn + 2)Δ to the bound on the
excess risk for equal laws. This is useful for tiny Δ only.

Reference: Levy et al., Learning with User-Level Privacy, Algorithms 3 and 7, Theorem 4.
"""

from dataclasses import dataclass
from typing import ClassVar

from dpalgos.accounting.events import Relation
from dpalgos.catalog import Form, register
from dpalgos.core.plans import Plan
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import Lemmas
from dpalgos.params import choice, count, positive
from dpalgos.typing import FloatArray
from dpalgos.user_level.aggregation import AggregatingEstimator, UserAggregation, mean_releases
from dpalgos.user_level.first_order import LINEAR_LOSSES, UserObjective, descend

GRADIENT_RELEASES = mean_releases("gradient")


@dataclass(frozen=True, kw_only=True)
class GradientStepsOverUsers(AggregatingEstimator):
    """An estimator that minimizes a loss by released mean gradients."""

    loss: str = choice("of the linear predictor", tuple(LINEAR_LOSSES))
    gradient_bound: float = positive("G: bounds the ℓ2 norm of the mean gradient")
    radius: float = positive("coefficients are looked for in the ℓ2 ball of this radius around 0")
    n_iterations: int = count("T, number of gradient steps", default=8)
    step_size: float = positive("η; at most 1 / smoothness of the mean loss")

    lemmas: ClassVar[Lemmas] = GRADIENT_RELEASES.lemmas

    def aggregation_of_gradients(self, d: int, group: int | None = None) -> UserAggregation:
        """Return what releases the mean gradient over users, or over a group, once for each step."""
        return UserAggregation(
            params=self,
            releases=GRADIENT_RELEASES,
            bound=self.gradient_bound,
            n_features=d,
            n_queries=self.n_iterations,
            group=group,
        )


@register(
    name="user_level_regression",
    title="Winsorized gradient descent over users",
    order=34,
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
    no_interval="the distance of a few steps from the minimum is not known; use preconditioned_regression",
    forms={
        "clipped": Form(keywords={"aggregation": "clipped"}),
        "Huber loss": Form(keywords={"loss": "huber", "n_iterations": 3}),
    },
)
@dataclass(frozen=True, kw_only=True)
class UserLevelRegression(GradientStepsOverUsers):
    """The last iterate of gradient steps, each by all users."""

    def plan(self, n: float, d: int) -> Plan:
        return self.aggregation_of_gradients(d).plan(n)

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        objective = UserObjective(rows=rows, loss=LINEAR_LOSSES[self.loss], radius=self.radius)
        aggregation = self.aggregation_of_gradients(rows.d)
        start = rows.by_column(rows.zeros(rows.d))
        step, n_steps = self.step_size, self.n_iterations
        end = descend(objective, aggregation, start, spend, step_size=step, n_iterations=n_steps)
        return rows.by_replicate(end)
