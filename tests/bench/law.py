"""The law of regressions: never much worse than the best constant, and never worse for more ε.

Four simulated tables and two that ship with statsmodels, on which nothing was tuned. The error of an answer
is the share of what a regression can explain that it misses: 0 without privacy, 1 for the constant alone.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import statsmodels.api as sm

import dpalgos
from tests.bench.goals import Measurement, at_most

_EPSILONS = (0.1, 0.5, 1.0, 3.0, 10.0)
_SEEDS = 20
_MOST = 1.25  # of the constant's error
_FAMILIES = {
    "linear": sm.families.Gaussian(),
    "logistic": sm.families.Binomial(),
    "counts": sm.families.Poisson(),
}
# Rows, columns, standard deviation of the linear predictor but for a factor, intercept.
_SIMULATED = ((2_000, 5, 1.0, -1.0), (5_000, 8, 0.7, -2.5), (20_000, 5, 0.85, 0.0), (4_000, 4, 0.085, -1.0))
_FAIR = ["age", "yrs_married", "children", "religious", "educ"]
_RANDHIE = ["lncoins", "idp", "lpi", "fmde", "physlm", "disea"]

Table = tuple[str, str, np.ndarray, np.ndarray]  # name, family, X with the constant last, y


def bench_law(small: bool = False) -> Measurement:
    """Fit every table at every ε; a goal for each table and family."""
    goals, details = [], {}
    for name, family, X, y in list(_tables())[: 3 if small else None]:
        errors = np.array([_errors(family, X, y, epsilon, 4 if small else _SEEDS) for epsilon in _EPSILONS])
        mean, spread = errors.mean(axis=1), errors.std(axis=1, ddof=1) / np.sqrt(errors.shape[1])
        rises = sum(
            later - before > 2 * np.hypot(s, t)
            for (before, s), (later, t) in pairwise(zip(mean, spread, strict=True))
        )
        above = int(((mean > _MOST) & (mean - 2 * spread > 1)).sum())
        what = f"{name}, {family}"
        goals.append(at_most(0, "faults", what, float(rises + above)))
        details[what] = ", ".join(f"{m:.3g} ± {s:.2g}" for m, s in zip(mean, spread, strict=True))
    return Measurement(
        figure=f"{sum(goal.reached for goal in goals)} of {len(goals)} tables without a fault",
        goals=goals,
        data="four simulated tables, fair, randhie",
        details=details,
    )


def _tables() -> Iterator[Table]:
    for seed, (n, d, spread, intercept) in enumerate(_SIMULATED):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.standard_normal((n, d)), np.ones(n)])
        u = X @ np.append(rng.standard_normal(d) * spread / np.sqrt(d), intercept)
        drawn = {
            "linear": u + rng.standard_normal(n),
            "logistic": rng.random(n) < 1 / (1 + np.exp(-u)),
            "counts": rng.poisson(np.exp(u + 1)),
        }
        for family, y in drawn.items():
            yield f"simulated, n = {n:,}, d = {d}, {spread:g}", family, X, y.astype(float)
    fair, randhie = sm.datasets.fair.load_pandas(), sm.datasets.randhie.load_pandas().data
    yield "fair", "logistic", _standardized(fair.exog[_FAIR]), (fair.endog > 0).to_numpy(float)
    visits = randhie["mdvis"].to_numpy(float)
    yield "randhie", "counts", _standardized(randhie[_RANDHIE]), visits
    yield "randhie", "linear", _standardized(randhie[_RANDHIE]), np.log1p(visits)


def _standardized(columns: Any) -> np.ndarray:
    X = np.asarray(columns, float)
    return np.column_stack([(X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(X))])


def _errors(family: str, X: np.ndarray, y: np.ndarray, epsilon: float, seeds: int) -> np.ndarray:
    """Return the error of each repetition."""
    n, link = len(y), _FAMILIES[family].link
    name = "preconditioned_regression" if family == "linear" else "preconditioned_glm"
    chosen = {} if family == "linear" else {"family": "poisson" if family == "counts" else "logistic"}
    answer = dpalgos.estimate(
        name, X, y, epsilon=epsilon, delta=n**-2.0, intercept=True, replicates=seeds,
        rng=np.random.default_rng(0), **chosen,
    ).estimate  # fmt: skip
    best = sm.GLM(y, X, family=_FAMILIES[family]).fit().params
    least = _loss(family, y, (X @ best)[:, None])[0]
    constant = _loss(family, y, np.full((n, 1), float(link(np.array(y.mean())))))[0]
    return (_loss(family, y, X @ answer) - least) / (constant - least)


def _loss(family: str, y: np.ndarray, u: np.ndarray) -> np.ndarray:
    if family == "linear":
        return ((y[:, None] - u) ** 2).mean(axis=0)
    mean = np.logaddexp(0, u) if family == "logistic" else np.exp(np.minimum(u, 50))
    return (mean - y[:, None] * u).mean(axis=0)
