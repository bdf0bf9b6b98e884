"""The coefficients of an estimate as a table: estimates, standard errors and p-values from its intervals.

With an interval, the estimate is its center. The standard error is its half-width over the normal quantile of
the level. Estimate, standard error, interval, statistic and p-value follow from each other. They account for
sampling error, privacy noise, a margin, and bounds on a bias. The estimate itself may be shrunk: its expected
error is smaller, and its predictions are better. A term without an interval shows the estimate; its sign is
unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import scipy

from dpalgos.errors import InputError, shown
from dpalgos.interval import normal_quantile
from dpalgos.typing import FloatArray

HAZARD = "hazard"  # of times to an event, which are fitted as counts
BASELINE = "baseline slope", "baseline curve"  # terms of its logarithm over time, which have no ratio
# family → the meaning of exp(coefficient)
RATIOS = {"logistic": "odds_ratio", "poisson": "rate_ratio", HAZARD: "hazard_ratio"}
SIGN_NOT_KNOWN = "sign not known"
NO_INTERVAL = "no interval"
COLUMNS = ("term", "estimate", "std_error", "ci_low", "ci_high", "statistic", "p_value", "note")
SEEDED = "Not private: seeded noise"
CENTERED = "Estimates are the centers of their intervals; the shrunken estimate predicts better"
SHRUNK = "Estimates without an interval are shrunk towards zero, which improves prediction"


@dataclass(frozen=True, eq=False, kw_only=True)
class CoefficientTable:
    """Coefficients, or linear combinations of them, with their intervals and tests.

    Attributes have the names of statsmodels' tests of linear hypotheses.

    Parameters
    ----------
    terms : sequence of str
        Names of the coefficients, or the hypotheses as they were written.
    estimate : (d,) array
        The estimate, which may be shrunk.
    interval : (2, d) array or None
        Lower and upper confidence limits, NaN without a valid interval.
    level : float or None
        Confidence level of the intervals.
    family : str
        Family of a generalized linear model; ``"logistic"`` and ``"poisson"`` have ratios.
    intercept : str
        The name of the intercept, which has no ratio; ``""`` without one.
    null : float or (d,) array
        The values that are tested.
    note : str
        The reasons for missing intervals.
    """

    terms: Sequence[str]
    estimate: FloatArray
    interval: FloatArray | None = None
    level: float | None = None
    family: str = ""
    intercept: str = ""
    null: FloatArray | float = 0.0
    note: str = ""

    def __post_init__(self) -> None:
        if np.shape(self.estimate) != (len(self.terms),):
            raise InputError(
                f"terms must name each of {np.size(self.estimate)} coefficients, got {len(self.terms)}"
            )

    @property
    def limits(self) -> FloatArray:
        """Lower and upper confidence limits, (2, d); NaN if there is no interval."""
        missing = self.interval is None or self.level is None
        return np.full((2, len(self.terms)), np.nan) if missing else np.array(self.interval, dtype=float)

    @property
    def effect(self) -> FloatArray:
        """The centers of the intervals; the estimate if there is no interval."""
        middle = self.limits.mean(axis=0)
        return np.where(np.isnan(middle), self.estimate, middle)

    @property
    def sd(self) -> FloatArray:
        """Standard errors: half-widths over the normal quantile of their level; NaN without an interval."""
        low, high = self.limits
        return np.asarray((high - low) / (2 * normal_quantile(self.level or 0.5)))

    @property
    def statistic(self) -> FloatArray:
        """Effects, minus the values that are tested, over standard errors."""
        values = np.full(len(self.terms), np.nan)
        np.divide(self.effect - self.null, self.sd, out=values, where=self.sd > 0)
        return values

    tvalue = statistic

    @property
    def pvalue(self) -> FloatArray:
        """Two-sided p-values, by the normal distribution."""
        return np.asarray(2 * scipy.special.ndtr(-abs(self.statistic)))

    @property
    def notes(self) -> list[str]:
        low, high = self.limits
        return [
            NO_INTERVAL if np.isnan(a + b) else "" if a > 0 or b < 0 else SIGN_NOT_KNOWN
            for a, b in zip(low, high, strict=True)
        ]

    def columns(self) -> dict[str, Any]:
        """Return the columns of the table; some families add the ratio and its limits."""
        low, high = self.limits
        numbers = (self.effect, self.sd, low, high, self.statistic, self.pvalue)
        table: dict[str, Any] = dict(zip(COLUMNS, (list(self.terms), *numbers, self.notes), strict=True))
        if self.family in RATIOS:
            name = RATIOS[self.family]
            others = {self.intercept, *(BASELINE if self.family == HAZARD else ())}
            is_effect = np.array([term not in others for term in self.terms])
            for column, value in ((name, self.effect), (f"{name}_low", low), (f"{name}_high", high)):
                table[column] = np.where(is_effect, np.exp(np.minimum(value, 700.0)), np.nan)
        return table

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary per term, with plain numbers and text; None for a missing number."""
        columns = self.columns()
        return [{name: _plain(values[i]) for name, values in columns.items()} for i in range(len(self.terms))]

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame, a row per term."""
        return frame_of(self.columns())

    def conf_int(self) -> Any:
        """Return the confidence limits as a data frame (d, 2) by term; NaN if there is no interval."""
        frame = self.to_frame().set_index("term")[["ci_low", "ci_high"]]
        return frame.set_axis([0, 1], axis=1)

    def summary_frame(self) -> Any:
        """Return a data frame with a row per term or hypothesis, and the columns of statsmodels."""
        columns = ("coef", "std err", "z", "P>|z|", "Conf. Int. Low", "Conf. Int. Upp.")
        values = (self.effect, self.sd, self.statistic, self.pvalue, *self.limits)
        return frame_of({"": self.terms, **dict(zip(columns, values, strict=True))}).set_index("")

    def __str__(self) -> str:
        return "\n".join(filter(None, [self.summary_frame().to_string(), self.note]))


class ShowsCoefficients:
    """A mixin that gives coefficients the attribute names of statsmodels."""

    def coefficients(self, names: Sequence[str] | None = None) -> CoefficientTable:
        """Return the coefficients with their intervals."""
        raise NotImplementedError

    @property
    def params(self) -> Any:
        """The coefficients by term, a series: the centers of the intervals if there are any."""
        return self._series("params", "effect")

    @property
    def bse(self) -> Any:
        """The standard errors by term, a series."""
        return self._series("bse", "sd")

    @property
    def tvalues(self) -> Any:
        """The estimates over their standard errors by term, a series."""
        return self._series("tvalues", "statistic")

    @property
    def pvalues(self) -> Any:
        """The p-values by term, a series."""
        return self._series("pvalues", "pvalue")

    def table(self, names: Sequence[str] | None = None) -> Any:
        """Return the coefficients as a data frame: a row per term.

        Columns are term, estimate, std_error, ci_low, ci_high, statistic, p_value and note. Logistic and
        Poisson regressions add the ratio with its limits. Standard errors account for sampling error and
        privacy noise.

        Parameters
        ----------
        names : sequence of str, optional
            Names of the coefficients; by default ``x0``, ``x1``, …
        """
        return self.coefficients(names).to_frame()

    def conf_int(self) -> Any:
        """Return the confidence limits as a data frame (d, 2) by term; NaN if there is no interval."""
        return self.coefficients().conf_int()

    def _series(self, name: str, values: str) -> Any:
        table = self.coefficients()
        return series_of(table.terms, getattr(table, values), name)


@dataclass(frozen=True, eq=False, kw_only=True)
class Summary:
    """Coefficients with their facts and their guarantee: text when printed, HTML in notebooks."""

    title: str
    coefficients: CoefficientTable
    remarks: Sequence[str]

    def to_frame(self) -> Any:
        """Return the coefficients as a pandas data frame, a row per term."""
        return self.coefficients.to_frame()

    def as_text(self) -> str:
        table = self._frame.to_string(na_rep="NaN", float_format="{:.4g}".format, index_names=False)
        rule = "-" * max(map(len, table.splitlines()))
        return "\n".join([self.title, rule, table, rule, *self.remarks])

    def _repr_html_(self) -> str:
        table = self._frame.to_html(na_rep="NaN", float_format="{:.4g}".format, index_names=False, border=0)
        remarks = "<br>".join(map(escape, self.remarks))
        return f"<p>{escape(self.title)}</p>{table}<p>{remarks}</p>"

    def __str__(self) -> str:
        return self.as_text()

    @property
    def _frame(self) -> Any:
        """A frame with a row per term; without intervals it has estimates only."""
        frame = self.to_frame().set_index("term")
        return frame if self.coefficients.interval is not None else frame[["estimate"]]


def coefficient_names(names: Sequence[str] | None, d: int) -> list[str]:
    """Return names of d coefficients, by default x0, x1, …"""
    if names is None:
        return [f"x{j}" for j in range(d)]
    if isinstance(names, str) or not hasattr(names, "__len__"):
        raise InputError(f"names must be a list of names, got {shown(names)}")
    if len(names) != d:
        raise InputError(f"names must be one for each of {d} coefficients, got {len(names)}")
    return list(map(str, names))


def guarantee_of(
    unit: str,
    epsilon: float,
    delta: float,
    level: float | None,
    target: str = "",
    family: str = "",
    *,
    seeded: bool = False,
) -> str:
    """Return a sentence on the guarantee, and on what the intervals account for and cover."""
    if not epsilon > 0:
        return "Not private."
    accuracy = (
        "" if level is None else f"; {100 * level:g}% intervals account for sampling error and privacy noise"
    )
    start = f"{SEEDED}. Without a seed: differentially" if seeded else "Differentially"
    guarantee = f"{start} private for each {unit} at ε = {epsilon:g}, δ = {delta:g}{accuracy}."
    return " ".join([guarantee, *([covered(target, family)] if level is not None and target else [])])


def covered(target: str, family: str = "") -> str:
    """Return a sentence on the coefficients that intervals cover, by the keyword ``interval_target``."""
    plain = "maximum likelihood" if family in RATIOS else "least squares"
    if target != "robust":
        return f"Intervals cover the coefficients of {plain}."
    where = "the model holds" if family in RATIOS else "errors are symmetric"
    return (
        "Intervals cover the coefficients of robust regression, which downweights outlying rows. "
        f"If {where}, these are the {plain} coefficients."
    )


def frame_of(content: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Any:
    """Return columns, or rows, as a pandas data frame."""
    import pandas as pd  # imported only if a frame is needed

    return pd.DataFrame(content)


def series_of(terms: Sequence[str], values: FloatArray, name: str) -> Any:
    """Return a number per term as a pandas series."""
    import pandas as pd  # imported only if a series is needed

    return pd.Series(values, index=list(terms), name=name)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value
    return None if np.isnan(value) else float(value)
