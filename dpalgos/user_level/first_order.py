"""Gradient steps on an average loss over users, each with one released mean of users' gradients.

    query θ_t;  g_u = the mean of ∇ℓ(θ_t; z) over the rows of user u;  the mean of the g_u is released (g);
    update θ_(t+1) = Π_Θ(θ_t − η (g + λ(θ_t − θ_0)));  the last iterate is the estimate

All users take part in every step. Only the released gradients depend on the data. The pull λ(θ − θ_0) is
public and added after the release.

Reference: Levy et al., Learning with User-Level Privacy, Algorithms 3 and 7, Theorem 4.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from dpalgos.core.persons import sums_of_units
from dpalgos.core.rows import Block, Rows
from dpalgos.core.spend import Spend
from dpalgos.rows.products import project_l2_ball
from dpalgos.typing import FloatArray
from dpalgos.user_level.aggregation import UserAggregation

Of = Callable[[FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, kw_only=True)
class LinearLoss:
    """A loss ℓ(z, y) of a linear predictor z = x'θ, its ``slope`` ∂ℓ/∂z, by which x is multiplied.

    ``curvature`` bounds |∂²ℓ/∂z²|: the loss is (curvature · ‖x‖²)-smooth in θ. An entry of LINEAR_LOSSES
    adds a loss.
    """

    value: Of
    slope: Of
    curvature: float


def _residual_slope(z: FloatArray, y: FloatArray) -> FloatArray:
    return np.clip(z - y, -1.0, 1.0)


def _huber(z: FloatArray, y: FloatArray) -> FloatArray:
    size = np.abs(z - y)
    return np.where(size <= 1, size**2 / 2, size - 0.5)


LINEAR_LOSSES = {
    "squared": LinearLoss(
        value=lambda z, y: (z - y) ** 2 / 2,
        slope=lambda z, y: z - y,
        curvature=1.0,
    ),
    # y in {0, 1}
    "logistic": LinearLoss(
        value=lambda z, y: np.logaddexp(0, z) - y * z,
        slope=lambda z, y: scipy.special.expit(z) - y,
        curvature=0.25,
    ),
    "huber": LinearLoss(value=_huber, slope=_residual_slope, curvature=1.0),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class UserObjective:
    """The mean over users of each user's mean loss, plus a ridge, to be minimized in a ball.

    The weights of a user's rows are equal, and sum to 1.

    The ball has ``radius`` around 0, and the ridge is (λ/2)‖θ − θ_0‖².
    """

    rows: Rows
    loss: LinearLoss
    radius: float
    ridge: float = 0.0

    def gradients(self, coef: FloatArray) -> FloatArray:
        """Return every user's mean gradient at (d, 1) without the ridge, (n_users, d)."""

        def scores(block: Block) -> tuple[FloatArray, FloatArray]:
            return block.row_weights * self.loss.slope(block.predictors(coef[:, 0]), block.y), block.X

        return sums_of_units(self.rows, scores, self.rows.d)


def descend(
    objective: UserObjective,
    aggregation: UserAggregation,
    start: FloatArray,
    spend: Spend,
    *,
    step_size: float,
    n_iterations: int,
) -> FloatArray:
    """Return the last of the iterates from a start (d, 1), (d, 1)."""
    coef = start
    for _ in range(n_iterations):
        released = aggregation.mean(spend, objective.gradients(coef))
        descent = released + objective.ridge * (coef - start)
        coef = project_l2_ball(coef - step_size * descent, objective.radius)
    return coef
