"""Generalized linear models of paper B, section 5: uniform designs, unit coefficients, dense or sparse."""

from typing import Literal

import numpy as np

from data.errors import DataError
from data.simulations import Simulated

MODELS = ("uniform_glm",)

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

    Parameters
    ----------
    rng : numpy.random.Generator
    n, d : int
        Rows and columns.
    family : {"gaussian", "logistic", "poisson"}
        N(x'β, 1); 1 with probability sigmoid(x'β); Poisson with mean exp(x'β).
    sparsity : int, optional
        The first ``sparsity`` coefficients are uniform on the unit sphere, the others zero; all are uniform
        if omitted.
    single_precision : bool
        Whether X is float32, of half the memory.

    Raises
    ------
    DataError
        If there is no such family.
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
    """Draw the responses of a family, given their predictors.

    Raises
    ------
    DataError
        If there is no such family.
    """
    if family == "gaussian":
        return np.asarray(predictor + rng.standard_normal(len(predictor)))
    if family == "logistic":
        return np.asarray(rng.random(len(predictor)) * (1 + np.exp(-predictor)) < 1, dtype=float)
    if family == "poisson":
        return np.asarray(rng.poisson(np.exp(predictor)), dtype=float)
    raise DataError(f"family must be one of gaussian, logistic, poisson, got {family!r}")
