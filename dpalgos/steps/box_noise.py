"""Coordinates of noise with density ∝ e^(−‖z‖∞) in k dimensions: Laplace noise for k = 1.

z is uniform in a cube of half-width r ~ Gamma(k + 1), so that for one coordinate

    E z² = (k + 1)(k + 2)/3,   P(|z| > t) = P(r > t) − t E[1/r; r > t] = Q(k + 1, t) − (t/k) Q(k, t)

with Q the regularized upper incomplete gamma function.

References
----------
Hardt & Talwar (2010), On the geometry of differential privacy.
"""

from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaincc, ndtri


def coordinate_std(size: int) -> float:
    """Return the standard deviation of a coordinate of noise in ``size`` dimensions, for scale 1."""
    return float(np.sqrt((size + 1) * (size + 2) / 3))


@lru_cache(maxsize=1024)
def coordinate_quantile(size: int, level: float) -> float:
    """Return t with P(|z| ≤ t) = ``level`` for a coordinate, for scale 1."""

    def excess(t: float) -> float:
        return float(gammaincc(size + 1, t) - t / size * gammaincc(size, t)) - (1 - level)

    return float(brentq(excess, 0.0, 100.0 * (size + 1)))


def normal_equivalent(size: int, level: float) -> float:
    """Return the standard deviation of normal noise that reaches as far at ``level``, at least the true one.

    Intervals of normal errors take it for the noise's: that covers noise of longer tails by itself, and,
    since sums are closer to normal, with any normal error beside it.
    """
    return max(coordinate_std(size), coordinate_quantile(size, level) / float(ndtri((1 + level) / 2)))
