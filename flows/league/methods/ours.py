"""Estimators of this project: what it recommends where units are public, or the bounds of columns."""

import numpy as np

import dpalgos

REQUIRES = ()
OURS = True
FAMILIES = {
    "preconditioned_regression": ["linear"],
    "preconditioned_glm": ["logistic", "counts"],
    "box_mean": ["means"],
}


def fit(name, table, epsilon, delta, seed, **keywords):
    """Return coefficients of an estimator of the catalog, the constant last."""
    X = np.column_stack([table.X, np.ones(len(table.X))])
    family = (
        {} if table.family == "linear" else {"family": "poisson" if table.family == "counts" else "logistic"}
    )
    rng = np.random.default_rng(seed)
    budget = {"epsilon": epsilon, "delta": delta, "intercept": True}
    result = dpalgos.estimate(name, X, table.y, rng=rng, **budget, **family, **keywords)
    table.certified = result.certified_epsilon
    return result.estimate


def preconditioned_regression(table, epsilon, delta, seed):
    return fit("preconditioned_regression", table, epsilon, delta, seed)


def preconditioned_glm(table, epsilon, delta, seed):
    return fit("preconditioned_glm", table, epsilon, delta, seed)


def box_mean(table, epsilon, delta, seed):
    bounds = {"lower": tuple(table.lower), "upper": tuple(table.upper)}
    rng = np.random.default_rng(seed)
    result = dpalgos.estimate("box_mean", table.X, rng=rng, epsilon=epsilon, delta=delta, **bounds)
    table.certified = result.certified_epsilon
    return result.estimate


METHODS = {each.__name__: each for each in (preconditioned_regression, preconditioned_glm, box_mean)}
