"""R² and the residual standard deviation of a linear regression, from second moments that it releases anyway.

    residual²   v'Mv / w,   v = (−β̂, 1)              M = mean of f² z z' + noise,   z = [x, y]
    R²          1 − v'Mv / u'Mu,   u = (−(M_1y / w) e_1, 1),   w = M_11,   e_1 the column of ones

A row is multiplied by f ≤ 1, which clips it to the released threshold C. Clipped rows count less; w is the
total weight. Only public bounds limit the clipped rows: they hide at most h B² of residual². Here h is 1 − w
plus a bound on its noise, and B is the largest residual within the bounds of columns and response. If h B² is
more than half of residual², neither number is shown: a few outliers may hold most of the variance. The same
holds if bounds or the column of ones are missing.

Intervals are for the released β̂ in the population of the rows, with values clipped to the bounds. They
account for noise exactly, for what clipping may hide, and for sampling error. The variance of clipped rows'
squared residuals is at most C²|v|² times their mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dpalgos.errors import InputError, shown
from dpalgos.interval import normal_quantile
from dpalgos.release.checks import is_number
from dpalgos.typing import FloatArray

BINNED = ("rows", "predicted", "observed", "std_error", "residual_std")
# Diagnostics: released moments (p, p) of clipped rows [x, y] in coordinates, their noise, and the threshold.
MOMENTS = ("second_moments", "second_moments_std", "second_moments_level", "coordinates")
_LEAST = 3.0  # a variance must exceed this number of noise standard deviations
_HIDDEN = 0.5  # the maximum share of a variance that clipping may hide
NO_FIT = (
    "no R² and no residual standard deviation: rows that were clipped may hold much of the variance; more "
    "rows, a larger ε or narrower bounds of the response help"
)
NO_BOUNDS = (
    "no R² and no residual standard deviation: they need an intercept, and public bounds of all columns "
    "and of the response"
)


def farthest(columns: Iterable[Any]) -> list[float]:
    """Return the maximum distance from zero of each column, in public units with public bounds."""
    return [max(one.upper - one.center, one.center - one.lower) / one.scale for one in columns]


def goodness(
    notes: Mapping[str, Any],
    coef: FloatArray,
    n_rows: int,
    level: float | None,
    ones: int | None,
    reach: Sequence[float] | None,
) -> dict[str, Any]:
    """Return R² and the residual standard deviation in the estimator's units, with intervals.

    If clipping may hide much of the variance, or bounds or the column of ones are missing, return a
    ``fit_note`` with this reason.

    Parameters
    ----------
    notes : mapping
        Diagnostics of a run with one replicate.
    coef : (d,) array
    level : float or None
        Confidence level; 0.95 if None.
    ones : int or None
        The index of the column of ones.
    reach : (d + 1,) sequence or None
        The largest absolute values of columns and response, by public bounds.
    """
    if MOMENTS[0] not in notes or np.ndim(coef) != 1:
        return {}
    if ones is None or reach is None:
        return {"fit_note": NO_BOUNDS}
    M, noise, clip, coordinates = (np.asarray(notes[name])[0] for name in MOMENTS)
    z, unit = normal_quantile(level or 0.95), 1 / coordinates[-1, -1]
    one, y, v = np.linalg.solve(
        coordinates, np.array([np.eye(len(M))[ones], np.eye(len(M))[-1], [*-coef, 1.0]]).T
    ).T
    weight, noise_of_weight = float(one @ M @ one), noise * float(one @ one)
    u = y - (one @ M @ y) / max(weight, noise_of_weight) * one
    v, u = v / unit, u / unit
    residual, total = float(v @ M @ v), float(u @ M @ u)
    largest, largest_total = ((np.abs(coordinates @ each) @ reach) ** 2 for each in (v, u))
    hidden = max(1 - weight, 0.0) + z * noise_of_weight
    is_resolved = min(residual - _LEAST * noise * (v @ v), total - _LEAST * noise * (u @ u), weight - 0.5) > 0
    if not is_resolved or hidden * max(largest / residual, largest_total / total) > _HIDDEN:
        return {"fit_note": NO_FIT}
    variance_bound, total_bound = min(largest, clip**2 * (v @ v)), min(largest_total, clip**2 * (u @ u))
    spread = np.hypot(noise * (v @ v), np.sqrt(variance_bound * residual / n_rows))
    share_left = residual / total
    parts = noise**2 * ((np.outer(v, v) - share_left * np.outer(u, u)) ** 2).sum()
    half = z * np.sqrt(parts + max(variance_bound, share_left * total_bound) * 2 * residual / n_rows) / total
    variances = residual / weight, residual - z * spread, residual + z * spread + hidden * largest
    deviation = unit * np.sqrt(np.maximum(variances, 0.0) * (n_rows / max(n_rows - len(coef), 1)))
    r_squared = (
        1 - share_left,
        1 - share_left - half - hidden * largest / total,
        min(1 - share_left + half + share_left * hidden * largest_total / total, 1.0),
    )
    return {
        name + end: float(value)
        for name, values in (("r_squared", r_squared), ("residual_std", deviation))
        for end, value in zip(("", "_low", "_high"), values, strict=True)
    }


def check_reach(d: int, ones: int | None, reach: Sequence[float] | None) -> None:
    """Refuse the position of a column of ones among d, and absolute values, that cannot be."""
    if ones is not None and (isinstance(ones, bool) or ones not in range(d)):
        raise InputError(f"intercept must be a position from 0 to {d - 1}, got {shown(ones)}")
    if reach is None:
        return
    is_list = not isinstance(reach, str) and np.shape(reach) == (d + 1,)
    if not is_list or not all(is_number(each) and 0 <= each < np.inf for each in reach):
        raise InputError(
            f"reach must hold the largest absolute value of each of {d} columns and of the response, got "
            f"{shown(reach)}"
        )


def in_units(values: Mapping[str, Any], unit: float) -> dict[str, Any]:
    """Return the result of :func:`goodness` for a response in units of ``unit``."""
    return {name: value * unit if name.startswith("residual") else value for name, value in values.items()}


def binned(notes: Mapping[str, Any], unit: float = 1.0, center: float = 0.0) -> dict[str, FloatArray]:
    """Return the binned fit of one run by column, with the response in its units; empty without one."""
    if "binned_fit" not in notes:
        return {}
    table = dict(zip(BINNED, np.asarray(notes["binned_fit"])[0], strict=True))
    table["rows"] = np.maximum(table["rows"], 0.0)
    for name in ("predicted", "observed"):
        table[name] = unit * table[name] + center
    for name in ("std_error", "residual_std"):
        table[name] = unit * table[name]
    return table
