"""Published methods, as this project implements them, with the league's public bounds.

Rows are clipped to the length √(d + 1), since units are about standard deviations, and responses of linear
regressions, and covariates where each has a bound of its own, to ±3 units. Means are taken
to lie in ±3 units.
"""

from functools import partial

import numpy as np

import dpalgos

REQUIRES = ()
FAMILIES = {
    "adassp": ["linear"],
    "boosted_adassp": ["linear"],
    "tukey_em": ["linear"],
    "hessian_mixing": ["linear"],
    "clipped_gradient_descent": ["linear"],
    "dp_linear_regression": ["linear"],
    "sheffet_ols": ["linear"],
    "binagg_regression": ["linear"],
    "objective_perturbation_glm": ["logistic"],
    "output_perturbation_glm": ["logistic"],
    "double_noise_newton_glm": ["logistic"],
    "dp_glm": ["logistic", "counts"],
    "dp_sgd_glm": ["logistic"],
    "coinpress_mean": ["means"],
    "karwa_vadhan_mean": ["means"],
}
_MEANS = {
    "coinpress_mean": {"mean_bound": 3.0, "std_bound": 1.5},
    "karwa_vadhan_mean": {"mean_bound": 3.0, "std_bounds": (0.1, 3.0)},
}
_BOUNDED = {"adassp", "boosted_adassp", "hessian_mixing", "sheffet_ols", "dp_linear_regression"}


def keywords(name, table):
    """Return the public bounds and settings of an estimator."""
    row = float(np.sqrt(table.X.shape[1] + 1))
    if name in _BOUNDED:
        found = {"covariate_bound": row, "response_bound": 3.0}
        return found | ({"coef_bound": 1.5, "n_iterations": 20} if name == "dp_linear_regression" else {})
    if name in _MEANS:
        return _MEANS[name]
    if name == "clipped_gradient_descent":
        return {"clip_norm": 5 * row}
    if name == "binagg_regression":
        return {"covariate_bound": 3.0, "response_bound": 3.0}
    if name == "tukey_em":
        return {}
    found = {"family": "poisson" if table.family == "counts" else "logistic", "covariate_bound": row}
    if name == "output_perturbation_glm":
        found["ridge"] = 0.01
    if table.family == "counts":
        found["response_bound"] = table.y_upper
    return found


def fit(name, table, epsilon, delta, seed):
    means = table.family == "means"
    X, y = (table.X, None) if means else (np.column_stack([table.X, np.ones(len(table.X))]), table.y)
    rng, budget = np.random.default_rng(seed), {"epsilon": epsilon, "delta": delta}
    result = dpalgos.estimate(name, X, y, rng=rng, **budget, **keywords(name, table))
    table.certified = result.certified_epsilon
    return result.estimate


METHODS = {name: partial(fit, name) for name in FAMILIES}
