"""The priors that the papers' lower bounds attack, with data drawn given the parameter.

Rows are independent given the parameter, so that of 2n rows the first n can be members and the others not.
"""

import numpy as np
from scipy.special import ndtr, ndtri

from data.simulations import FloatArray, Simulated
from data.simulations.regressions import half_width


def bounded_mean(rng: np.random.Generator, n: int, d: int, *, value_bound: float = 1.0) -> Simulated:
    """Draw μ = σp, p uniform on ±1, and rows with independent entries ±σ of mean μ (paper A, section 2.3).

    Parameters
    ----------
    rng : numpy.random.Generator
    n, d : int
        Rows and columns.
    value_bound : float
        σ.
    """
    share = rng.random(d)  # of entries +σ
    X = np.where(rng.random((n, d)) < share, value_bound, -value_bound)
    return Simulated(X=X, y=None, truth=value_bound * (2 * share - 1), noise_std=value_bound)


def prior_mean(rng: np.random.Generator, n: int, d: int, *, sparsity: int | None = None) -> Simulated:
    """Draw a mean and rows N(μ, I).

    Parameters
    ----------
    rng : numpy.random.Generator
    n, d : int
        Rows and columns.
    sparsity : int, optional
        s: the ``s`` largest |ν_j|, the others zero, with ν_j independent N(0, γ²) truncated to ±1 and
        γ² = 1 / (4 log(d/4s)) (paper A, Lemma 3.2). If omitted, μ ~ N(0, I) (paper B).
    """
    mean = rng.standard_normal(d) if sparsity is None else _largest(rng, d, sparsity)
    X = rng.standard_normal((n, d))
    X += mean
    return Simulated(X=X, y=None, truth=mean)


def prior_regression(
    rng: np.random.Generator, n: int, d: int, *, sparsity: int | None = None, noise_std: float = 1.0
) -> Simulated:
    """Draw coefficients, a design with entries uniform on ±h, and responses with noise N(0, σ²).

    Parameters
    ----------
    rng : numpy.random.Generator
    n, d : int
        Rows and columns.
    sparsity : int, optional
        s: the sparse prior of :func:`prior_mean` over √s, and h = 1/√s. If omitted, the coefficients are
        √d times smaller than N(0, 1) truncated to ±1, and h = 1/√d (paper A, Lemma 4.1).
    noise_std : float
        σ.
    """
    if sparsity is None:
        coef, h = _truncated_normal(rng, d, 1.0) / np.sqrt(d), half_width("literal", d, d)
    else:
        coef, h = _largest(rng, d, sparsity) / np.sqrt(sparsity), half_width("repaired", d, sparsity)
    X = rng.random((n, d))
    X *= 2 * h
    X -= h
    y = X @ coef + noise_std * rng.standard_normal(n)
    return Simulated(X=X, y=y, truth=coef, noise_std=noise_std, second_moment=h**2 / 3)


def _largest(rng: np.random.Generator, d: int, sparsity: int) -> FloatArray:
    sparsity = min(sparsity, d)
    spread = (4 * np.log(max(d / (4 * sparsity), 2.0))) ** -0.5
    values = _truncated_normal(rng, d, spread)
    values[np.argsort(-np.abs(values))[sparsity:]] = 0.0
    return values


def _truncated_normal(rng: np.random.Generator, d: int, spread: float) -> FloatArray:
    """Draw N(0, spread²) given ±1, by inversion."""
    low = ndtr(-1 / spread)
    return np.asarray(spread * ndtri(low + (1 - 2 * low) * rng.random(d)))
