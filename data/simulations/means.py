"""Means of paper A, section 5: x_i ~ N(μ, I), the mean dense or sparse; or skewed noise in its place."""

from typing import Literal

import numpy as np

from data.simulations import Simulated
from data.simulations.error_laws import centered_noise

MODELS = ("gaussian_mean",)


def gaussian_mean(
    rng: np.random.Generator,
    n: int,
    d: int,
    *,
    sparsity: int | None = None,
    spread: float = 10.0,
    noise: Literal["gaussian", "exponential"] = "gaussian",
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
    noise : {"gaussian", "exponential"}
        Of mean 0 and variance 1; the exponential is skewed.
    """
    mean = np.zeros(d)
    support = d if sparsity is None else min(sparsity, d)
    mean[:support] = rng.uniform(-spread, spread, support)
    X = centered_noise(rng, noise, (n, d))
    X += mean
    return Simulated(X=X, y=None, truth=mean)
