"""Estimates that know the size of released noise: free post-processing; and the law of noise in a cube."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy

from dpalgos.params import choice
from dpalgos.typing import FloatArray

_NO_WEIGHT = 1e9  # of K's trace, for steps that were not taken
_JITTER = 1e-12  # of K's trace, where there is next to no noise


class ReleasedSteps(NamedTuple):
    """Points (T, d, R), gradients released there with noise of ``noise_stds`` (T, R), and the last ``end``.

    A step that a replicate did not take has a gradient of 0, and infinite noise: it has no weight.
    ``level`` (R,) is the norm to which scores are clipped at the last point; ``end`` (d, R) follows it.
    """

    points: FloatArray
    gradients: FloatArray
    noise_stds: FloatArray
    level: FloatArray
    end: FloatArray

    @property
    def variances(self) -> FloatArray:
        """The noise's variances, (T, R), 0 of steps that were not taken."""
        return np.where(np.isfinite(self.noise_stds), self.noise_stds, 0.0) ** 2

    def last(self, number: int) -> "ReleasedSteps":
        """Return the last of the steps."""
        return self._replace(
            points=self.points[-number:],
            gradients=self.gradients[-number:],
            noise_stds=self.noise_stds[-number:],
        )


def prune_noise(values: FloatArray, noise_std: float | FloatArray) -> FloatArray:
    """Set released values (k, R) to zero where noise explains them: up to noise_std √(2 log(10 k))."""
    return np.asarray(
        np.where(np.abs(values) > noise_std * np.sqrt(2 * np.log(10 * len(values))), values, 0.0)
    )


def shrinkage_choice(default: str | None = None) -> Any:
    """Declare the keyword ``shrinkage``."""
    return choice(
        "'james_stein' (with the known noise level) or None", ("james_stein", None), default=default
    )


def james_stein(released: FloatArray, noise_variance: float | FloatArray) -> FloatArray:
    """Return the positive-part James–Stein estimate of released vectors (k, R) with isotropic Gaussian noise.

    It is ``released * max(0, 1 − (k − 2) variance / ‖released‖²)``, unchanged for k ≤ 2. The variance per
    coordinate, a number or (R,), is public; one estimated from the data would be another release.
    """
    squares = np.maximum((released**2).sum(axis=0), np.finfo(float).tiny)
    return np.asarray(released * np.maximum(0.0, 1 - max(len(released) - 2, 0) * noise_variance / squares))


def signal_share(released: FloatArray, noise_variance: FloatArray) -> FloatArray:
    """Return ‖x‖² / (‖x‖² + k variance) of released vectors x (k, R): about 1/2 for noise alone, (R,)."""
    squares = np.maximum((released**2).sum(axis=0), np.finfo(float).tiny)
    return np.asarray(squares / (squares + len(released) * noise_variance))


def combined_steps(
    steps: ReleasedSteps,
    curvature: FloatArray,
    start_variance: FloatArray,
    *,
    entry_variance: float | FloatArray,
    own_variance: float = 0.0,
) -> tuple[FloatArray, FloatArray]:
    """Return the best combination (d, R) of where noisy steps g_t lead to, and the variance noise leaves.

        θ̄ = Σ_t w_t (θ_t + g_t),   w ∝ K⁻¹ 1,   Σ_t w_t = 1,   K = v Σ_j g_j g_j' + diag(s_t²)

    g_t = H (θ* − θ_t) + noise of standard deviation s_t; g_j are its coordinates j over the steps. Columns
    are white up to what whitening could not know: entries of H − I have variance v, so that θ_t + g_t errs by
    noise of variance s_t² and, together with the other steps, by v (θ* − θ_t)'(θ* − θ_u), which v g_t'g_u
    estimates. The weights are those of generalized least squares (Anderson 1965 has them without noise).

    Steps that are not linear in θ err by more: ``own_variance`` times g_t'g_t, each of its own.
    ``curvature`` (R, d) is h, 0 to 1, of each of some orthonormal directions, ``start_variance`` (R,) that of
    the noise in the start. Of a step's noise, and of the start's, a later step leaves 1 − h, (d, R).
    """
    n_steps, own = len(steps.points), steps.variances.T
    weights = combination_weights(steps, entry_variance, own_variance)
    combined = np.einsum("rt,tjr->jr", weights, steps.points + steps.gradients)

    age = np.subtract.outer(np.arange(n_steps), np.arange(n_steps))
    keeps = 1 - curvature.T
    left = np.where(age >= 0, keeps[..., None, None] ** np.maximum(age, 0), 0.0)
    variance = (np.einsum("rt,drtu->dru", weights, left) ** 2 * own).sum(axis=-1)
    start = np.einsum("rt,drt->dr", weights, keeps[..., None] ** (np.arange(n_steps) + 1))
    return combined, variance + start**2 * start_variance


