"""The curvature of users' losses and the moments of their gradients, clipped, for intervals.

    H_u = the mean over user u's rows of ∂²ℓ(x'θ, y)/∂z² · x x',   shortened to Frobenius norm K
    g_u = the mean over user u's rows of ∂ℓ(x'θ, y)/∂z · x,         shortened to ℓ2 norm G

Replacing a user moves the mean of the H_u, positive semidefinite, by at most √2 K/n
(:func:`dpalgos.intervals.newton.curvature_sensitivity`: their inner products are not negative), the second
moments of the g_u by √2 G²/n (:func:`dpalgos.intervals.half_widths.score_moment_sensitivity`), and the
share of users of
whom anything was clipped by 1/n.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dpalgos.intervals.tails import shares_by_level
from dpalgos.rows.users import UserRows
from dpalgos.steps.clipping import ball_mean, clip_factor
from dpalgos.steps.moments import unsvec
from dpalgos.typing import FloatArray
from dpalgos.user_level.first_order import UserObjective


@dataclass(frozen=True, eq=False)
class ClippedUsers:
    """Users of an objective, as :class:`dpalgos.intervals.newton.BoundedScores` wants them.

    Its loss has a second derivative, and there is no ridge; the bounds are G and K.
    """

    objective: UserObjective
    score_bound: float
    curvature_bound: float
    _sizes: list[FloatArray] = field(default_factory=list)  # of each replicate's users, by what was asked

    @property
    def n_units(self) -> FloatArray:
        """Numbers of users, (R,)."""
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
        return ball_mean(gradients, np.zeros_like(coef), np.full(coef.shape[1], self.score_bound))

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
