"""The baseline table of a paper ("Table 1"), from released sums by group.

:mod:`dpalgos.central.group_sums` releases them. Each group has its size. A category has the number of
persons in each level. A number z in [−1, 1] has its sum, and the number of persons in 128 ordered cells. σ
is the noise standard deviation of a sum. F_k is the number of persons up to cell k. Its noise has standard
deviation σ_k ≤ 1.7σ.

Size n. Three sums estimate n: the size, the sum over the levels of a category (variance Lσ²), and the last
F of a number. If the variable may lack cells, the number of missing cells is added. They are averaged, with
weights in inverse proportion to the variances. v is the variance of the average.

Missing cells. m persons of a group have no value of a variable. Their share is m/n. All other statistics are
of the n − m persons with a value. For these, n and v below are n − m and its variance. Missing cells count as
one of the L levels of a category.

Squared standard errors account for sampling and noise. s is the standard deviation of z.

    share p of a level        p (1 − p)/n + (σ² + p² v − 2 p v/L)/n²

    mean z̄                    s²/n + (σ² + z̄² v)/n²

    share p below a value     p (1 − p)/n + (max σ_k² + p² v)/n²

Quartiles. Least squares makes F monotone. A quartile is interpolated where F/n = p. Its confidence limits
are the edges of two cells. In one of them F/n is p − q·error, in the other p + q·error. q is the normal
quantile.

Standard deviation. s² = Σ_k (count of cell k) (middle of k − z̄)²/n, with the noise of the counts. Its
sampling variance is (fourth moment − s⁴)/n. The fourth moment is two standard deviations of its noise
higher than its estimate. A standard deviation is blank if its confidence limits differ by a factor of 1.5
or more. In a skewed column, few persons in far cells determine it, and noise covers them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from dpalgos.accounting.events import Event
from dpalgos.central.group_sums import MAY_LACK, MISSING, N_CELLS, cell_edges, cell_strategy
from dpalgos.coefficients import frame_of
from dpalgos.interval import normal_quantile
from dpalgos.typing import FloatArray

QUARTILES = {"lower quartile": 0.25, "median": 0.5, "upper quartile": 0.75}
_VISIBLE = 5.0  # a group is shown if its size exceeds so many standard deviations of its noise
_CLEAR, _FEW_OUTSIDE = 3.0, 1 / 8  # noise standard deviations; times √n persons with a value outside
_SD_RATIO = 1.5  # of the limits of a standard deviation that is shown
_HALF_CELL = 1 / (N_CELLS - 1)
_ROUNDING = 1e-6  # of a step between two possible values
_LARGEST = 1.0  # half-width of a mean that is shown, in standard deviations: that of four persons


@dataclass(frozen=True)
class Variable:
    """A variable of the table: a category with levels, or a number with public bounds; it may lack cells.

    If values are multiples of a public ``resolution``, such as 1, quartiles and their limits are, too.
    """

    name: str
    levels: tuple[Any, ...]
    lower: float = 0.0
    upper: float = 1.0
    may_lack: bool = False
    resolution: float = 0.0  # of which its values are multiples; 0 for any number

    @property
    def parts(self) -> tuple[Any, ...]:
        """The names of its sums; the last is of missing cells if it may lack some."""
        parts = self.levels or ("sum", *(f"cell {k}" for k in range(N_CELLS)), "outside")
        return (*parts, "missing") if self.may_lack else parts

    @property
    def code(self) -> int:
        """Its number of levels, in the estimator's keyword: a category's missing cells are one more."""
        return len(self.levels) + self.may_lack if self.levels else MAY_LACK * self.may_lack

    @property
    def weight_of_size(self) -> float:
        """1 / the variance of its estimate of a group's size, where the variance of a sum is 1."""
        if self.levels:
            return 1 / len(self.parts)
        return 1 / (float((cell_strategy()[-1] ** 2).sum()) + self.may_lack)

    @property
    def statistics(self) -> tuple[str, ...]:
        """The names of the statistics of a number."""
        return ("mean", "standard deviation", *QUARTILES)

    @property
    def unit(self) -> tuple[float, float]:
        """The center and the scale that bring the bounds to −1 and 1."""
        return (self.lower + self.upper) / 2, (self.upper - self.lower) / 2

    def possible(self, ends: FloatArray) -> FloatArray:
        """Return a quartile and its limits as values that the variable can have; limits move outwards."""
        if not self.resolution:
            return ends
        steps = ends / self.resolution
        rounded = np.array([np.rint(steps[0]), np.floor(steps[1] + _ROUNDING), np.ceil(steps[2] - _ROUNDING)])
        return np.asarray(np.clip(self.resolution * rounded, self.lower, self.upper))

    @property
    def cell_width(self) -> float:
        """The width of the cells of a number."""
        return (self.upper - self.lower) / (N_CELLS - 1)

    @property
    def is_share(self) -> bool:
        """Whether its mean is a share if all values are 0 or 1."""
        return not self.levels and (self.lower, self.upper) == (0.0, 1.0)

    def numbers(self, values: Any) -> FloatArray:
        """Return the code of the level of each person, from 1, or the number in public units, (n,).

        A missing value is any other value than a level, or NaN.
        """
        if self.levels:
            codes, other = list(range(1, len(self.levels) + 1)), len(self.parts) if self.may_lack else 0
            return np.select([np.asarray(values) == each for each in self.levels], codes, other).astype(float)
        center, scale = self.unit
        numbers = (np.asarray(values, dtype=float) - center) / scale
        return np.where(np.isnan(numbers), MISSING, numbers) if self.may_lack else numbers


