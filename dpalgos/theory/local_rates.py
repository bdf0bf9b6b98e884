"""Rates of paper C for k-sparse regression under local privacy, constants left out, for overlays on figures.

All are ℓ2 errors, with ‖θ‖₁ ≤ 1 and sub-Gaussian rows of n people.
"""

import numpy as np


def noninteractive_lower(n: int, d: int, k: int, epsilon: float) -> float:
    """Return √(dk log(d/k)) / (√n ε), below which no single-round protocol stays: Theorem 1."""
    return float(np.sqrt(d * k * np.log(d / k) / n) / epsilon)


def interactive_lower(n: int, d: int, k: int, epsilon: float) -> float:
    """Return √(dk) / (√n ε), below which no sequential protocol stays: Theorem 6.

    Gradients whose residuals are clipped reach it up to logarithms (:mod:`dpalgos.local.gradient_rounds`).
    """
    return float(np.sqrt(d * k / n) / epsilon)


def private_moments_upper(n: int, d: int, k: int, epsilon: float, delta: float) -> float:
    """Return d log n √(k log d log(1/δ)) / (√n ε): Theorem 3, for Algorithm 1."""
    return float(d * np.log(n) * np.sqrt(k * np.log(d) * np.log(1 / delta) / n) / epsilon)


def gradient_upper(n: int, d: int, k: int, epsilon: float) -> float:
    """Return k √d / (√n ε), for Algorithms 2 and 4 as printed."""
    return float(k * np.sqrt(d / n) / epsilon)


def local_rates(n: int, d: int, k: int, epsilon: float, delta: float) -> dict[str, float]:
    """Return the rates by their names in figures."""
    return {
        "Algorithm 1's rate, constant 1": private_moments_upper(n, d, k, epsilon, delta),
        "Algorithm 2's rate, constant 1": gradient_upper(n, d, k, epsilon),
        "the lower bound for one round, constant 1": noninteractive_lower(n, d, k, epsilon),
        "the lower bound, constant 1": interactive_lower(n, d, k, epsilon),
    }
