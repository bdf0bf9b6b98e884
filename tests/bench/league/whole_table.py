"""All rows of a table in every repetition, and the share of what they can explain that an estimate misses.

    (mean loss − least mean loss) / (mean loss of the constant alone − least mean loss)

0 for the non-private estimate, 1 for the intercept alone. The loss is the squared error or minus the
log-likelihood, on all rows, which are what is protected. For means it is their root mean squared distance
from the means of the rows, each in standard deviations of its column. All errors are at most 100.

Estimators know the table's public bounds. The file is a plugin: ``dpcost run`` finds it by ``--with``.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

import dpalgos
from data.collections.league import GROUPS
from data.prepare.table_design import PreparedTable, Units, public_units
from tasks.cells import Cell, Replicates
from tasks.problems.problem import ALL, Draw, Kind, Measure, Measured, Traits, fit_cell
from tasks.problems.registered_table import RegisteredTable

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


def fit_within(table: Mapping[str, Any], draw: Draw, cell: Cell, replicates: Replicates) -> dpalgos.Result:
    """Return a cell's estimate; the table's bounds take the place of the study's keywords of that name."""
    bounds: dict[str, Any] = {name: tuple(table[name].tolist()) for name in ("lower", "upper")}
    if table["family"] == "counts":
        bounds["response_bound"] = table["y_upper"]
    params = {name: bounds.get(name, value) for name, value in cell.params.items()}
    return fit_cell(draw, replace(cell, params=params), replicates)


class WholeTable(RegisteredTable):
    """All rows of a table, which are what is protected: a regression, or without a response their means."""

    batch: ClassVar[int] = ALL

    units: Units = "public"

    @property
    def traits(self) -> Traits:
        measured = (
            "In every repetition all rows are used, with new noise. The error of a regression is the share "
            "of the explainable loss that it misses: 0 for the non-private estimate, 1 for the intercept "
            "alone. The error of means is their root mean squared distance from the means of the rows, in "
            "standard deviations of the columns. An error is at most 100."
        )
        return replace(super().traits, measured=measured, panel_word="table")

    def check_data(self, n: int) -> None:
        super().check_data(n)
        if n != self.about.n_rows:
            raise ValueError(f"grid.n must be all {self.about.n_rows:,} rows of a table, got {n}; write 'n'")

    def draws(self, replicates: Replicates, prepared: PreparedTable) -> Iterator[Draw]:
        X, y = prepared.X, prepared.y
        yield Draw(
            sample=dpalgos.Sample(X, y, n_replicates=replicates.count),
            first=replicates.first,
            judge=missed_of_means(X) if y is None else missed_of_regression(X, y, self.family),
            fit=partial(fit_within, self.public_table(X, y)),
        )

    def public_table(self, X: np.ndarray, y: np.ndarray | None) -> dict[str, Any]:
        """Return rows without a constant, their bounds and the family: for other libraries, too."""
        columns = self.columns()
        centers, scales = public_units(self.about, columns)
        lower, upper = (
            (np.array([getattr(column, end) for column in columns]) - centers) / scales
            for end in ("lower", "upper")
        )
        d = len(self.covariates)
        public = {"X": X[:, :d], "lower": lower[:d], "upper": upper[:d]}
        if y is None:
            return {**public, "y": np.zeros(len(X)), "y_lower": 0.0, "y_upper": 1.0, "family": "means"}
        ends = (columns[-1].lower, columns[-1].upper) if self.family else (float(lower[-1]), float(upper[-1]))
        return {**public, "y": y, "y_lower": ends[0], "y_upper": ends[1], "family": GROUPS[self.family]}


KINDS = {"whole_table": Kind(WholeTable, Measure(measure=measure_missed, metric=lambda traits: MISSED))}
