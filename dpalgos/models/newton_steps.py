"""Released Newton steps, and the minimum-variance combination of the points that they lead to.

Estimates that use the known size of the noise in released numbers: post-processing.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy

from dpalgos.params import choice
from dpalgos.typing import FloatArray

_SMALLEST = 1e-200
_JITTER = 1e-12  # of K's trace, where noise is negligible
_ENTRY_VARIANCE = 1 / 200  # a whitening is right to 7 %


def prune_noise(values: FloatArray, noise_std: float | FloatArray) -> FloatArray:
    """Set released values (k, R) to zero where noise explains them: up to noise_std √(2 log(10 k))."""
    return np.asarray(
        np.where(np.abs(values) > noise_std * np.sqrt(2 * np.log(10 * len(values))), values, 0.0)
    )


def shrinkage_choice() -> Any:
    """Declare the keyword ``shrinkage``."""
    doc = "'james_stein' (with the known noise level) or None"
    return choice(doc, ("james_stein", None), default=None)


def james_stein(released: FloatArray, noise_variance: float | FloatArray) -> FloatArray:
    """Return the positive-part James–Stein estimate of released vectors (k, R) with isotropic Gaussian noise.

    It is ``released * max(0, 1 − (k − 2) variance / ‖released‖²)``, unchanged for k ≤ 2. The variance per
    coordinate, a number or (R,), is public; one estimated from the data would be another release.
    """
    squares = np.maximum((released**2).sum(axis=0), np.finfo(float).tiny)
    return np.asarray(released * np.maximum(0.0, 1 - max(len(released) - 2, 0) * noise_variance / squares))


def posterior_kept(squares: float, noise: float, d: int) -> float:
    """Return the part of a vector (d,) that its posterior mean keeps, between 0 and 1 and never 0.

    ``squares`` A is its squared length, of which ``noise`` V is expected from noise alone. If the vector has
    a normal prior of unknown variance, dA/V is a chi-squared variable over b = V/(V + signal). With b uniform
    on (0, 1) a priori, the density of b given A is in proportion to b^(d/2) e^(−bx), x = dA/(2V). Then

        1 − E[b] = 1 − (d/2 + 1)/x · P(d/2 + 2, x)/P(d/2 + 1, x)

    P is the regularized lower incomplete gamma function.
    """
    shape, x = d / 2 + 1, d * squares / (2 * noise)
    lower = float(scipy.special.gammainc(shape, x))
    if lower < _SMALLEST:  # the limit for A → 0
        return float(1 / (shape + 1))
    return float(1 - shape / x * scipy.special.gammainc(shape + 1, x) / lower)


def hard_threshold(values: FloatArray, sparsity: int) -> FloatArray:
    """Keep the ``sparsity`` entries of largest magnitude in every column of (d, R); the others become 0."""
    d = len(values)
    if sparsity == d:
        return values.copy()
    largest = np.argpartition(np.abs(values), d - sparsity, axis=0)[d - sparsity :]
    thresholded = np.zeros_like(values)
    np.put_along_axis(thresholded, largest, np.take_along_axis(values, largest, axis=0), axis=0)
    return thresholded


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
