"""By how much a single gradient step from zero falls short in a generalized linear model."""

import numpy as np

from dpalgos.models.families import Family
from dpalgos.typing import FloatArray

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_ROUNDS, _LARGEST = 20, 2.0


def one_step_factor(
    family: Family, coef: FloatArray, noise_std: FloatArray, *, second_moment: float
) -> FloatArray:
    """Return by how much a single step from zero falls short of β, (R,); post-processing.

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
