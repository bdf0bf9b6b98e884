"""Simulated people of paper C, and short cuts to run estimators on them."""

import numpy as np

import dpalgos
from tests.dpalgos.silence import silent

BUDGET = {"epsilon": 1.0, "delta": 1e-5}


def people(n, d, seed=0, coef=(0.5, 0.5)):
    """Covariates uniform on {±1}^d, noise uniform on ±1."""
    rng = np.random.default_rng(seed)
    truth = np.zeros(d)
    truth[: len(coef)] = coef
    X = rng.integers(0, 2, (n, d)) * 2.0 - 1
    return X, X @ truth + rng.uniform(-1, 1, n), truth


def estimate(name, X, y, seed=1, **keywords):
    given = {**BUDGET, "covariate_bound": 1.0, "response_bound": 2.0, **keywords}
    return dpalgos.estimate(name, X, y, rng=np.random.default_rng(seed), **given)


def errors(name, n, d, n_seeds, coef=(0.5, 0.5), **keywords):
    found = []
    for seed in range(n_seeds):
        X, y, truth = people(n, d, seed, coef)
        found.append(np.linalg.norm(estimate(name, X, y, seed=100 + seed, **keywords).estimate - truth))
    return np.array(found)


def without_noise(name, X, y, **keywords):
    return silent(name, X, y, **{**BUDGET, "covariate_bound": 1.0, "response_bound": 2.0, **keywords})
