"""Difficult distributions for intervals with clipping: heavy tails, outliers, rare columns and events.

The true value is the population's least squares coefficient, mean or coefficient, in closed form. Each
distribution has its own ``d``, which a study must state.
"""

from typing import Literal

import numpy as np

from data.errors import DataError
from data.simulations import FloatArray, Simulated

MODELS = ("hard_regression", "hard_mean", "hard_events")

RegressionLaw = Literal[
    "lognormal",
    "square",
    "cubic",
    "zero_inflated",
    "outliers",
    "growing_errors",
    "rare_column",
    "counts",
    "dummies",
]
MeanLaw = Literal["lognormal", "pareto", "student_three", "outliers", "rare", "at_the_cap"]
_LEVELS = (0.4, 0.25, 0.15, 0.08, 0.05, 0.04, 0.02, 0.01)


def hard_regression(rng: np.random.Generator, n: int, d: int, *, law: RegressionLaw = "square") -> Simulated:
    """Draw rows with a column of ones, and responses that are nonlinear or have extreme errors."""
    X = rng.standard_normal((n, 3))
    error, truth = rng.standard_normal(n), np.zeros(4)
    if law == "lognormal":
        y, X = 2.4 * X[:, 0] + error, np.exp(0.8 * X)
        truth[0] = 1.92 * np.exp(0.32) / ((np.exp(0.64) - 1) * np.exp(0.64))
        truth[3] = -truth[0] * np.exp(0.32)
    elif law == "square":
        X = rng.standard_exponential((n, 3)) - 1
        y, truth[0], truth[3] = X[:, 0] ** 2 / 2 + error, 1.0, 0.5
    elif law == "cubic":
        X = rng.standard_t(8, (n, 3)) * np.sqrt(6 / 8)
        y, truth[0] = X[:, 0] ** 3 / 3 + error, 1.5
    elif law == "zero_inflated":
        y = np.where(rng.random(n) < 0.15, np.exp(0.5 * X[:, 0] + error), 0.0)
        truth[3] = 0.15 * np.exp(0.625)
        truth[0] = 0.5 * truth[3]
    elif law == "outliers":
        y, truth[0], truth[3] = X[:, 0] + 0.7 * error + 10 * (rng.random(n) < 0.001), 1.0, 0.01
    elif law == "growing_errors":
        y, truth[3] = rng.standard_exponential(n) * np.exp(0.4 * X[:, 0]), np.exp(0.08)
        truth[0] = 0.4 * truth[3]
    elif law == "rare_column":
        X[:, 2] = rng.random(n) < 0.005
        y, truth[:] = X @ [0.5, -0.5, 1.0] + rng.standard_exponential(n) - 1, (0.5, -0.5, 1.0, 0.0)
    elif law == "counts":
        X = rng.poisson([0.3, 1.0, 3.0], (n, 3)) - np.array([0.3, 1.0, 3.0])
        y, truth[3] = rng.poisson(np.exp(0.3 * X[:, 1])), np.exp(np.expm1(0.3) - 0.3)
        truth[1] = truth[3] * np.expm1(0.3)
    elif law == "dummies":
        levels = rng.choice(len(_LEVELS), n, p=_LEVELS)
        y = 0.3 * X[:, 0] + 0.2 * levels + rng.standard_t(5, n)
        indicators = (levels[:, None] == np.arange(1, len(_LEVELS))).astype(float)
        X = np.column_stack([X[:, :2], indicators])
        truth = np.array([0.3, 0.0, *(0.2 * np.arange(1, len(_LEVELS))), 0.0])
    else:
        raise DataError(f"law must be one of {', '.join(RegressionLaw.__args__)}, got {law!r}")
    return Simulated(
        X=np.column_stack([X, np.ones(n)]).astype(float), y=np.asarray(y, dtype=float), truth=truth
    )


def hard_mean(rng: np.random.Generator, n: int, d: int, *, law: MeanLaw = "lognormal") -> Simulated:
    shape = (n, d)
    laws: dict[str, tuple[FloatArray, float]] = {
        "lognormal": (np.exp(1.5 * rng.standard_normal(shape)), float(np.exp(1.125))),
        "pareto": (rng.pareto(2.5, shape), 1 / 1.5),
        "student_three": (0.5 + rng.standard_t(3, shape), 0.5),
        "outliers": (np.where(rng.random(shape) < 0.001, 30.0, rng.standard_normal(shape)), 0.03),
        "rare": ((rng.random(shape) < 0.001).astype(float), 0.001),
        "at_the_cap": (np.where(rng.random(shape) < 0.02, 3.0, rng.random(shape)), 0.55),
    }
    if law not in laws:
        raise DataError(f"law must be one of {', '.join(laws)}, got {law!r}")
    X, truth = laws[law]
    return Simulated(X=X, y=None, truth=np.full(d, truth))


def hard_events(rng: np.random.Generator, n: int, d: int) -> Simulated:
    """Draw events of a logistic regression, 2 to 3% of the rows, with a column of ones."""
    X = np.column_stack([rng.standard_normal((n, d - 1)), np.ones(n)])
    truth = np.append(np.linspace(1, -1, d - 1) / np.sqrt(d - 1), -4.0)
    return Simulated(X=X, y=(rng.random(n) < 1 / (1 + np.exp(-X @ truth))).astype(float), truth=truth)
