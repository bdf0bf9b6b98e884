"""The best combination of a few noisy gradient steps of least squares: free post-processing.

    θ̄ = Σ_t w_t (θ_t + η g_t),   w ∝ K⁻¹ 1,   Σ_t w_t = 1,   K = v Σ_j g_j g_j' + diag(s_t²)

g_t = H (θ* − θ_t) + noise of standard deviation s_t is the gradient released at θ_t; g_j its coordinates j
over the steps. Columns are white up to what whitening could not know: entries of H − I have variance v, so
that θ_t + g_t errs by noise of variance s_t² and, together with the other steps, by v (θ* − θ_t)'(θ* − θ_u),
which v g_t'g_u estimates. The weights are those of generalized least squares. Where only noise is left in
the gradients, that is a mean with weights 1/s_t²; where they still point the same way, an extrapolation.
"""

import numpy as np

from dpalgos.typing import FloatArray

_ENTRY_VARIANCE = 1 / 400  # v: the whitening is right to about 5 %
_JITTER = 1e-12  # of K's trace, where there is next to no noise


def combined_steps(
    iterates: FloatArray, gradients: FloatArray, noise_stds: FloatArray, step_size: float
) -> tuple[FloatArray, FloatArray]:
    """Return the combination of steps θ_{t+1} = θ_t + η g_t, and the variance that noise leaves in it.

    Parameters
    ----------
    iterates, gradients : (T, d, R) arrays
        θ_t and g_t, released.
    noise_stds : (T, R) array
        s_t, public.
    step_size : float
        η, at most 1.

    Returns
    -------
    (d, R) array
        θ̄.
    (R,) array
        Variance per coordinate, with curvature 1: of a step's noise, a later step leaves 1 − η.

    References
    ----------
    Anderson (1965), Iterative procedures for nonlinear integral equations: the same weights without noise.
    """
    n_steps, own = len(iterates), noise_stds.T**2
    covariance = _ENTRY_VARIANCE * np.einsum("tjr,ujr->rtu", gradients, gradients)
    size = np.maximum(covariance.trace(axis1=1, axis2=2) + own.sum(axis=1), np.finfo(float).tiny)
    covariance[:, range(n_steps), range(n_steps)] += own
    covariance = covariance / size[:, None, None] + _JITTER * np.eye(n_steps)
    weights = np.linalg.solve(covariance, np.ones((len(own), n_steps, 1)))[..., 0]
    weights /= weights.sum(axis=1, keepdims=True)
    combined = np.einsum("rt,tjr->jr", weights, iterates + step_size * gradients)

    age = np.subtract.outer(np.arange(n_steps), np.arange(n_steps))
    left = np.where(age >= 0, step_size * (1 - step_size) ** np.maximum(age, 0), 0.0)
    return combined, ((weights @ left) ** 2 * own).sum(axis=1)
