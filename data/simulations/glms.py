"""Generalized linear models: of paper B, section 5, and of rows of a stated shape."""

from typing import Literal

import numpy as np

from data.errors import DataError
from data.simulations import Shape, Simulated, centered_noise

MODELS = ("uniform_glm", "shaped_glm")

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
    support = d if sparsity is None else min(sparsity, d)
    coef = np.zeros(d)
    direction = rng.standard_normal(support)
    coef[:support] = direction / np.linalg.norm(direction)
    X = rng.random((n, d), dtype=np.float32 if single_precision else np.float64)
    X *= 2
    X -= 1
    return Simulated(X=X, y=glm_responses(rng, family, X[:, :support] @ coef[:support]), truth=coef)


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
