"""Minimax rates of the papers, up to constants, for overlays on figures.

Figures plot the ℓ2 error itself; the rates are of its square, hence the roots here.
"""

import numpy as np

from dpalgos.typing import FloatArray


def linear_regression_upper(
    n: object, d: int, epsilon: float, delta: object, noise_std: float = 1.0
) -> FloatArray:
    """Return the root of σ² (d/n + d² log(1/δ) log³(n) / (n² ε²)).

    Paper A, Theorem 4.2, in the norm of the design's second moments.
    """
    n, delta = np.asarray(n, dtype=float), np.asarray(delta, dtype=float)
    privacy = d**2 * np.log(1 / delta) * np.log(n) ** 3 / (n * epsilon) ** 2
    return np.asarray(noise_std * np.sqrt(d / n + privacy))


def linear_regression_lower(n: object, d: int, epsilon: float, noise_std: float = 1.0) -> FloatArray:
    """Return the root of σ² (d/n + d² / (n² ε²)): paper A, Theorem 4.1."""
    n = np.asarray(n, dtype=float)
    return np.asarray(noise_std * np.sqrt(d / n + (d / (n * epsilon)) ** 2))
