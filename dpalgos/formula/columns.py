"""Declared columns of a table for formulas, and synthetic rows of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from math import inf
from typing import Any

import numpy as np
import scipy

from dpalgos.errors import InputError, shown
from dpalgos.formula.allowed import read_formula
from dpalgos.release.checks import LARGEST_BOUND, SMALLEST_BOUND, check_positive, is_number, unmasked
from dpalgos.spelling import (
    as_levels,
    as_spelled,
    check_by_column,
    check_levels,
    check_look_different,
    composed,
)
from dpalgos.typing import FloatArray

OF_ENDS = 4  # quasi-random rows per row whose numbers are at a bound
_QUANTILES = 4096
_NO_NUMBERS = (str, bytes, np.timedelta64)  # which NumPy would convert: 1_0 to 10, a day to 1 or 86,400
DECLARATIONS = "bounds", "levels", "center", "scale", "impute"  # keywords of `declared_columns`


@dataclass(frozen=True)
class NumberColumn:
    """A declared numeric column: its public bounds, and its public units if they are stated.

    A column of times to an event may have ``periods``, its public cut points, and a ``resolution``, of which
    its values are multiples. A public constant, ``impute``, replaces missing cells. If the column
    ``may_lack`` cells, they stay missing, and a table counts them.
    """

    lower: float
    upper: float
    center: float | None = None
    scale: float | None = None
    periods: tuple[float, ...] = ()
    resolution: float = 0.0
    impute: float | None = None
    may_lack: bool = False

    def __post_init__(self) -> None:
        unit_of_bounds(self.lower, self.upper, self.center, self.scale)  # refuses extreme ones

    @property
    def unit(self) -> tuple[float, float]:
        """Center and scale: by default the midpoint and a quarter of the range."""
        return unit_of_bounds(self.lower, self.upper, self.center, self.scale)

    def values(self, u: FloatArray) -> FloatArray:
        """Return the quantiles at u (n,) of the beta distribution with this center and scale."""
        (center, scale), width = self.unit, self.upper - self.lower
        least = min(scale / width, 0.25)
        mean = min(max((center - self.lower) / width, least), 1 - least)
        total = max(mean * (1 - mean) * (width / scale) ** 2 - 1, 0.1)
        quantiles = _quantiles(mean * total, (1 - mean) * total)
        return np.asarray(self.lower + width * quantiles[(u * len(quantiles)).astype(int)])


@cache
def _quantiles(a: float, b: float) -> FloatArray:
    """Return quantiles of a beta distribution."""
    return np.asarray(scipy.special.betaincinv(a, b, (np.arange(_QUANTILES) + 0.5) / _QUANTILES))


@dataclass(frozen=True)
class CategoryColumn:
    """A declared categorical column; the first level is the reference.

    ``impute`` and ``may_lack`` are as in :class:`NumberColumn`.
    """

    levels: tuple[Any, ...]
    impute: Any = None
    may_lack: bool = False

    def values(self, u: FloatArray) -> Any:
        """Return the levels at u (n,), with equal frequencies."""
        codes = np.minimum((u * len(self.levels)).astype(int), len(self.levels) - 1)
        return np.array([*self.levels, None], dtype=object)[codes]


def how_to_declare(name: str, levels: Sequence[Any]) -> str:
    """Return how the levels of a column are declared: in Python, and in a study file."""
    texts = ", ".join(f'"{each}"' for each in levels)
    return f"levels={{{name!r}: {list(levels)}}} in Python, categories = [{texts}] in a study file"


def checked_periods(periods: Any) -> tuple[float, ...]:
    """Return public cut points as numbers; refuse others."""
    numbers = np.asarray(periods, dtype=object)
    try:
        cuts = np.asarray(numbers, dtype=float)
    except (TypeError, ValueError):
        cuts = np.zeros(0)
    if (
        cuts.ndim != 1
        or not 2 <= len(cuts) <= 201
        or not np.isfinite(cuts).all()
        or (np.diff(cuts) <= 0).any()
    ):
        raise InputError(
            f"periods must be from 2 to 201 increasing cut points such as [0, 1, 2, 5], got {shown(periods)}"
        )
    return tuple(cuts.tolist())


Declared = Mapping[str, NumberColumn | CategoryColumn]
_LACKING = {NumberColumn: np.nan, CategoryColumn: None}  # a missing cell of a column that may lack some


def plain_columns(declared: Declared) -> dict[str, Any]:
    """Return declared columns as plain data; :func:`declared_of` reads it."""
    return {
        name: {
            key: value
            for key, value in asdict(each).items()
            if value != () and (key not in ("resolution", "may_lack") or value)
            if key != "impute" or value is not None
        }
        for name, each in declared.items()
    }


def declared_of(plain: Mapping[str, Any]) -> dict[str, NumberColumn | CategoryColumn]:
    """Return declared columns from plain data."""
    return {
        name: CategoryColumn(**{**each, "levels": tuple(each["levels"])})
        if "levels" in each
        else NumberColumn(**{**each, "periods": tuple(each.get("periods", ()))})
        for name, each in plain.items()
    }


def declared_columns(
    family: str,
    formula: str,
    *,
    bounds: Mapping[str, Sequence[float]] | None = None,
    levels: Mapping[str, Sequence[Any]] | None = None,
    center: Mapping[str, float] | None = None,
    scale: Mapping[str, float] | None = None,
    impute: Mapping[str, Any] | None = None,
) -> dict[str, NumberColumn | CategoryColumn]:
    """Return public declarations by column; refuse invalid bounds, and columns declared twice."""
    bounds, levels = check_by_column("bounds", bounds), check_by_column("levels", levels)
    center, scale = check_by_column("center", center), check_by_column("scale", scale)
    if family == "logistic":  # an event is 0 or 1 if its column is not declared
        event = read_formula(formula, [*bounds, *levels]).left
        bounds = {**{name: (0.0, 1.0) for name in event if name not in levels}, **bounds}
    center, scale = as_spelled(center, bounds), as_spelled(scale, bounds)
    check_look_different("columns in bounds and levels", [*bounds, *levels])
    columns: dict[str, NumberColumn | CategoryColumn] = {}
    for name, pair in bounds.items():
        numbers = list(pair) if isinstance(pair, tuple | list | np.ndarray) else []
        if not all(map(is_number, numbers)) or np.shape(numbers) != (2,):
            numbers = [0, 0]
        lower, upper = map(float, numbers)
        if not -np.inf < lower < upper < np.inf:
            raise InputError(
                f"bounds must be like {{'age': (lower, upper)}} with lower < upper, got {{{name!r}: "
                f"{shown(pair)}}}"
            )
        middle, unit = center.get(name), scale.get(name)
        if middle is not None and not (is_number(middle) and lower <= middle <= upper):
            raise InputError(f"center[{name!r}] must be a number within the bounds, got {shown(middle)}")
        if unit is not None:
            check_positive(f"scale[{name!r}]", unit)
        columns[name] = NumberColumn(lower, upper, middle, unit)
    for name, listed in levels.items():
        if name in columns:
            raise InputError(f"column {name!r} has bounds and levels; keep one of them")
        columns[name] = CategoryColumn(check_levels(name, listed))
    if unknown := [name for name in {**center, **scale} if name not in bounds]:
        raise InputError(f"center and scale go with bounds, got {unknown[0]!r} without; add its bounds")
    return _imputed(columns, impute)


def _imputed(
    columns: dict[str, NumberColumn | CategoryColumn], impute: Any
) -> dict[str, NumberColumn | CategoryColumn]:
    """Return columns with their public constants for missing cells; refuse others than declared values."""
    imputed = dict(columns)
    for name, constant in as_spelled(check_by_column("impute", impute), columns).items():
        if (column := columns.get(name)) is None:
            raise InputError(f"impute goes with bounds or levels, got {name!r} without; add one of them")
        if isinstance(column, NumberColumn):
            if not (is_number(constant) and column.lower <= constant <= column.upper):
                raise InputError(
                    f"impute[{name!r}] must be a number within the bounds, got {shown(constant)}"
                )
            imputed[name] = replace(column, impute=float(constant))
        else:
            level = as_levels([constant], column.levels)
            if level is None:
                raise InputError(f"impute[{name!r}] must be one of the levels, got {shown(constant)}")
            imputed[name] = replace(column, impute=level[0])
    return imputed


def public_rows(declared: Declared, n: int) -> dict[str, Any]:
    """Return synthetic rows: n quasi-random ones, then rows whose numbers are all at a bound."""
    draws = scipy.stats.qmc.Sobol(len(declared), scramble=False)
    u = np.concatenate([draws.random(n), draws.random(n // OF_ENDS)]) + 0.5 / n
    u[n] = 1 - 0.5 / n  # all at the upper bounds
    rows: dict[str, Any] = {}
    for (name, each), of_column in zip(declared.items(), u.T, strict=True):
        rows[name] = each.values(np.minimum(of_column, 1 - 1e-9))
        if isinstance(each, NumberColumn):
            rows[name][n:] = np.where(of_column[n:] < 0.5, each.lower, each.upper)
    return rows


def column_of(frame: Any, name: str, where: str) -> Any:
    """Return a column of a frame; ``where`` says what names it."""
    if np.ndim(name):
        raise InputError(f"{where} must be the name of a column of frame, got {shown(name)}")
    keys = getattr(frame, "columns", None)
    names = frame.keys() if keys is None and hasattr(frame, "keys") else keys
    names = () if names is None else names
    alike = [each for each in names if isinstance(each, str) and composed(each) == composed(str(name))]
    check_look_different("columns of frame", alike)
    try:
        return frame[alike[0] if alike else name]
    except (KeyError, IndexError, TypeError, ValueError):
        raise InputError(f"frame must hold column {name!r}; correct {where}, or the column's name") from None


def declared_rows(frame: Any, columns: Declared, names: Iterable[str] | None = None) -> dict[str, Any]:
    """Return declared columns of a frame, or some of them; refuse missing columns.

    Numbers are clipped to their bounds, except times to an event, which are censored at the longest time.
    """
    return clipped(unclipped_rows(frame, columns, names), columns)


def clipped(rows: Mapping[str, Any], columns: Declared) -> dict[str, Any]:
    """Return rows with numbers clipped to the bounds of their columns, except times to an event."""
    return {
        name: np.clip(values, column.lower, column.upper)
        if isinstance(column := columns[name], NumberColumn) and not column.periods
        else values
        for name, values in rows.items()
    }


def unclipped_rows(frame: Any, columns: Declared, names: Iterable[str] | None = None) -> dict[str, Any]:
    """Return declared columns of a frame, or some of them, with public constants for missing cells."""
    series = [each for each in frame.values() if hasattr(each, "iloc")] if isinstance(frame, dict) else []
    if not all(each.index.equals(series[0].index) for each in series):
        raise InputError("columns of frame must have the same index, got others; pass a data frame")
    rows: dict[str, Any] = {}
    for name in columns if names is None else names:
        values = np.asarray(unmasked(f"column {name!r}", column_of(frame, name, "the formula")))
        if values.ndim == 0:
            raise InputError(
                f"frame must hold a list of values in column {name!r}, got one value; put it in [ ]"
            )
        if values.ndim != 1:
            raise InputError(f"frame must hold column {name!r} once; rename the others of this name")
        column = columns[name]
        if column.may_lack or column.impute is not None:
            is_missing = np.fromiter(map(_is_missing, values), dtype=bool, count=len(values))
            values = values.astype(object)
            values[is_missing] = column.impute if column.impute is not None else _LACKING[type(column)]
        if isinstance(column, CategoryColumn):
            rows[name] = _levels_of(name, values, column)
        else:
            rows[name] = _numbers_of(name, values, column)
    if len(set(map(len, rows.values()))) > 1:
        raise InputError("columns of frame must have the same length, got others; pass a data frame")
    return rows


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA is neither true nor false
        return True


def _levels_of(name: str, values: Any, column: CategoryColumn) -> Any:
    """Return values as the levels that they equal, and None for a missing one that is counted."""
    levels = as_levels(values, (*column.levels, None) if column.may_lack else column.levels)
    if levels is None:
        raise InputError(
            f"column {name!r} must hold its levels {shown(tuple(column.levels))} only; declare all levels, "
            f"or replace missing values by a public level, e.g. impute={{{name!r}: {column.levels[0]!r}}}"
        )
    return levels


def _numbers_of(name: str, values: Any, column: NumberColumn) -> FloatArray:
    """Return values as finite numbers, and NaN for a missing one that is counted."""
    if values.dtype.kind in "cMm":
        raise InputError(
            f"column {name!r} must hold real numbers, got {values.dtype}; convert it, e.g. dates to days"
        )
    try:
        if values.dtype.kind not in "biuf" and any(isinstance(each, _NO_NUMBERS) for each in values):
            raise TypeError
        numbers = np.asarray(values, dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        numbers = np.full(len(values), np.inf)
    if not (np.isfinite(numbers) | (np.isnan(numbers) & column.may_lack)).all():
        raise InputError(
            f"column {name!r} must hold finite numbers in every row; convert it, declare levels, or replace "
            f"missing values by a public constant, e.g. impute={{{name!r}: {column.unit[0]:g}}}"
        )
    return numbers


def unit_of_bounds(
    lower: float, upper: float, center: float | None = None, scale: float | None = None
) -> tuple[float, float]:
    """Return center and scale, by default the middle and a quarter of the width.

    Values then lie within ±2 units, most of them within ±1. Numbers so far from 1 that products of them
    vanish or overflow are refused; bounds may be infinite.
    """
    lower, upper = float(lower), float(upper)  # NumPy's would warn of an overflow
    is_far = any(LARGEST_BOUND < abs(each) < inf for each in (lower, upper))
    unit = (lower + upper) / 2 if center is None else center, (upper - lower) / 4 if scale is None else scale
    if is_far or (lower < upper and unit[1] < SMALLEST_BOUND) or LARGEST_BOUND < unit[1] < inf:
        raise InputError(
            f"bounds must lie within ±{LARGEST_BOUND:g}, and a unit between {SMALLEST_BOUND:g} and "
            f"{LARGEST_BOUND:g}, got {lower:g} and {upper:g} with unit {unit[1]:g}; change the unit of "
            "the data"
        )
    return unit


def check_left_out(options: Collection[str], *names: str) -> None:
    """Refuse keywords of an estimator that a function sets by itself."""
    if extra_names := [name for name in names if name in options]:
        raise InputError(f"{extra_names[0]} must be left out here: it follows from the other arguments")
