"""The peers, in their own environment: ``python shipped.py DATA.npz ANSWERS.json``."""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import opendp.prelude as dp
from diffprivlib import models, tools
from diffprivlib.utils import DiffprivlibCompatibilityWarning
from measure import judged, measure

TRIALS = 1000
BEYOND = 1e50  # no slope of a bounded fit
dp.enable_features("contrib")


def main(source: str, target: str) -> None:
    """Run every peer at every ε, and the trials that show what one of them leaks."""
    warnings.simplefilter("ignore", DiffprivlibCompatibilityWarning)
    warnings.simplefilter("ignore", RuntimeWarning)  # slopes without bound overflow in its solver
    data = dict(np.load(source))
    rows = []
    for epsilon, rho in zip(data["epsilons"].tolist(), data["rhos"].tolist(), strict=True):
        for task, library, fit in peers(data, epsilon, rho):
            found = measure(fit, judged(data, task))
            rows.append({"task": task, "who": library, "epsilon": epsilon, "ours": False, **found})
    hits = [far_slopes(value) for value in (0.0, 1.0)]
    Path(target).write_text(json.dumps({"rows": rows, "hits": hits, "n_trials": TRIALS}))


def peers(data: dict, epsilon: float, rho: float) -> list:
    """Return (task, library, fit by seed) with public bounds for everything that asks for them."""
    X, y, lower, upper = data["X"], data["y"], data["lower"], data["upper"]
    covariates = X[:, :-1]

    def mean(seed: int) -> np.ndarray:
        return tools.mean(covariates, epsilon=epsilon, bounds=(lower, upper), axis=0, random_state=seed)

    def opendp_mean(seed: int) -> np.ndarray:
        return np.array([column() for column in released])

    def linear(seed: int) -> np.ndarray:
        bounds = (float(data["y_lower"]), float(data["y_upper"]))
        model = models.LinearRegression(
            epsilon=epsilon, bounds_X=(lower, upper), bounds_y=bounds, random_state=seed
        ).fit(covariates, y)
        return np.append(model.coef_, model.intercept_)

    def logistic(seed: int) -> np.ndarray:
        model = models.LogisticRegression(
            epsilon=epsilon, data_norm=float(data["row_bound"]), fit_intercept=False, random_state=seed
        ).fit(X, data["labels"])
        return model.coef_[0]

    released = [
        opendp_column(covariates[:, j], (float(lower[j]), float(upper[j])), rho / len(lower))
        for j in range(len(lower))
    ]
    return [
        ("mean", "diffprivlib", mean),
        ("mean", "OpenDP", opendp_mean),
        ("linear", "diffprivlib", linear),
        ("logistic", "diffprivlib", logistic),
    ]


def opendp_column(column: np.ndarray, bounds: tuple[float, float], rho: float):
    """Return the release of one column's mean by Gaussian noise that costs ρ, one row replaced."""
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(column))
    bounded = (domain, dp.symmetric_distance()) >> dp.t.then_clamp(bounds) >> dp.t.then_mean()
    scale = dp.binary_search_param(lambda s: bounded >> dp.m.then_gaussian(s), d_in=2, d_out=rho)
    mechanism, values = bounded >> dp.m.then_gaussian(scale), column.tolist()
    return lambda: mechanism(values)


def far_slopes(value: float) -> int:
    """Return how often diffprivlib's slope of zeros on ten rows, nine of them 0, is absurd."""
    X = np.zeros((10, 1))
    X[0] = value
    model = models.LinearRegression(epsilon=1.0, bounds_X=(0, 1), bounds_y=(-1, 1), fit_intercept=False)
    return sum(abs(float(model.fit(X, np.zeros(10)).coef_[0])) > BEYOND for _ in range(TRIALS))


if __name__ == "__main__":
    main(*sys.argv[1:])
