"""The share of what all rows of a table can explain that an estimate misses.

    (mean loss − least mean loss) / (mean loss of the constant alone − least mean loss)

0 for the non-private estimate, 1 for the intercept alone. The loss is the squared error or minus the
log-likelihood, on all rows, which are what is protected. For means it is their root mean squared distance
from the means of the rows, each in standard deviations of its column. All errors are at most 100.
"""

from collections.abc import Iterator

import numpy as np

import dpalgos
from tasks.problems.problem import Draw, Measure, Measured, Traits

MISSED = "missed_share"
MOST_ERROR = 100.0


class MeanScale:
    """The means of a table's columns and their standard deviations, in which errors are measured."""

    def __init__(self, X: np.ndarray) -> None:
        self._means, self._stds = X.mean(axis=0), X.std(axis=0)

    def error(self, means: np.ndarray) -> float:
        varies = self._stds > 0
        missed = (means - self._means)[varies] / self._stds[varies]
        return float(np.clip(np.nan_to_num(np.sqrt(np.mean(missed**2)), nan=MOST_ERROR), 0, MOST_ERROR))


class RegressionScale:
    """The losses of a regression between which errors are measured; the last column is the constant."""

    def __init__(self, X: np.ndarray, y: np.ndarray, family: str) -> None:
        self._X, self._y, self._family = X, y, family
        self._least, self._constant = (self._loss(coef) for coef in self._ends())

    def error(self, coef: np.ndarray) -> float:
        missed = (self._loss(coef) - self._least) / max(self._constant - self._least, 1e-12)
        return float(np.clip(np.nan_to_num(missed, nan=MOST_ERROR), 0, MOST_ERROR))

    def _loss(self, coef: np.ndarray) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            u = self._X @ coef
            if not self._family:
                return float(np.mean((self._y - u) ** 2))
            if self._family == "logistic":
                return float(np.mean(np.logaddexp(0, u) - self._y * u))
            return float(np.mean(np.exp(u) - self._y * u))

    def _ends(self) -> Iterator[np.ndarray]:
        """Yield the coefficients without privacy, and those of the constant alone."""
        # Takes as long to load as all that other kinds of problems need.
        from sklearn.linear_model import LogisticRegression, PoissonRegressor

        X, y, mean = self._X, self._y, self._y.mean()
        constant = np.zeros(X.shape[1])
        if not self._family:
            yield np.linalg.lstsq(X, y, rcond=None)[0]
            constant[-1] = mean
        elif self._family == "logistic":
            yield LogisticRegression(C=1e5, fit_intercept=False, max_iter=2000).fit(X, y).coef_[0]
            constant[-1] = np.log(mean / (1 - mean))
        else:
            yield PoissonRegressor(alpha=1e-8, fit_intercept=False, max_iter=2000).fit(X, y).coef_
            constant[-1] = np.log(mean)
        yield constant


def measure_missed(traits: Traits, draw: Draw, answer: dpalgos.Result) -> Measured:
    """Return the errors on the scale of a draw, which is its judge."""
    return {MISSED: np.array([draw.judge.error(coef) for coef in draw.columns(answer.estimate).T])}


EXPLAINED = Measure(measure=measure_missed, metric=lambda traits: MISSED, layout="league_page")