class _Number:
    """A number of a group of n persons: its released sums, in public units."""

    def __init__(self, sums: FloatArray, n: float, size_variance: float, noise_std: float) -> None:
        self.n, self._size_variance, self._noise_std = n, size_variance, noise_std
        self._cells, self._mean = sums[1 : 1 + N_CELLS], float(np.clip(sums[0] / n, -1, 1))
        self.is_clipped = bool(sums[1 + N_CELLS] > max(_CLEAR * noise_std, _FEW_OUTSIDE * np.sqrt(n)))

    @cached_property
    def _variance(self) -> tuple[float, float]:
        """s², with the standard deviation of its noise."""
        return self._central_moment(2)

    def _central_moment(self, power: int) -> tuple[float, float]:
        """Return the mean of (z − z̄)^power by cells, with the standard deviation of its noise.

        A constant times (size − number of persons in cells), which is noise alone, is added. The constant
        minimizes the variance of the noise.
        """
        edges, sigma = cell_edges(), self._noise_std
        values = (np.append(-1.0, (edges[1:] + edges[:-1]) / 2) - self._mean) ** power
        noise, of_ones = (np.linalg.solve(cell_strategy().T, each) for each in (values, np.ones(N_CELLS)))
        of_size = self._size_variance / sigma**2
        constant = float(noise @ of_ones / (of_ones @ of_ones + of_size))
        moment = float(self._cells @ (values - constant)) / self.n + constant
        left = noise - constant * of_ones
        variance = left @ left + (constant - moment) ** 2 * of_size
        return moment, float(sigma * np.sqrt(variance) / self.n)

    def mean(self, quantile: float) -> tuple[float, float]:
        """Return the mean and its standard error; NaN if values are outside, or noise decides."""
        largest = 1 - self._mean**2  # variance of numbers in [−1, 1] with this mean
        value, std = self._variance
        spread = min(max(value, 0.0) + std, largest)
        noise = self._noise_std**2 + self._mean**2 * self._size_variance
        error = float(np.sqrt(spread / self.n + noise / self.n**2))
        largest = max(_LARGEST * float(np.sqrt(max(value, 0.0))), 2 * _HALF_CELL)
        return (np.nan, np.nan) if self.is_clipped or quantile * error > largest else (self._mean, error)

    def deviation(self, quantile: float) -> tuple[float, float, float]:
        """Return the standard deviation and its limits; NaN if they differ too much or values are outside."""
        if self.is_clipped:
            return np.nan, np.nan, np.nan
        value, noise = self._variance
        fourth, noise_of_fourth = self._central_moment(4)
        largest = max(value, noise) * (1 + abs(self._mean)) ** 2
        squares = min(fourth + 2 * noise_of_fourth, largest)
        sampling = np.sqrt(max(squares - value**2, 0.0) / self.n)
        half = quantile * float(np.hypot(noise, sampling))
        low = np.sqrt(max(value - half, 0.0)) - _HALF_CELL
        high = np.sqrt(max(value, 0.0) + half) + _HALF_CELL
        return (float(np.sqrt(value)), low, high) if low > 0 and high < _SD_RATIO * low else (np.nan,) * 3

    def quartile(self, p: float, quantile: float) -> tuple[float, float, float]:
        """Return a quantile and its limits."""
        edges, shares = cell_edges(), self._shares
        worst = self._noise_std**2 * float((cell_strategy()[-1] ** 2).sum())
        error = np.sqrt(p * (1 - p) / self.n + (worst + p**2 * self._size_variance) / self.n**2)
        low, high = (np.searchsorted(shares, each) for each in (p - quantile * error, p + quantile * error))
        rising = np.append(0.0, shares + 1e-12 * np.arange(N_CELLS))
        value = float(np.interp(p, rising, np.append(-1.0, edges)))
        lower, upper = float(edges[max(low - 1, 0)]), float(edges[min(high, N_CELLS - 1)])
        if self.is_clipped and (lower == -1 or upper == 1):
            return np.nan, np.nan, np.nan
        return float(np.clip(value, lower, upper)), lower, upper

    @cached_property
    def _shares(self) -> FloatArray:
        """The monotone shares of persons up to each cell, (K,)."""
        shares = np.clip(isotonic_regression(np.cumsum(self._cells)).x / self.n, 0, 1)
        shares[-1] = 1.0
        return np.asarray(shares)

    @property
    def is_of_ends(self) -> bool:
        """Whether no persons are visible strictly within the range."""
        inner = np.append(np.append(0.0, np.ones(N_CELLS - 2)), 0.0)
        through = np.linalg.solve(cell_strategy().T, inner)
        return bool(self._cells @ inner < 3 * self._noise_std * np.linalg.norm(through))


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
    n_persons : float
        Public number of persons.
    level : float
        Confidence level of limits.
    promise : str
        The guarantee in one sentence.
    events : tuple of Event
    certified_epsilon : float
    """

    sums: FloatArray
    noise_std: float
    variables: tuple[Variable, ...]
    groups: tuple[Any, ...]
    n_persons: float = np.nan
    level: float = 0.95
    promise: str = ""
    events: tuple[Event, ...] = ()
    certified_epsilon: float = field(default=np.nan)

    def frame(self) -> Any:
        """Return all numbers, a row for each statistic of a variable or level and group.

        Returns
        -------
        DataFrame
            Columns variable, level, group, statistic, estimate, n, ci_low and ci_high. The statistic is the
            size, a share of a level or of missing cells, a mean, a standard deviation, a median or a
            quartile. Except for missing cells, they are of persons with a value. ``n``
            is the number of persons in a group or level, or with a missing cell. Numbers are NaN where a
            group is too small. A mean is NaN if its half-width exceeds the standard deviation and a cell. A
            standard deviation is NaN if its limits differ by a factor of 1.5 or more. If values are outside
            the public bounds, both are NaN, as are quartiles at a bound. Quartiles and the standard
            deviation are NaN where all values are 0 or 1.
        """
        return frame_of([row for k in range(len(self.groups)) for row in self._rows(k)])

    def rows(self) -> list[dict[str, Any]]:
        """Return all estimates with their limits as rows of plain data."""
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

    @property
    def cautions(self) -> list[str]:
        """Warnings about variables with values outside their public bounds, one sentence each."""
        clipped_names: dict[str, None] = {}
        for k in range(len(self.groups)):
            size, v = self._size(k)
            for each, sums in zip(self.variables, self._sums(k), strict=True):
                if not each.levels and size > 0 and _Number(sums, size, v, self.noise_std).is_clipped:
                    clipped_names[each.name] = None
        return [
            f"Values of {name} are outside its public bounds. Where they are many, it has no mean and no "
            "standard deviation. Wider bounds would help."
            for name in clipped_names
        ]

    @property
    def outside(self) -> float:
        """The number of persons in no group; NaN if noise hides it."""
        sizes, variance = zip(*(self._size(k) for k in range(len(self.groups))), strict=True)
        left = self.n_persons - sum(sizes)
        return left if left > _VISIBLE * np.sqrt(sum(variance)) else np.nan

    def _sums(self, k: int) -> list[FloatArray]:
        """Return the sums of each variable in a group."""
        ends = np.cumsum([1, *(len(each.parts) for each in self.variables)])
        return np.split(self.sums[k], ends[:-1])[1:]

    @property
    def sizes(self) -> tuple[float, ...]:
        """The sizes of the groups."""
        return tuple(self._size(k)[0] for k in range(len(self.groups)))

    def _size(self, k: int) -> tuple[float, float]:
        """Return the size of a group, and the variance of its noise over that of one sum."""
        weights, totals = [1.0], [self.sums[k, 0]]
        for each, sums in zip(self.variables, self._sums(k), strict=True):
            weights.append(each.weight_of_size)
            totals.append(sums.sum() if each.levels else sums[1:].sum() - sums[1 + N_CELLS])
        return float(np.average(totals, weights=weights)), self.noise_std**2 / sum(weights)

    def _rows(self, k: int) -> Iterator[dict[str, Any]]:
        sigma, group = self.noise_std, self.groups[k]
        size, v = self._size(k)
        n = size if size > _VISIBLE * np.sqrt(v) else np.nan
        n_shown = max(n, 0.0)
        yield self._row("n", "", group, "size", n_shown, float(np.sqrt(v)), n=n_shown, bounds=(0.0, np.inf))
        for each, sums in zip(self.variables, self._sums(k), strict=True):
            shared = v * each.weight_of_size  # the covariance of the size and of one of its sums
            with_value, variance = n, v
            if each.may_lack:
                with_value, variance = n - float(sums[-1]), v + sigma**2 - 2 * shared
                with_value = with_value if with_value > _VISIBLE * np.sqrt(variance) else np.nan
            for level, count in zip(each.levels, sums, strict=False):
                share, std = self._share(count, with_value, variance, shared)
                n_at_level = share * with_value
                yield self._row(each.name, level, group, "share", share, std, n=n_at_level, bounds=(0.0, 1.0))
            if not each.levels:
                number = None if with_value != with_value else _Number(sums, with_value, variance, sigma)
                yield from self._of_number(each, group, number)
            if each.may_lack:
                share, std = self._share(sums[-1], n, v, shared)
                yield self._row(each.name, "", group, "missing", share, std, n=share * n, bounds=(0.0, 1.0))

    def _share(self, count: float, n: float, variance: float, covariance: float) -> tuple[float, float]:
        """Return count / n and its standard error.

        The noise of n has this variance, and this covariance with that of the count.
        """
        p = float(np.clip(count / n, 0, 1))
        noise = self.noise_std**2 + p**2 * variance - 2 * p * covariance
        return p, float(np.sqrt(p * (1 - p) / n + noise / n**2))

    def _of_number(self, variable: Variable, group: Any, number: _Number | None) -> Iterator[dict[str, Any]]:
        (center, scale), bounds = variable.unit, (variable.lower, variable.upper)
        quantile = normal_quantile(self.level)
        mean, std = (np.nan, np.nan) if number is None else number.mean(quantile)
        mean, std = center + scale * mean, scale * std
        is_share = number is not None and variable.is_share and number.is_of_ends
        n = mean * number.n if number and is_share else np.nan
        yield self._row(variable.name, "", group, "mean", mean, std, n=n, bounds=bounds)
        row = {"variable": variable.name, "level": "", "group": group}
        for statistic in variable.statistics[1:]:
            ends = np.full(3, np.nan)
            if number and not is_share and statistic in QUARTILES:
                quartile = np.array(number.quartile(QUARTILES[statistic], quantile))
                ends = variable.possible(center + scale * quartile)
            elif number and not is_share:
                ends = scale * np.array(number.deviation(quantile))
            value, low, high = ends.tolist()
            yield {
                **row,
                "statistic": statistic,
                "estimate": value,
                "n": np.nan,
                "ci_low": low,
                "ci_high": high,
            }

    def _row(
        self,
        variable: str,
        level: Any,
        group: Any,
        statistic: str,
        estimate: float,
        std: float,
        *,
        n: float,
        bounds: tuple[float, float],
    ) -> dict[str, Any]:
        half = normal_quantile(self.level) * std
        low, high = (float(np.clip(each, *bounds)) for each in (estimate - half, estimate + half))
        row = {"variable": variable, "level": level, "group": group, "statistic": statistic}
        return {**row, "estimate": estimate, "n": n, "ci_low": low, "ci_high": high}

    def __repr__(self) -> str:
        text = self.frame().to_string(index=False, float_format="{:.4g}".format, na_rep="")
        return "\n".join(filter(None, [text, self.promise]))


def row_names(variables: Sequence[Variable], groups: Sequence[Any]) -> list[str]:
    """Return the names of the rows of a baseline table, group by group."""
    names = ["n"]
    for each in variables:
        further = [f"{each.name}: {statistic}" for statistic in each.statistics[1:]]
        names += [f"{each.name}={level}" for level in each.levels] if each.levels else [each.name, *further]
        names += [f"{each.name}: missing"] if each.may_lack else []
    return [f"{name}, {group}" for group in groups for name in names]
