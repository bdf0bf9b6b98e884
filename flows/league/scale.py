"""The error of coefficients, and of means.

Of a regression it is the share of what it can explain that coefficients miss:

    (mean loss − least mean loss) / (mean loss of the constant alone − least mean loss)

0 for the answer without privacy, 1 for the constant alone; the loss is the squared error or minus the
log-likelihood, on all rows, which are what is protected. Of means it is their root mean squared distance from
the means of the rows, each in standard deviations of its column. All errors are at most 100.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from sklearn.linear_model import LogisticRegression, PoissonRegressor

from flows.league.tables import LeagueTable

MOST_ERROR = 100.0


class MeanScale:
    """The means of a table's columns and their standard deviations, in which errors are measured."""

    def __init__(self, table: LeagueTable) -> None:
        self._means, self._stds = table.X.mean(axis=0), table.X.std(axis=0)
        self.constant = self.error([0.0] * len(self._means))  # of the declared centers

    def error(self, means: Sequence[float]) -> float:
        """Return the root mean squared distance in standard deviations, at most 100; NaN becomes that."""
        if np.shape(means) != self._means.shape:
            return MOST_ERROR
        varies = self._stds > 0
        missed = (np.array(means) - self._means)[varies] / self._stds[varies]
        return float(np.clip(np.nan_to_num(np.sqrt(np.mean(missed**2)), nan=MOST_ERROR), 0, MOST_ERROR))


class RegressionScale:
    """The losses of a table's regression between which errors are measured."""

    constant = 1.0

    def __init__(self, table: LeagueTable) -> None:
        self._family, self._y = table.family, table.y
        self._X = np.column_stack([table.X, np.ones(len(table.X))])
        self._least, self._constant = (self._loss(coef) for coef in self._ends())

    def error(self, coef: Sequence[float]) -> float:
        """Return the share of what can be explained that coefficients miss, at most 100; NaN becomes that."""
        if np.shape(coef) != self._X.shape[1:]:
            return MOST_ERROR
        missed = (self._loss(np.array(coef)) - self._least) / max(self._constant - self._least, 1e-12)
        return float(np.clip(np.nan_to_num(missed, nan=MOST_ERROR), 0, MOST_ERROR))

    def _loss(self, coef: np.ndarray) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            u = self._X @ coef
            if self._family == "linear":
                return float(np.mean((self._y - u) ** 2))
            if self._family == "logistic":
                return float(np.mean(np.logaddexp(0, u) - self._y * u))
            return float(np.mean(np.exp(u) - self._y * u))

    def _ends(self) -> Iterator[np.ndarray]:
        """Yield the coefficients without privacy, and those of the constant alone."""
        X, y, mean = self._X, self._y, self._y.mean()
        constant = np.zeros(X.shape[1])
        if self._family == "linear":
            yield np.linalg.lstsq(X, y, rcond=None)[0]
            constant[-1] = mean
        elif self._family == "logistic":
            yield LogisticRegression(C=1e5, fit_intercept=False, max_iter=2000).fit(X, y).coef_[0]
            constant[-1] = np.log(mean / (1 - mean))
        else:
            yield PoissonRegressor(alpha=1e-8, fit_intercept=False, max_iter=2000).fit(X, y).coef_
            constant[-1] = np.log(mean)
        yield constant


def scale_of(table: LeagueTable) -> MeanScale | RegressionScale:
    """Return the scale of a table's errors."""
    return MeanScale(table) if table.family == "means" else RegressionScale(table)
