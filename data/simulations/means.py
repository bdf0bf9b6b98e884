"""Gaussian means of paper A, section 5: x_i ~ N(μ, I), the mean dense or sparse."""

import numpy as np

from data.simulations import Simulated


def gaussian_mean(
    rng: np.random.Generator, n: int, d: int, *, sparsity: int | None = None, spread: float = 10.0
) -> Simulated:
    """Draw a mean and a sample of it.

    Parameters
    ----------
    rng : numpy.random.Generator
    n, d : int
        Rows and columns.
    sparsity : int, optional
        The first ``sparsity`` coordinates of the mean are uniform on ±``spread``, the others zero; all are
        uniform if omitted.
    spread : float
    """
    mean = np.zeros(d)
    support = d if sparsity is None else min(sparsity, d)
    mean[:support] = rng.uniform(-spread, spread, support)
    X = rng.standard_normal((n, d))
    X += mean
    return Simulated(X=X, y=None, truth=mean)
