"""The baseline table of a paper ("Table 1"), from released sums by group.

For each group of n persons, sums are released: of 1, and of an indicator of each level. A number in public
units adds the sums of z and √3 (z² − 1/2). Each sum has independent noise of one standard deviation σ.
The sum of 1 estimates n with variance σ². The indicators of a category of L levels add up to n, with variance
Lσ². These estimates are averaged, with weights in inverse proportion to their variances.

The squared standard errors count sampling and noise. v is the variance of the noise of n, and s the standard
deviation.

    share p of a level    p (1 − p)/n + (σ² + p² v − 2 p v/L)/n²
    mean of z             s²/n + (σ² + z̄² v)/n²
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpalgos.accounting.events import Event
from dpalgos.coefficients import frame_of
from dpalgos.intervals.half_widths import normal_quantile
from dpalgos.typing import FloatArray

_VISIBLE = 5.0  # a group must have so many standard deviations of the noise of its size


@dataclass(frozen=True)
class Variable:
    """A variable of the table: a category with levels, or a number with public bounds."""

    name: str
    levels: tuple[Any, ...]
    lower: float = 0.0
    upper: float = 1.0

    @property
    def parts(self) -> tuple[Any, ...]:
        """The names of its sums."""
        return self.levels or ("value", "square")

    @property
    def unit(self) -> tuple[float, float]:
        """The center and the scale that bring the bounds to −1 and 1."""
        return (self.lower + self.upper) / 2, (self.upper - self.lower) / 2

    def numbers(self, values: Any) -> FloatArray:
        """Return the numbers of each person that are summed, (n, parts)."""
        if self.levels:
            return np.stack([np.asarray(values) == each for each in self.levels], axis=1).astype(float)
        center, scale = self.unit
        z = (np.asarray(values, dtype=float) - center) / scale
        return np.stack([z, np.sqrt(3) * (z**2 - 0.5)], axis=1)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class BaselineTable:
    """A released baseline table.

    Attributes
    ----------
    sums : (G, k) array
        Released sums by group.
    noise_std : float
        Standard deviation of the noise of each.
    variables : tuple of Variable
    groups : tuple
        The public levels.
    level : float or None
        Confidence level of the limits of means and shares; None for none.
    promise : str
        The guarantee in one sentence.
    events : tuple of Event
    certified_epsilon : float
    """

    sums: FloatArray
    noise_std: float
    variables: tuple[Variable, ...]
    groups: tuple[Any, ...]
    level: float | None = None
    promise: str = ""
    events: tuple[Event, ...] = ()
    certified_epsilon: float = field(default=np.nan)

    def frame(self) -> Any:
        """Return all numbers, a row for each variable or level and group.

        Returns
        -------
        DataFrame
            Columns variable, level, group, estimate, n, sd, ci_low and ci_high. An estimate is a mean, a
            share, or the size of the group. Numbers are NaN where a group is too small.
        """
        return frame_of([row for k in range(len(self.groups)) for row in self._rows(k)])

    def rows(self) -> list[dict[str, Any]]:
        """Return sizes, means and shares with their limits, if any, as rows of plain data."""
        names = row_names(self.variables, self.groups)
        return [
            {
                "name": name,
                "estimate": row["estimate"],
                "lower": None if np.isnan(row["ci_low"]) else row["ci_low"],
                "upper": None if np.isnan(row["ci_low"]) else row["ci_high"],
            }
            for name, row in zip(names, self.frame().to_dict("records"), strict=True)
            if row["estimate"] == row["estimate"]
        ]

    def _rows(self, k: int) -> Iterator[dict[str, Any]]:
        columns, sigma = iter(self.sums[k, 1:]), self.noise_std
        sums = [np.array([next(columns) for _ in each.parts]) for each in self.variables]
        weights = [1.0, *(1 / len(each.levels) for each in self.variables if each.levels)]
        totals = [
            self.sums[k, 0],
            *(own.sum() for own, v in zip(sums, self.variables, strict=True) if v.levels),
        ]
        n, v = float(np.average(totals, weights=weights)), sigma**2 / sum(weights)
        size, n = n, n if n > _VISIBLE * np.sqrt(v) else np.nan
        row = {"variable": "n", "level": "", "group": self.groups[k]}
        yield self._row(row, max(size, 0.0), np.sqrt(v), (0.0, np.inf), max(size, 0.0))
        for each, own in zip(self.variables, sums, strict=True):
            for level, count in zip(each.levels, own, strict=False):
                p = float(np.clip(count / n, 0, 1))
                noise = sigma**2 + p**2 * v - 2 * p * v / len(each.levels)
                std = np.sqrt(p * (1 - p) / n + noise / n**2)
                row = {"variable": each.name, "level": level, "group": self.groups[k]}
                yield self._row(row, p, std, (0.0, 1.0), p * n)
            if not each.levels:
                (center, scale), z = each.unit, float(np.clip(own[0] / n, -1, 1))
                variance = max(own[1] / (np.sqrt(3) * n) + 0.5 - z**2, 0.0) if n == n else np.nan
                std = scale * np.sqrt(variance / n + (sigma**2 + z**2 * v) / n**2)
                row = {"variable": each.name, "level": "", "group": self.groups[k]}
                bounds, sd = (each.lower, each.upper), scale * np.sqrt(variance)
                yield self._row(row, center + scale * z, std, bounds, np.nan, sd)

    def _row(
        self,
        row: dict[str, Any],
        value: float,
        std: float,
        bounds: tuple[float, float],
        n: float,
        sd: float = np.nan,
    ) -> dict[str, Any]:
        half = np.nan if self.level is None else normal_quantile(self.level) * std
        low, high = (float(np.clip(each, *bounds)) for each in (value - half, value + half))
        return {**row, "estimate": value, "n": n, "sd": sd, "ci_low": low, "ci_high": high}

    def __repr__(self) -> str:
        text = self.frame().to_string(index=False, float_format="{:.4g}".format, na_rep="")
        return "\n".join(filter(None, [text, self.promise]))


def row_names(variables: Sequence[Variable], groups: Sequence[Any]) -> list[str]:
    """Return the names of the rows of a baseline table, group by group."""
    names = ["n"]
    for each in variables:
        names += [f"{each.name}={level}" for level in each.levels] if each.levels else [each.name]
    return [f"{name}, {group}" for group in groups for name in names]
