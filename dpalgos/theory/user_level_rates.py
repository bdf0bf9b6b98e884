"""Rates of estimation from users of m rows each, up to constants, for overlays on figures.

Figures plot the ℓ2 error itself; the rates are of its square, hence the roots here.
"""

import numpy as np


def user_mean_rate(n_users: float, n_samples: float, d: int, epsilon: float, noise_std: float = 1.0) -> float:
    """Return the root of σ² (d/(nm) + d²/(n² m ε²)): Levy et al., Corollary 1, with Theorem 6's lower bound.

    The privacy term falls with 1/√m, where clipping users at a public bound leaves it as it is.
    """
    squared = d / (n_users * n_samples) + (d / (n_users * epsilon)) ** 2 / n_samples
    return float(noise_std * np.sqrt(squared))


def user_floor(n_users: float, epsilon: float, value_bound: float) -> float:
    """Return B e^(−nε/2): for n users even m = ∞ leaves an error of that order, Theorem 9."""
    return float(value_bound * np.exp(-n_users * epsilon / 2))