def combination_weights(
    steps: ReleasedSteps,
    entry_variance: float | FloatArray,
    own_variance: float = 0.0,
) -> FloatArray:
    """Return the weights w of :func:`combined_steps`, (R, T), for v = ``entry_variance``, () or (R,)."""
    gradients, n_steps, own = steps.gradients, len(steps.points), steps.variances.T
    covariance = np.einsum("tjr,ujr->rtu", gradients, gradients) * np.reshape(entry_variance, (-1, 1, 1))
    own = own + own_variance * (gradients**2).sum(axis=1).T
    size = np.maximum(covariance.trace(axis1=1, axis2=2) + own.sum(axis=1), np.finfo(float).tiny)
    own = np.where(np.isfinite(steps.noise_stds.T), own, _NO_WEIGHT * size[:, None])
    covariance[:, range(n_steps), range(n_steps)] += own
    covariance = covariance / size[:, None, None] + _JITTER * np.eye(n_steps)
    weights = np.linalg.solve(covariance, np.ones((len(own), n_steps, 1)))[..., 0]
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def shrunk_directions(released: FloatArray, variance: FloatArray, curvature: FloatArray) -> FloatArray:
    """Return released coordinates along directions (d, R), shrunk by what noise of ``variance`` explains.

    Directions of curvature 1, (R, d), by one James–Stein factor; each of the others by its own,
    τ² / (τ² + variance), τ² = the mean of released² − variance among them, or 0 if that is negative: a small
    curvature leaves much noise, s² / curvature where steps are many.
    """
    doubtful = curvature.T < 1
    number = np.maximum(doubtful.sum(axis=0), 1)
    signal = np.maximum(np.where(doubtful, released**2 - variance, 0).sum(axis=0) / number, 0)
    own = signal / np.maximum(signal + variance, np.finfo(float).tiny)
    resolved = np.where(doubtful, 0, released**2).sum(axis=0)
    noise = np.where(doubtful, 0, variance).sum(axis=0)
    size = len(released) - doubtful.sum(axis=0)
    part = np.maximum(size - 2, 0) / np.maximum(size, 1)
    common = np.maximum(0, 1 - part * noise / np.maximum(resolved, np.finfo(float).tiny))
    return np.asarray(released * np.where(doubtful, own, common))


def coordinate_std(size: int) -> float:
    """Return the standard deviation of a coordinate of noise in a cube, of density ∝ e^(−‖z‖∞).

    In k = ``size`` dimensions z is uniform in a cube of half-width r ~ Gamma(k + 1) (Hardt & Talwar 2010), so
    that E z² = (k + 1)(k + 2)/3; k = 1 is Laplace noise.
    """
    return float(np.sqrt((size + 1) * (size + 2) / 3))


@lru_cache(maxsize=1024)
def coordinate_quantile(size: int, level: float) -> float:
    """Return t with P(|z| ≤ t) = ``level`` for a coordinate of that noise.

    P(|z| > t) = P(r > t) − t E[1/r; r > t] = Q(k + 1, t) − (t/k) Q(k, t), Q the regularized upper incomplete
    gamma function.
    """

    def excess(t: float) -> float:
        return float(scipy.special.gammaincc(size + 1, t) - t / size * scipy.special.gammaincc(size, t)) - (
            1 - level
        )

    return float(scipy.optimize.brentq(excess, 0.0, 100.0 * (size + 1)))


def normal_equivalent(size: int, level: float) -> float:
    """Return the standard deviation of normal noise that reaches as far at ``level``, at least the true one.

    Intervals of normal errors take it for the noise's: that covers noise of longer tails by itself, and,
    since sums are closer to normal, with a normal error added to it.
    """
    return max(
        coordinate_std(size), coordinate_quantile(size, level) / float(scipy.special.ndtri((1 + level) / 2))
    )
