"""Released Newton steps, and the minimum-variance combination of the points that they lead to."""

from typing import NamedTuple

import numpy as np

from dpalgos.typing import FloatArray

_JITTER = 1e-12  # of K's trace, where noise is negligible
_ENTRY_VARIANCE = 1 / 200  # a whitening is right to 7 %


class NewtonSteps(NamedTuple):
    """Points and what was released at each of them.

    ``points`` and ``gradients`` are (T, d), the noise standard deviations ``stds`` (T,). ``threshold`` is the
    norm to which scores are clipped at the last point, and ``end`` (d,) follows it.
    """

    points: FloatArray
    gradients: FloatArray
    stds: FloatArray
    threshold: float
    end: FloatArray

    def last(self, number: int) -> "NewtonSteps":
        """Return the last of the steps."""
        return self._replace(
            points=self.points[-number:], gradients=self.gradients[-number:], stds=self.stds[-number:]
        )


def combination_weights(steps: NewtonSteps, entry_variance: float, own_variance: float = 0.0) -> FloatArray:
    """Return the weights w (T,), of sum 1, that minimize the variance of Σ w_t (θ_t + g_t).

        w ∝ K⁻¹ 1,   K = v Σ_j g_j g_j' + diag(s_t² + o g_t'g_t)

    g_t = H (θ* − θ_t) + noise of standard deviation s_t; g_j are its coordinates j over the steps. Columns
    are white up to an error: entries of H − I have ``entry_variance`` v. The error of θ_t + g_t has noise of
    variance s_t². Its other part has covariance v (θ* − θ_t)'(θ* − θ_u) with step u, which v g_t'g_u
    estimates. ``own_variance`` o is for steps that are not linear in θ. These are the weights of
    generalized least squares (Anderson 1965 has them without noise).
    """
    g, n_steps = steps.gradients, len(steps.points)
    variances = steps.stds**2 + own_variance * (g**2).sum(axis=1)
    covariance = entry_variance * (g @ g.T) + np.diag(variances)
    size = max(float(covariance.trace()), float(np.finfo(float).tiny))
    weights = np.linalg.solve(covariance / size + _JITTER * np.eye(n_steps), np.ones(n_steps))
    return np.asarray(weights / weights.sum())


def combined(
    steps: NewtonSteps, curvature: FloatArray, start_variance: float, own_variance: float
) -> tuple[FloatArray, FloatArray]:
    """Return the combination of steps (d,), and the variance that noise leaves in each direction, (d,).

    ``curvature`` (d,) is h, 0 to 1, of each of some orthonormal directions. A later step leaves 1 − h of a
    step's noise, and of the start's.
    """
    n_steps = len(steps.points)
    weights = combination_weights(steps, _ENTRY_VARIANCE, own_variance)
    middle = weights @ (steps.points + steps.gradients)
    keeps = 1 - curvature
    left: FloatArray = np.zeros((n_steps + 1, len(curvature)))  # of each step's noise
    for t in reversed(range(n_steps)):
        left[t] = weights[t] + keeps * left[t + 1]
    start = keeps * left[0]
    return middle, steps.stds**2 @ left[:-1] ** 2 + start**2 * start_variance
