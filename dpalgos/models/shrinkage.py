"""Estimates that use the known size of the noise in released numbers: post-processing."""

from typing import Any

import numpy as np
import scipy

from dpalgos.params import choice
from dpalgos.typing import FloatArray

_SMALLEST = 1e-200


def prune_noise(values: FloatArray, noise_std: float | FloatArray) -> FloatArray:
    """Set released values (k, R) to zero where noise explains them: up to noise_std √(2 log(10 k))."""
    return np.asarray(
        np.where(np.abs(values) > noise_std * np.sqrt(2 * np.log(10 * len(values))), values, 0.0)
    )


def shrinkage_choice() -> Any:
    """Declare the keyword ``shrinkage``."""
    what = "'james_stein' (with the known noise level) or None"
    return choice(what, ("james_stein", None), default=None)


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
