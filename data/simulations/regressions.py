"""Linear regressions of paper A, section 5: bounded designs, unit coefficients, noise N(0, 1)."""

from typing import Literal

import numpy as np

from data.errors import DataError
from data.simulations import Simulated
from data.simulations.error_laws import centered_noise

MODELS = ("uniform_regression",)

Design = Literal["literal", "repaired", "feasible"]


def uniform_regression(
    rng: np.random.Generator,
    n: int,
    d: int,
    *,
    sparsity: int | None = None,
    design: Design = "literal",
    noise_std: float = 1.0,
    noise: Literal["gaussian", "exponential"] = "gaussian",
    single_precision: bool = False,
) -> Simulated:
    """Draw coefficients, a design and responses.

    Parameters
    ----------
    rng : numpy.random.Generator
    n, d : int
        Rows and columns.
    sparsity : int, optional
        The first ``sparsity`` coefficients are uniform on the unit sphere, the others zero; all are uniform
        if omitted.
    design : {"literal", "repaired", "feasible"}
        Entries uniform on ±h with h = 1/√d as printed; h = 1/√sparsity, for which the paper's assumptions
        hold; or h = 1. As printed the signal of a sparse problem vanishes: even the oracle is worse than
        zero.
    noise_std : float
        Of the responses.
    noise : {"gaussian", "exponential"}
        Of mean 0; the exponential is skewed.
    single_precision : bool
        Whether X is.
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
    """Return h of a design whose entries are uniform on ±h.

    Raises
    ------
    DataError
        If there is no such design.
    """
    half_widths: dict[str, float] = {"literal": d**-0.5, "repaired": support**-0.5, "feasible": 1.0}
    if design not in half_widths:
        raise DataError(f"design must be one of {', '.join(half_widths)}, got {design!r}")
    return half_widths[design]
