"""Minimizes an average loss over users by gradient steps, each with one released mean of users' gradients.

    query θ_t;  user u tells the mean of ∇ℓ(θ_t; z) over the user's rows;  their mean is released (g);
    update θ_(t+1) = Π_Θ(θ_t − η_t (g + λ(θ_t − θ_0)));  at the end, aggregate the iterates

All users take part in every step. Only the released gradients depend on the data: schemes, averaging and the
choice of an iterate are free. λ(θ − θ_0), where there is one, is public and added after the release.

Reference: Levy et al., Learning with User-Level Privacy, Algorithms 3 and 7, Theorem 4.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpalgos.release.transcript import Transcript
from dpalgos.rows.users import UserRows
from dpalgos.steps.clipping import project_l2_ball
from dpalgos.typing import FloatArray
from dpalgos.user_level.aggregation import UserAggregation
from dpalgos.user_level.linear_losses import LinearLoss


class FirstOrderScheme(ABC):
    """Where gradients are asked for, how steps are made, and what is returned.

    Parameters
    ----------
    step_size : float
        η.
    n_iterations : int
        T.
    """

    def __init__(self, step_size: float, n_iterations: int) -> None:
        self.step_size, self.n_iterations = step_size, n_iterations

    def query(self, iterates: Sequence[FloatArray]) -> FloatArray:
        """Return where the next gradient is taken."""
        return iterates[-1]

    def step(self, t: int) -> float:
        """Return η_t, t = 0, 1, …"""
        return self.step_size

    @abstractmethod
    def aggregate(self, iterates: Sequence[FloatArray]) -> FloatArray:
        """Return the answer from θ_0, …, θ_T."""


class LastIterate(FirstOrderScheme):
    """The last iterate: best where the loss is well-conditioned."""

    def aggregate(self, iterates: Sequence[FloatArray]) -> FloatArray:
        """Return θ_T."""
        return iterates[-1]


class AveragedIterates(FirstOrderScheme):
    """The average of θ_1, …, θ_T: for convex losses."""

    def aggregate(self, iterates: Sequence[FloatArray]) -> FloatArray:
        """Return the average."""
        return np.asarray(np.mean(iterates[1:], axis=0))


class RestartedIterates(FirstOrderScheme):
    """Fixed steps, then decreasing ones from their weighted average: for strongly convex losses.

    The first half has step η and weights (1 − μη)^(−t), which forgets the start geometrically; the second has
    steps min(η, 2/(μ(t + 2/(μη)))) and weights ∝ t + 1, which averages the noise away.

    Parameters
    ----------
    step_size, n_iterations : as of all schemes
    strong_convexity : float
        μ.
    """

    def __init__(self, step_size: float, n_iterations: int, strong_convexity: float) -> None:
        super().__init__(step_size, n_iterations)
        self._mu, self._half = strong_convexity, n_iterations // 2

    def query(self, iterates: Sequence[FloatArray]) -> FloatArray:
        """Return the last iterate, or the average at which the second half starts."""
        return self._first(iterates) if 0 < len(iterates) - 1 == self._half else iterates[-1]

    def step(self, t: int) -> float:
        """Return η, then decreasing steps."""
        if t < self._half:
            return self.step_size
        return min(self.step_size, 2 / (self._mu * (t - self._half + 2 / (self._mu * self.step_size))))

    def aggregate(self, iterates: Sequence[FloatArray]) -> FloatArray:
        """Return the weighted average of the second half."""
        second = iterates[self._half + 1 :]
        return np.asarray(np.average(second, axis=0, weights=np.arange(1, len(second) + 1)))

    def _first(self, iterates: Sequence[FloatArray]) -> FloatArray:
        growth = -np.log1p(-min(self._mu * self.step_size, 0.999))
        weights = np.exp(growth * (np.arange(1, self._half + 1) - self._half))
        return np.asarray(np.average(iterates[1 : self._half + 1], axis=0, weights=weights))


class RandomIterate(FirstOrderScheme):
    """One of θ_0, …, θ_(T−1), drawn in public: for losses that are not convex.

    Parameters
    ----------
    step_size, n_iterations : as of all schemes
    seed : int
        Public.
    """

    def __init__(self, step_size: float, n_iterations: int, seed: int) -> None:
        super().__init__(step_size, n_iterations)
        self._chosen = int(np.random.default_rng(seed).integers(1, n_iterations + 1))

    def aggregate(self, iterates: Sequence[FloatArray]) -> FloatArray:
        """Return the iterate drawn, never the start, which has learned nothing."""
        return iterates[self._chosen]


@dataclass(frozen=True, eq=False, kw_only=True)
class UserObjective:
    """What is minimized: the mean over users of each user's mean loss, plus (λ/2)‖θ − θ_0‖², in a ball.

    Attributes
    ----------
    users : sequence of R UserRows
    loss : LinearLoss
    radius : float
        Of the ball Θ around 0.
    ridge : float
        λ.
    """

    users: Sequence[UserRows]
    loss: LinearLoss
    radius: float
    ridge: float = 0.0

    def gradients(self, coef: FloatArray) -> list[FloatArray]:
        """Return every user's mean gradient at (d, R) without the ridge, (n_r, d) per replicate."""
        told: list[FloatArray] = []
        for r, users in enumerate(self.users):
            # The first step is the same for all replicates that share users.
            if r and users is self.users[r - 1] and (coef[:, r] == coef[:, r - 1]).all():
                told.append(told[-1])
                continue
            told.append(users.mean_products(self.loss.slope(users.X @ coef[:, r], users.y)))
        return told


def minimize(
    objective: UserObjective,
    scheme: FirstOrderScheme,
    aggregation: UserAggregation,
    start: FloatArray,
    transcript: Transcript,
) -> FloatArray:
    """Return the answer of a scheme from a start (d, R), (d, R)."""
    iterates = [start]
    for t in range(scheme.n_iterations):
        coef = scheme.query(iterates)
        released = aggregation.mean(transcript, objective.gradients(coef), "gradient")
        descent = released + objective.ridge * (coef - start)
        iterates.append(project_l2_ball(coef - scheme.step(t) * descent, objective.radius))
    return scheme.aggregate(iterates)
