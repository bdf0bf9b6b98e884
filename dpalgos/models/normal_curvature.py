"""The curvature of a generalized linear model on normal rows, and the shortfall of a gradient step.

Let white rows be u ~ N(m, I − m m') and θ the coefficient. Then η = u'θ is normal with mean m'θ and variance
s² = ‖θ‖² − (m'θ)². With v = (θ − m m'θ)/s and z = (η − m'θ)/s

    H(θ) = E ψ''(η) u u' = w₀ I + w₁ (m v' + v m') + (w₂ − w₀) v v',   w_k = E ψ''(η) z^k

All of it is computed from public and released quantities. If rows are not normal, steps are too long or too
short, but their fixed point is the same.
"""

import numpy as np

from dpalgos.models.families import Family
from dpalgos.typing import FloatArray

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_MOMENTS = _WEIGHTS, _WEIGHTS * _NODES, _WEIGHTS * _NODES**2
_NARROWEST = 1e-6  # spread of a predictor that counts as none
_ROUNDS, _LARGEST = 20, 2.0


def one_step_factor(
    family: Family, coef: FloatArray, noise_std: FloatArray, *, second_moment: float
) -> FloatArray:
    """Return by how much a single gradient step from zero falls short of β, (R,).

    For normal rows E x (y − ψ'(0)) = E ψ''(η) m β, η ~ N(0, m ‖β‖²) (Stein's identity), so that a step ends
    at β E ψ''(η) / ψ''(0). ‖β‖² is what is released of it (``coef``), less the noise; m is the public
    ``second_moment``. 1 for families without a bound on ψ''.
    """
    if not np.isfinite(family.curvature_bound):
        return np.ones_like(noise_std)
    spread = np.sqrt(second_moment * np.maximum((coef**2).sum(axis=0) - len(coef) * noise_std**2, 0.0))
    factor = np.ones_like(noise_std)
    for _ in range(_ROUNDS):
        second = _WEIGHTS @ family.second_derivative(_NODES[:, None] * (factor * spread))
        factor = np.minimum(family.second_derivative(np.zeros((1, 1)))[0, 0] / second, _LARGEST)
    return np.asarray(factor)


def clipped_curvature(family: Family, predictors: FloatArray, clip: float = np.inf) -> FloatArray:
    """Return ψ'' (n,) at predictors (n,), times the factor by which scores are clipped to ``clip`` √d.

    Rows have norm √d. Clipping depends on the largest residual of any label, so that it is a constant.
    """
    second = family.second_derivative(predictors[:, None])[:, 0]
    if np.isfinite(clip):
        second = second * np.minimum(clip / family.widest_residual(family.mean(predictors)), 1)
    return np.asarray(second)


def normal_curvature(
    family: Family, theta: FloatArray, center: FloatArray, origin: float = 0.0, clip: float = np.inf
) -> FloatArray:
    """Return H(θ) of a family without classes, (d, d), for θ and m = ``center`` (d,).

    ``origin`` is the predictor at θ = 0. ``clip`` is that of :func:`clipped_curvature`.
    """
    mean = float(center @ theta)
    spread = float(np.sqrt(max(float(theta @ theta) - mean**2, _NARROWEST**2)))
    along = (theta - center * mean) / spread
    predictors = origin + mean + _NODES * spread
    second = clipped_curvature(family, predictors, clip)
    w0, w1, w2 = (float(weights @ second) for weights in _MOMENTS)
    crossed = w1 * center[:, None] * along
    return np.asarray(w0 * np.eye(len(theta)) + crossed + crossed.T + (w2 - w0) * along * along[:, None])
