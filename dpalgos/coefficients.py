"""The coefficients of an answer as a table: standard errors, statistics and p-values from its intervals.

A standard error counts sampling and noise. An interval may be wider than it says, for bounds on a bias and a
margin; statistics and p-values are those of the interval. A term without an interval has none of these
numbers, and its sign is not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from dpalgos.errors import InputError
from dpalgos.typing import FloatArray

RATIOS = {"logistic": "odds_ratio", "poisson": "rate_ratio"}  # family → what exp(coefficient) is
SIGN_NOT_KNOWN = "sign not known"
NO_INTERVAL = "no interval"
COLUMNS = ("term", "estimate", "std_error", "ci_low", "ci_high", "statistic", "p_value", "note")


@dataclass(frozen=True, eq=False, kw_only=True)
class CoefficientTable:
    """Coefficients with their intervals.

    Parameters
    ----------
    terms : sequence of str
    estimate : (d,) array
    interval : (2, d) array or None
        Lower and upper ends, NaN where there is no honest interval.
    level : float or None
        Of the intervals.
    family : str
        Of a generalized linear model: ``"logistic"`` and ``"poisson"`` have ratios.
    known_std_error : (d,) array, optional
        Where half-widths have a margin; by default half-widths over the normal quantile of the level.
    intercept : str
        The term that is no effect, and has no ratio; ``""``: none.
    """

    terms: Sequence[str]
    estimate: FloatArray
    interval: FloatArray | None = None
    level: float | None = None
    family: str = ""
    intercept: str = ""
    known_std_error: FloatArray | None = None

    def __post_init__(self) -> None:
        if np.shape(self.estimate) != (len(self.terms),):
            raise InputError(
                f"terms must name each of {np.size(self.estimate)} coefficients, got {len(self.terms)}"
            )

    @property
    def ends(self) -> FloatArray:
        """Lower and upper ends, (2, d), NaN where there are none."""
        missing = self.interval is None or self.level is None
        return np.full((2, len(self.terms)), np.nan) if missing else np.array(self.interval, dtype=float)

    @property
    def std_error(self) -> FloatArray:
        """Of noise and sampling, NaN without an interval."""
        if self.known_std_error is not None and self.interval is not None:
            return np.asarray(np.where(np.isnan(self._wide_error), np.nan, self.known_std_error))
        return self._wide_error

    @property
    def _wide_error(self) -> FloatArray:
        """Half-widths over the normal quantile of their level, so that p-values and intervals agree."""
        low, high = self.ends
        quantile = scipy.special.ndtri((1 + (self.level or 0.5)) / 2)
        return np.asarray((high - low) / (2 * quantile))

    @property
    def statistic(self) -> FloatArray:
        """The interval's center over what makes its half-width."""
        low, high = self.ends
        values = np.full(len(low), np.nan)
        np.divide((low + high) / 2, self._wide_error, out=values, where=self._wide_error > 0)
        return values

    @property
    def p_value(self) -> FloatArray:
        """Of the hypothesis that the coefficient is zero, two-sided."""
        return np.asarray(2 * scipy.special.ndtr(-abs(self.statistic)))

    @property
    def notes(self) -> list[str]:
        low, high = self.ends
        return [
            NO_INTERVAL if np.isnan(a + b) else "" if a > 0 or b < 0 else SIGN_NOT_KNOWN
            for a, b in zip(low, high, strict=True)
        ]

    def columns(self) -> dict[str, Any]:
        """Return the columns of the table, and of a family with ratios also the ratio and its ends."""
        low, high = self.ends
        numbers = (self.estimate, self.std_error, low, high, self.statistic, self.p_value)
        found: dict[str, Any] = dict(zip(COLUMNS, (list(self.terms), *numbers, self.notes), strict=True))
        if self.family in RATIOS:
            name = RATIOS[self.family]
            is_effect = np.array([term != self.intercept for term in self.terms])
            for column, value in ((name, self.estimate), (f"{name}_low", low), (f"{name}_high", high)):
                found[column] = np.where(is_effect, np.exp(np.minimum(value, 700.0)), np.nan)
        return found

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary per term, of plain numbers and text; None where there is no number."""
        columns = self.columns()
        return [{name: _plain(values[i]) for name, values in columns.items()} for i in range(len(self.terms))]

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame, a row per term."""
        return frame_of(self.columns())


def coefficient_names(names: Sequence[str] | None, d: int) -> list[str]:
    """Return names of d coefficients: the given ones, or x0, x1, …"""
    if names is None:
        return [f"x{j}" for j in range(d)]
    if len(names) != d:
        raise InputError(f"names must be one for each of {d} coefficients, got {len(names)}")
    return list(map(str, names))


def promise(unit: str, epsilon: float, delta: float, level: float | None) -> str:
    """Say in a sentence what was protected, at which ε, and what the intervals count."""
    if not epsilon > 0:
        return "Not private."
    ends = "" if level is None else f"; {level:.0%} intervals count sampling and noise"
    return f"Differentially private for each {unit} at ε = {epsilon:g}, δ = {delta:g}{ends}."


def frame_of(content: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Any:
    """Return columns, or rows, as a pandas data frame."""
    import pandas as pd  # only for those who ask for a frame

    return pd.DataFrame(content)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value
    return None if np.isnan(value) else float(value)
