"""Linear regressions: of paper A, section 5, of rows and errors of a stated shape, and for local privacy."""

from typing import Literal

import numpy as np

from data.errors import DataError
from data.simulations import Shape, Simulated, centered_noise

MODELS = ("uniform_regression", "shaped_regression", "sign_regression")

Design = Literal["literal", "repaired", "feasible"]


def uniform_regression(
    rng: np.random.Generator,
    n: int,
    d: int,
    *,
    sparsity: int | None = None,
    design: Design = "literal",
    noise_std: float = 1.0,
    noise: Shape = "gaussian",
    single_precision: bool = False,
) -> Simulated:
    """Draw a bounded design, unit coefficients and responses with noise N(0, 1), as in paper A, section 5.

    The first ``sparsity`` coefficients are uniform on the unit sphere, the others zero; all are uniform if it
    is omitted. Entries are uniform on ±h with h = 1/√d as printed ("literal"); h = 1/√sparsity, for which the
    paper's assumptions hold ("repaired"); or h = 1 ("feasible"). As printed the signal of a sparse problem
    vanishes: even the oracle is worse than zero. In single precision X has half the memory.
    """
    support = d if sparsity is None else min(sparsity, d)
    coef = np.zeros(d)
    direction = rng.standard_normal(support)
    coef[:support] = direction / np.linalg.norm(direction)
    h = half_width(design, d, support)
    X = rng.random((n, d), dtype=np.float32 if single_precision else np.float64)
    X *= 2 * h
    X -= h
    y = X[:, :support] @ coef[:support] + noise_std * centered_noise(rng, noise, n)
    return Simulated(
        X=X, y=y, truth=coef, noise_std=noise_std, information=np.full(d, (noise_std * h) ** 2 / 3)
    )


def half_width(design: str, d: int, support: int) -> float:
    """Return h of a design whose entries are uniform on ±h."""
    half_widths: dict[str, float] = {"literal": d**-0.5, "repaired": support**-0.5, "feasible": 1.0}
    if design not in half_widths:
        raise DataError(f"design must be one of {', '.join(half_widths)}, got {design!r}")
    return half_widths[design]


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
    """Draw rows and errors of a law, coefficients of length about ½ and responses.

    ``correlation`` is that of every two columns. Where errors are unequal, the variance of one is (1 + x²)/2
    times ``noise_std``² for the first entry x of its row.
    """
    X = centered_noise(rng, rows, (n, d)) * np.sqrt(1 - correlation)
    if correlation:
        X += np.sqrt(correlation) * rng.standard_normal((n, 1))
    truth = np.linspace(1, -1, d) / np.sqrt(d)
    spread = noise_std * np.sqrt((1 + X[:, 0] ** 2) / 2) if unequal else noise_std
    return Simulated(
        X=X, y=X @ truth + spread * centered_noise(rng, errors, n), truth=truth, noise_std=noise_std
    )


def sign_regression(
    rng: np.random.Generator,
    n: int,
    d: int,
    *,
    sparsity: int,
    coef_norm: Literal["absolute", "euclidean"] = "absolute",
) -> Simulated:
    """Draw covariates uniform on {±1}^d, equal coefficients on the first few, noise uniform on [−1, 1].

    The absolute or the Euclidean norm of the coefficients is 1; |y| is at most 2, or 1 + √``sparsity``.
    """
    support = min(sparsity, d)
    truth = np.zeros(d)
    truth[:support] = support ** (-1.0 if coef_norm == "absolute" else -0.5)
    X = rng.integers(0, 2, (n, d), dtype=np.int8) * 2.0 - 1
    y = X[:, :support] @ truth[:support] + rng.uniform(-1, 1, n)
    return Simulated(X=X, y=y, truth=truth, noise_std=3**-0.5, information=np.full(d, 1 / 3))
