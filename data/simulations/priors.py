"""The priors of the papers' lower bounds, with data drawn given the parameter.

Rows are independent given the parameter. The first n of 2n rows can be members, the others non-members.
"""

import numpy as np
import scipy

from data.simulations import FloatArray, Simulated, half_width, uniform_rows

MODELS = ("bounded_mean", "prior_logistic", "prior_mean", "prior_regression")


def bounded_mean(rng: np.random.Generator, n: int, d: int) -> Simulated:
    """Draw μ uniform on ±1, and rows with independent entries ±1 of mean μ (paper A, section 2.3)."""
    share = rng.random(d)  # of entries +1
    return Simulated(X=np.where(rng.random((n, d)) < share, 1.0, -1.0), y=None, truth=2 * share - 1)


def prior_mean(rng: np.random.Generator, n: int, d: int, *, sparsity: int | None = None) -> Simulated:
    """Draw a mean and rows N(μ, I).

    A sparse mean has the ``sparsity`` largest |ν_j|, the others zero, with ν_j independent N(0, γ²) truncated
    to ±1 and γ² = 1 / (4 log(d/4s)) (paper A, Lemma 3.2). If ``sparsity`` is omitted, μ ~ N(0, I) (paper B).
    """
    mean = rng.standard_normal(d) if sparsity is None else _sparse(rng, d, sparsity)
    X = rng.standard_normal((n, d))
    X += mean
    return Simulated(X=X, y=None, truth=mean)


def prior_regression(rng: np.random.Generator, n: int, d: int, *, sparsity: int | None = None) -> Simulated:
    """Draw coefficients, a design with entries uniform on ±h, and responses with noise N(0, 1).

    With ``sparsity`` s, the coefficients are the sparse mean of :func:`prior_mean` over √s, and h = 1/√s. If
    it is omitted, they are √d times smaller than N(0, 1) truncated to ±1, and h = 1/√d (paper A, Lemma 4.1).
    """
    if sparsity is None:
        coef, h = _truncated_normal(rng, d, 1.0) / np.sqrt(d), half_width("literal", d, d)
    else:
        coef, h = _sparse(rng, d, sparsity) / np.sqrt(sparsity), half_width("repaired", d, sparsity)
    X = uniform_rows(rng, n, d, h)
    return Simulated(X=X, y=X @ coef + rng.standard_normal(n), truth=coef, information=np.full(d, h**2 / 3))


def prior_logistic(rng: np.random.Generator, n: int, d: int, *, sparsity: int | None = None) -> Simulated:
    """Draw coefficients, a design with entries uniform on ±1, and responses 0 or 1 (paper B, section 4).

    With ``sparsity`` s, the coefficients are the s largest of independent N(0, 1), over √s, the others zero.
    If it is omitted, they are N(0, I) over √d, so that linear predictors have variance about 1/3 and the
    likelihood a maximum.
    """
    size = d if sparsity is None else min(sparsity, d)
    coef = _largest(rng.standard_normal(d), size) / np.sqrt(size)
    X = uniform_rows(rng, n, d)
    y = (rng.random(n) < scipy.special.expit(X @ coef)).astype(float)
    return Simulated(X=X, y=y, truth=coef, information=_logistic_information(coef))


def _logistic_information(coef: FloatArray) -> FloatArray:
    """Return E[v(x'β) xx'], v the variance of a response, for entries uniform on ±1, taking x'β as normal.

    With second moments I/3 and u = x'β ~ N(0, ‖β‖²/3): E[v(u)] I/3 + E[v''(u)] ββ'/9 by Stein's identity, up
    to terms of order β_j².
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    mean = scipy.special.expit(nodes * np.linalg.norm(coef) / np.sqrt(3))
    variance = mean * (1 - mean)
    curvature = variance * (1 - 6 * variance)
    first, second = (float(weights @ values) / np.sqrt(2 * np.pi) for values in (variance, curvature))
    return np.asarray(first / 3 * np.eye(len(coef)) + second / 9 * np.outer(coef, coef))


def _sparse(rng: np.random.Generator, d: int, sparsity: int) -> FloatArray:
    sparsity = min(sparsity, d)
    spread = (4 * np.log(max(d / (4 * sparsity), 2.0))) ** -0.5
    return _largest(_truncated_normal(rng, d, spread), sparsity)


def _largest(values: FloatArray, size: int) -> FloatArray:
    values[np.argsort(-np.abs(values))[size:]] = 0.0
    return values


def _truncated_normal(rng: np.random.Generator, d: int, spread: float) -> FloatArray:
    """Draw N(0, spread²) given ±1, by inversion."""
    low = scipy.special.ndtr(-1 / spread)
    return np.asarray(spread * scipy.special.ndtri(low + (1 - 2 * low) * rng.random(d)))
