"""The share of what all rows of a table can explain that an estimate misses.

    (mean loss − least mean loss) / (mean loss of the constant alone − least mean loss)

0 for the non-private estimate, 1 for the intercept alone. The loss is the squared error or minus the
log-likelihood, on all rows, which are what is protected. For means it is their root mean squared distance
from the means of the rows, each in standard deviations of its column. All errors are at most 100.
"""

from collections.abc import Callable

import numpy as np

import dpalgos
from tasks.problems.problem import Draw, Measure, Measured, Traits

MISSED = "missed_share"
MOST_ERROR = 100.0


def missed_of_means(X: np.ndarray) -> Callable[[np.ndarray], float]:
    means, stds = X.mean(axis=0), X.std(axis=0)
    varies = stds > 0
    return lambda found: _capped(np.sqrt(np.mean(((found - means)[varies] / stds[varies]) ** 2)))


def missed_of_regression(X: np.ndarray, y: np.ndarray, family: str) -> Callable[[np.ndarray], float]:
    """Return the error of estimated coefficients; the last column is the constant."""
    # Takes as long to load as all that other kinds of problems need.
    from sklearn.linear_model import LogisticRegression, PoissonRegressor

    def loss(coef: np.ndarray) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            u = X @ coef
            if not family:
                return float(np.mean((y - u) ** 2))
            if family == "logistic":
                return float(np.mean(np.logaddexp(0, u) - y * u))
            return float(np.mean(np.exp(u) - y * u))

    constant, mean = np.zeros(X.shape[1]), y.mean()
    if not family:
        coef, constant[-1] = np.linalg.lstsq(X, y, rcond=None)[0], mean
    elif family == "logistic":
        coef = LogisticRegression(C=1e5, fit_intercept=False, max_iter=2000).fit(X, y).coef_[0]
        constant[-1] = np.log(mean / (1 - mean))
    else:
        coef = PoissonRegressor(alpha=1e-8, fit_intercept=False, max_iter=2000).fit(X, y).coef_
        constant[-1] = np.log(mean)
    least, scale = loss(coef), max(loss(constant) - loss(coef), 1e-12)
    return lambda found: _capped((loss(found) - least) / scale)


def _capped(missed: float) -> float:
    return float(np.clip(np.nan_to_num(missed, nan=MOST_ERROR), 0, MOST_ERROR))


def measure_missed(traits: Traits, draw: Draw, answer: dpalgos.Result) -> Measured:
    return {MISSED: np.array([draw.judge(coef) for coef in draw.columns(answer.estimate).T])}


EXPLAINED = Measure(measure=measure_missed, metric=lambda traits: MISSED, layout="league_page")
