# /// script
# dependencies = ["diffprivlib==0.6.6", "scikit-learn==1.7.2"]
# ///
"""diffprivlib: LinearRegression and mean with their bounds, LogisticRegression with the norm of its rows."""

import numpy as np
from diffprivlib import models, tools

FAMILIES = {
    "diffprivlib LinearRegression": ["linear"],
    "diffprivlib LogisticRegression": ["logistic"],
    "diffprivlib mean": ["means"],
}


def linear(table, epsilon, delta, seed):
    bounds = {"bounds_X": (table.lower, table.upper), "bounds_y": (table.y_lower, table.y_upper)}
    model = models.LinearRegression(epsilon=epsilon, random_state=seed, **bounds).fit(table.X, table.y)
    return np.append(model.coef_, model.intercept_)


def logistic(table, epsilon, delta, seed):
    X = np.column_stack([table.X, np.ones(len(table.X))])
    norm = float(np.sqrt(X.shape[1]))
    C = getattr(table, "C", 1.0)  # the default of the library
    model = models.LogisticRegression(
        epsilon=epsilon, data_norm=norm, C=C, fit_intercept=False, random_state=seed, max_iter=1000
    )
    return model.fit(X, table.y).coef_[0]


def mean(table, epsilon, delta, seed):
    return tools.mean(table.X, epsilon=epsilon, bounds=(table.lower, table.upper), axis=0, random_state=seed)


METHODS = dict(zip(FAMILIES, (linear, logistic, mean), strict=True))
