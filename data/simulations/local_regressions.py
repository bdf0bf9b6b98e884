"""Regressions for local privacy: bounded rows and responses, whatever the sizes."""

from typing import Literal

import numpy as np

from data.simulations import Simulated

MODELS = ("sign_regression",)


def sign_regression(
    rng: np.random.Generator,
    n: int,
    d: int,
    *,
    sparsity: int,
    coef_norm: Literal["absolute", "euclidean"] = "absolute",
) -> Simulated:
    """Draw covariates uniform on {±1}^d, equal coefficients on the first few, noise uniform on [−1, 1].

    Parameters
    ----------
    rng : numpy.random.Generator
    n, d : int
        Rows and columns.
    sparsity : int
        k, how many coefficients are not zero.
    coef_norm : {"absolute", "euclidean"}
        Which norm of the coefficients is 1, ℓ1 or ℓ2; |y| is at most 2, or 1 + √k.
    """
    support = min(sparsity, d)
    truth = np.zeros(d)
    truth[:support] = support ** (-1.0 if coef_norm == "absolute" else -0.5)
    X = rng.integers(0, 2, (n, d), dtype=np.int8) * 2.0 - 1
    y = X[:, :support] @ truth[:support] + rng.uniform(-1, 1, n)
    return Simulated(X=X, y=y, truth=truth, noise_std=3**-0.5, information=np.full(d, 1 / 3))
