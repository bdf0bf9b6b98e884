"""Minimizes an average loss over users by gradient steps, each with one released mean of users' gradients.

    query θ_t;  user u tells the mean of ∇ℓ(θ_t; z) over the user's rows;  their mean is released (g);
    update θ_(t+1) = Π_Θ(θ_t − η (g + λ(θ_t − θ_0)));  the last one is the answer

All users take part in every step. Only the released gradients depend on the data. λ(θ − θ_0), where there is
one, is public and added after the release.

Reference: Levy et al., Learning with User-Level Privacy, Algorithms 3 and 7, Theorem 4.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy

from dpalgos.intervals.tails import shares_by_level
from dpalgos.release.symmetric import unsvec
from dpalgos.release.transcript import Transcript
from dpalgos.rows.clipping import clip_factor, project_l2_ball
from dpalgos.rows.users import UserRows
from dpalgos.steps.clipping import mean_in_ball
from dpalgos.typing import FloatArray
from dpalgos.user_level.aggregation import UserAggregation

Of = Callable[[FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, kw_only=True)
class LinearLoss:
    """A loss ℓ(z, y) of a linear predictor z = x'θ, its ``slope`` ∂ℓ/∂z, by which x is multiplied.

    ``curvature`` bounds |∂²ℓ/∂z²|: the loss is (curvature · ‖x‖²)-smooth in θ; ``bend`` is ∂²ℓ/∂z² ≥ 0, where
    there is one everywhere. A new loss is one more entry of LINEAR_LOSSES.
    """

    value: Of
    slope: Of
    curvature: float
    bend: Of | None = None


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
        bend=lambda z, y: np.ones_like(z),
    ),
    # y in {0, 1}
    "logistic": LinearLoss(
        value=lambda z, y: np.logaddexp(0, z) - y * z,
        slope=lambda z, y: scipy.special.expit(z) - y,
        curvature=0.25,
        bend=lambda z, y: scipy.special.expit(z) * scipy.special.expit(-z),
    ),
    "huber": LinearLoss(value=_huber, slope=_residual_slope, curvature=1.0),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class UserObjective:
    """The mean over users of each user's mean loss, plus a ridge, to be minimized in a ball.

    ``users`` holds the rows of each replicate, Θ has ``radius`` around 0, and the ridge is (λ/2)‖θ − θ_0‖².
    """

    users: Sequence[UserRows]
    loss: LinearLoss
    radius: float
    ridge: float = 0.0

    def gradients(self, coef: FloatArray) -> list[FloatArray]:
        """Return every user's mean gradient at (d, R) without the ridge, (n_r, d) per replicate."""
        gradients: list[FloatArray] = []
        for r, users in enumerate(self.users):
            # The first step is the same for all replicates that share users.
            if r and users is self.users[r - 1] and (coef[:, r] == coef[:, r - 1]).all():
                gradients.append(gradients[-1])
                continue
            gradients.append(users.mean_products(self.loss.slope(users.X @ coef[:, r], users.y)))
        return gradients


def descend(
    objective: UserObjective,
    aggregation: UserAggregation,
    start: FloatArray,
    transcript: Transcript,
    *,
    step_size: float,
    n_iterations: int,
) -> FloatArray:
    """Return the last of the iterates from a start (d, R), (d, R)."""
    coef = start
    for _ in range(n_iterations):
        released = aggregation.mean(transcript, objective.gradients(coef), "gradient")
        descent = released + objective.ridge * (coef - start)
        coef = project_l2_ball(coef - step_size * descent, objective.radius)
    return coef


@dataclass(frozen=True, eq=False)
class ClippedUsers:
    """Users of an objective, as :class:`dpalgos.user_level.user_interval.BoundedUnits` wants them.

    Its loss has a second derivative, and there is no ridge; the bounds are G and K.

        H_u = the mean over user u's rows of ∂²ℓ(x'θ, y)/∂z² · x x',   shortened to Frobenius norm K
        g_u = the mean over user u's rows of ∂ℓ(x'θ, y)/∂z · x,        shortened to ℓ2 norm G

    Replacing a user moves the mean of the H_u, positive semidefinite, by at most √2 K/n: their inner products
    are not negative. It moves the second moments of the g_u by √2 G²/n
    (:func:`dpalgos.mechanisms.sensitivity.outer_product`), and the share of users of whom anything was
    clipped by 1/n.
    """

    objective: UserObjective
    score_bound: float
    curvature_bound: float
    _sizes: list[FloatArray] = field(default_factory=list)  # of each replicate's users, by what was asked

    @property
    def n_units(self) -> FloatArray:
        return np.array([users.n_users for users in self.objective.users], dtype=float)

    @property
    def bend(self) -> float:
        """Return ∂²ℓ/∂z² at 0, or 0 for the squared loss."""
        loss = self.objective.loss
        return loss.curvature if loss.curvature < 1 else 0.0

    @property
    def row_bound(self) -> float:
        """Return 0: no row is clipped."""
        return 0.0

    def mean_gradient(self, coef: FloatArray) -> FloatArray:
        """Return the mean of clipped gradients at (d, R), (d, R)."""
        gradients = self.objective.gradients(coef)
        self._see(lambda r: np.linalg.norm(gradients[r], axis=1) / self.score_bound)
        return mean_in_ball(gradients, np.zeros_like(coef), np.full(coef.shape[1], self.score_bound))

    def mean_curvature(self, coef: FloatArray) -> FloatArray:
        """Return the mean of clipped curvatures at (d, R), (R, d, d)."""
        curvatures = [self._curvatures(users, coef[:, r]) for r, users in enumerate(self.objective.users)]
        norms = [np.linalg.norm(packed, axis=1) for packed in curvatures]
        self._see(lambda r: norms[r] / self.curvature_bound)
        means = [
            clip_factor(norm, self.curvature_bound) @ packed / len(packed)
            for norm, packed in zip(norms, curvatures, strict=True)
        ]
        return unsvec(np.stack(means, axis=1), len(coef))

    def score_moments(self, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return second moments of clipped gradients at (d, R), and shares of users above each size."""
        gradients = self.objective.gradients(coef)
        self._see(lambda r: np.linalg.norm(gradients[r], axis=1) / self.score_bound)
        moments = np.empty((coef.shape[1], len(coef), len(coef)))
        for r, rows in enumerate(gradients):
            factor = clip_factor(np.linalg.norm(rows, axis=1), self.score_bound)
            moments[r] = (rows * (factor**2)[:, None]).T @ rows / len(rows)
        return moments, shares_by_level(self._sizes)

    def _see(self, sizes: Callable[[int], FloatArray]) -> None:
        """Keep the largest size of each user so far."""
        found = [sizes(r) for r in range(len(self.objective.users))]
        before = self._sizes or found
        self._sizes[:] = [np.maximum(old, new) for old, new in zip(before, found, strict=True)]

    def _curvatures(self, users: UserRows, coef: FloatArray) -> FloatArray:
        """Return each user's curvature as svec, (n_users, d(d+1)/2), made column by column."""
        bend = self.objective.loss.bend
        assert bend is not None
        weights = bend(users.X @ coef, users.y)
        d = users.X.shape[1]
        packed = []
        for j in range(d):
            scale = np.where(np.arange(j, d) == j, 1.0, np.sqrt(2.0))
            packed.append(users.means((weights * users.X[:, j])[:, None] * users.X[:, j:]) * scale)
        return np.concatenate(packed, axis=1)
