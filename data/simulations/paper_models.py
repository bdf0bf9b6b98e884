"""Means, linear regressions and generalized linear models: those of the papers and those of stated shapes."""

from typing import Literal

import numpy as np

from data.errors import DataError
from data.simulations import Shape, Simulated, centered_noise, half_width, uniform_rows

MODELS = (
    *("gaussian_mean", "shaped_mean", "uniform_regression", "shaped_regression", "sign_regression"),
    *("uniform_glm", "shaped_glm"),
)

Design = Literal["literal", "repaired", "feasible"]


def gaussian_mean(
    rng: np.random.Generator,
    n: int,
    d: int,
    *,
    sparsity: int | None = None,
    spread: float = 10.0,
    noise: Shape = "gaussian",
) -> Simulated:
    """Draw a mean μ and rows x_i ~ N(μ, I), or with skewed exponential noise, as in paper A, section 5.

    The first ``sparsity`` coordinates of the mean are uniform on ±``spread``, the others zero; all are
    uniform if it is omitted.
    """
    mean = np.zeros(d)
    support = d if sparsity is None else min(sparsity, d)
    mean[:support] = rng.uniform(-spread, spread, support)
    X = centered_noise(rng, noise, (n, d))
    X += mean
    return Simulated(X=X, y=None, truth=mean)


def shaped_mean(rng: np.random.Generator, n: int, d: int, *, rows: Shape = "gaussian") -> Simulated:
    """Draw rows with independent entries of standard deviation 1 around means evenly spaced over ±½."""
    truth = np.linspace(-0.5, 0.5, d)
    return Simulated(X=truth + centered_noise(rng, rows, (n, d)), y=None, truth=truth)


def uniform_regression(
    rng: np.random.Generator,
    n: int,
    d: int,
    *,
    sparsity: int | None = None,
    design: Design = "literal",
    noise: Shape = "gaussian",
    single_precision: bool = False,
) -> Simulated:
    """Draw a bounded design, unit coefficients and responses with noise N(0, 1), as in paper A, section 5.

    The first ``sparsity`` coefficients are uniform on the unit sphere, the others zero; all are uniform if it
    is omitted. Entries are uniform on ±h with h = 1/√d as printed ("literal"); h = 1/√sparsity, for which the
    paper's assumptions hold ("repaired"); or h = 1 ("feasible"). As printed the signal of a sparse problem
    vanishes: even the oracle is worse than zero. In single precision X has half the memory.
    """
    coef, support = _unit_coefficients(rng, d, sparsity)
    h = half_width(design, d, support)
    X = uniform_rows(rng, n, d, h, single_precision=single_precision)
    y = X[:, :support] @ coef[:support] + centered_noise(rng, noise, n)
    return Simulated(X=X, y=y, truth=coef, information=np.full(d, h**2 / 3))


def shaped_regression(
    rng: np.random.Generator,
    n: int,
    d: int,
    *,
    rows: Shape = "gaussian",
    errors: Shape = "gaussian",
    unequal: bool = False,
) -> Simulated:
    """Draw rows and errors of a law, coefficients of length about ½ and responses.

    The standard deviation of an error is 0.7. With unequal errors, the variance of an error is (1 + x²)/2
    times 0.7² for the first entry x of its row.
    """
    X = centered_noise(rng, rows, (n, d))
    truth = np.linspace(1, -1, d) / np.sqrt(d)
    spread = 0.7 * np.sqrt((1 + X[:, 0] ** 2) / 2) if unequal else 0.7
    return Simulated(X=X, y=X @ truth + spread * centered_noise(rng, errors, n), truth=truth, noise_std=0.7)


def sign_regression(
    rng: np.random.Generator,
    n: int,
    d: int,
    *,
    sparsity: int,
    coef_norm: Literal["absolute", "euclidean"] = "absolute",
    correlation: float = 0.0,
) -> Simulated:
    """Draw covariates uniform on {±1}^d, equal coefficients on the first few, noise uniform on [−1, 1].

    The absolute or the Euclidean norm of the coefficients is 1; |y| is at most 2, or 1 + √``sparsity``.
    ``correlation`` is the correlation of all pairs of columns. An entry is the common sign of its row with
    probability √``correlation``, else an independent sign.
    """
    support = min(sparsity, d)
    truth = np.zeros(d)
    truth[:support] = support ** (-1.0 if coef_norm == "absolute" else -0.5)
    X = rng.integers(0, 2, (n, d), dtype=np.int8) * 2.0 - 1
    if correlation:
        common = rng.integers(0, 2, (n, 1), dtype=np.int8) * 2.0 - 1
        X = np.where(rng.random((n, d)) < np.sqrt(correlation), common, X)
    y = X[:, :support] @ truth[:support] + rng.uniform(-1, 1, n)
    information = None if correlation else np.full(d, 1 / 3)
    return Simulated(X=X, y=y, truth=truth, noise_std=3**-0.5, information=information)


Family = Literal["gaussian", "logistic", "poisson"]


def uniform_glm(
    rng: np.random.Generator,
    n: int,
    d: int,
    *,
    family: Family = "logistic",
    sparsity: int | None = None,
    single_precision: bool = False,
) -> Simulated:
    """Draw coefficients, rows uniform on [−1, 1]^d, and responses with mean ψ'(x'β).

    The responses are N(x'β, 1); 1 with probability sigmoid(x'β); or Poisson with mean exp(x'β). The first
    ``sparsity`` coefficients are uniform on the unit sphere, the others zero; all are uniform if it is
    omitted. In single precision X has half the memory.
    """
    coef, support = _unit_coefficients(rng, d, sparsity)
    X = uniform_rows(rng, n, d, single_precision=single_precision)
    return Simulated(X=X, y=glm_responses(rng, family, X[:, :support] @ coef[:support]), truth=coef)


def _unit_coefficients(rng: np.random.Generator, d: int, sparsity: int | None) -> tuple[np.ndarray, int]:
    """Draw coefficients of length 1, with all or the first few nonzero; also return their number."""
    support = d if sparsity is None else min(sparsity, d)
    direction = rng.standard_normal(support)
    return np.append(direction / np.linalg.norm(direction), np.zeros(d - support)), support


def glm_responses(rng: np.random.Generator, family: str, predictor: np.ndarray) -> np.ndarray:
    if family == "gaussian":
        return np.asarray(predictor + rng.standard_normal(len(predictor)))
    if family == "logistic":
        return np.asarray(rng.random(len(predictor)) * (1 + np.exp(-predictor)) < 1, dtype=float)
    if family == "poisson":
        return np.asarray(rng.poisson(np.exp(predictor)), dtype=float)
    raise DataError(f"family must be one of gaussian, logistic, poisson, got {family!r}")


def shaped_glm(
    rng: np.random.Generator, n: int, d: int, *, family: Family = "logistic", rows: Shape = "gaussian"
) -> Simulated:
    """Draw rows of independent entries of standard deviation 1, coefficients of length about ½, responses."""
    X = centered_noise(rng, rows, (n, d))
    truth = np.linspace(1, -1, d) / np.sqrt(d)
    return Simulated(X=X, y=glm_responses(rng, family, X @ truth), truth=truth)
