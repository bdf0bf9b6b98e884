"""The curvature of a generalized linear model on normal rows: Newton-like steps, and a step's shortfall.

If white rows u ~ N(m, I − m m') and θ is the coefficient, η = u'θ is normal with mean m'θ and variance s² =
‖θ‖² − (m'θ)², and with v = (θ − m m'θ)/s and z = (η − m'θ)/s

    H(θ) = E ψ''(η) u u' = w₀ I + w₁ (m v' + v m') + (w₂ − w₀) v v',   w_k = E ψ''(η) z^k

With classes, at their probabilities p at the mean row: H = (diag(p) − p p') ⊗ I.

All of it is made of public and released quantities. Rows that are not normal make steps too long or too
short, not wrong: their fixed point is the same.
"""

import numpy as np

from dpalgos.models.families import Family
from dpalgos.typing import FloatArray

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_MOMENTS = _WEIGHTS, _WEIGHTS * _NODES, _WEIGHTS * _NODES**2
_RAREST = 0.1  # a class counts as at least this share of an even one
_FLATTEST = 0.05  # of the largest curvature
_NARROWEST = 1e-6  # spread of a predictor that counts as none
_ROUNDS, _LARGEST = 20, 2.0
_N_DRAWS = 2048


def newton_step(
    family: Family,
    theta: FloatArray,
    center: FloatArray,
    score: FloatArray,
    ridge: FloatArray,
    origin: FloatArray | float = 0.0,
    curvature: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the step (H(θ) + ridge)⁻¹ score, and the root mean square factor on isotropic noise, (R,).

    ``center`` (d, R) is m, of norm at most 1; ``ridge`` (R,) is added to the curvature in every direction,
    that of normal rows or, without classes, ``curvature`` (R, d, d).
    """
    if family.classes:
        p = family.mean((np.einsum("ir,ikr->kr", center, theta) + origin)[None])[0]
        of_classes = np.maximum(p, _RAREST / len(p)) + ridge
        scaled = score / of_classes
        return scaled - scaled.mean(axis=1, keepdims=True), _root_mean_square(1 / of_classes)
    if curvature is None:
        curvature = normal_curvature(family, theta, center, origin)
    curvatures, axes = np.linalg.eigh(curvature)
    curvatures = np.maximum(curvatures, _FLATTEST * curvatures[:, -1:]) + ridge[:, None]
    along = np.einsum("rij,ir->jr", axes, score) / curvatures.T
    step = np.einsum("rij,jr->ir", axes, along)
    return step, _root_mean_square(1 / curvatures.T)


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


def normal_curvature(
    family: Family, theta: FloatArray, center: FloatArray, origin: FloatArray | float = 0.0
) -> FloatArray:
    """Return H(θ) of a family without classes, (R, d, d)."""
    mean = (center * theta).sum(axis=0)
    spread = np.sqrt(np.maximum((theta**2).sum(axis=0) - mean**2, _NARROWEST**2))
    along = (theta - center * mean) / spread
    second = family.second_derivative(origin + mean + _NODES[:, None] * spread)
    w0, w1, w2 = (weights @ second for weights in _MOMENTS)
    crossed = np.einsum("r,ir,jr->rij", w1, center, along)
    hessian = crossed + np.swapaxes(crossed, 1, 2) + np.einsum("r,ir,jr->rij", w2 - w0, along, along)
    return np.asarray(hessian + w0[:, None, None] * np.eye(len(theta)))


def clipped_score(
    family: Family, theta: FloatArray, center: FloatArray, origin: FloatArray, level: FloatArray
) -> FloatArray:
    """Return the mean of the clipped scores of events at the true θ (d, R), (d, R).

    Scores are clipped to norm ``level`` (R,); without clipping the mean is 0, with it scores of rows on the
    wrong side of a steep slope count less. For normal rows of mean ``center``, by draws that are always the
    same.
    """
    mean = np.empty_like(theta)
    draws = np.random.default_rng(0).standard_normal((_N_DRAWS, len(theta)))
    draws = np.concatenate([draws, -draws])
    for r, (m, own) in enumerate(zip(center.T, theta.T, strict=True)):
        length = float(m @ m)
        shorter = (1 - np.sqrt(max(1 - length, 0.0))) / max(length, _NARROWEST)
        rows = m + draws - np.outer(draws @ m, shorter * m)  # of second moments I
        p = family.mean((origin[r] + rows @ own)[:, None])[:, 0]
        norms = np.maximum(np.linalg.norm(rows, axis=1), _NARROWEST)
        kept = [np.minimum(1, level[r] / np.maximum(norms * each, _NARROWEST)) for each in (1 - p, p)]
        mean[:, r] = (p * (1 - p) * (kept[0] - kept[1])) @ rows / len(rows)
    return mean


def _root_mean_square(values: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt((values**2).mean(axis=0)))
