"""Means and regressions, linear and generalized, whose rows and errors have a stated shape."""

from typing import Literal

import numpy as np

from data.simulations import Simulated
from data.simulations.error_laws import centered_noise
from data.simulations.glms import Family, glm_responses

MODELS = ("shaped_mean", "shaped_regression", "shaped_glm")

Shape = Literal["gaussian", "student", "exponential"]


def shaped_mean(rng: np.random.Generator, n: int, d: int, *, rows: Shape = "gaussian") -> Simulated:
    """Draw rows of independent entries of standard deviation 1 around means spread evenly over ±½."""
    truth = np.linspace(-0.5, 0.5, d)
    return Simulated(X=truth + centered_noise(rng, rows, (n, d)), y=None, truth=truth)


def shaped_regression(
    rng: np.random.Generator,
    n: int,
    d: int,
    *,
    rows: Shape = "gaussian",
    errors: Shape = "gaussian",
    unequal: bool = False,
    correlation: float = 0.0,
    noise_std: float = 0.7,
) -> Simulated:
    """Draw rows, coefficients of length about ½ and responses.

    Parameters
    ----------
    rng : numpy.random.Generator
    n, d : int
        Rows and columns.
    rows, errors : {"gaussian", "student", "exponential"}
        Law of the entries and of the errors.
    unequal : bool
        Whether the variance of an error is (1 + x²)/2 times ``noise_std``² for the first entry x of its row.
    correlation : float
        Of every two columns.
    noise_std : float
    """
    X = centered_noise(rng, rows, (n, d)) * np.sqrt(1 - correlation)
    if correlation:
        X += np.sqrt(correlation) * rng.standard_normal((n, 1))
    truth = np.linspace(1, -1, d) / np.sqrt(d)
    spread = noise_std * np.sqrt((1 + X[:, 0] ** 2) / 2) if unequal else noise_std
    return Simulated(
        X=X, y=X @ truth + spread * centered_noise(rng, errors, n), truth=truth, noise_std=noise_std
    )


def shaped_glm(
    rng: np.random.Generator, n: int, d: int, *, family: Family = "logistic", rows: Shape = "gaussian"
) -> Simulated:
    """Draw rows of independent entries of standard deviation 1, coefficients of length about ½, responses."""
    X = centered_noise(rng, rows, (n, d))
    truth = np.linspace(1, -1, d) / np.sqrt(d)
    return Simulated(X=X, y=glm_responses(rng, family, X @ truth), truth=truth)
