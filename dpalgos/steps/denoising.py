"""Estimates that know the size of released noise: free post-processing; and the law of noise in a cube."""

from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from dpalgos.params import choice
from dpalgos.typing import FloatArray


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
