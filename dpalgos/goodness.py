"""R² and the residual standard deviation of a linear regression, from second moments that it released anyway.

    residual²   v'Mv / w,   v = (−β̂, 1)              M = mean of f² z z' + noise,   z = [x, y]
    R²          1 − v'Mv / u'Mu,   u = (−(M_1y / w) e_1, 1),   w = M_11,   e_1 the column of ones

f ≤ 1 is the factor by which a row is clipped for the moments, to the released level C: rows beyond it count
less, and w says how much in all. Of clipped rows nothing is known but public bounds: they hide at most h B²
of residual², h = 1 − w and what noise may add to it, B the largest residual within the bounds of columns and
response. Where that is more than half of residual² neither number is shown, nor where bounds or the column of
ones are missing: a few rows far out may hold most of the variance.

Intervals are those of β̂, as released, among all people that rows are drawn from, whose values beyond the
bounds are moved to them. They count the noise, exactly; what clipping may hide; and sampling: the variance of
what clipped rows add is at most C²|v|² times its mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpalgos.typing import FloatArray

if TYPE_CHECKING:
    from dpalgos.release.spend import Noisy

BINNED = ("rows", "predicted", "observed", "std_error", "residual_std")
_MOMENTS, _NOISE, _LEVEL = "second_moments", "second_moments_std", "second_moments_level"
_COORDINATES = "coordinates"
_LEAST = 3.0  # standard deviations of its noise that a variance must exceed
_HIDDEN = 0.5  # of a variance, that clipping may hide
NO_FIT = (
    "no R² and no residual standard deviation: rows that were clipped may hold much of the variance; more "
    "rows, a larger ε or narrower bounds of the response help"
)


def moment_notes(released: Noisy, coordinates: FloatArray, threshold: float) -> dict[str, Any]:
    """Return diagnostics: the released moments (p, p) of clipped rows [x, y] in coordinates."""
    return {
        _MOMENTS: released.value,
        _NOISE: released.std,
        _LEVEL: np.float64(threshold),
        _COORDINATES: coordinates,
    }


def farthest(columns: Iterable[Any]) -> list[float]:
    """Return how far values lie from zero at most, of columns in public units with public bounds."""
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

    Where clipping may hide much of the variance, return a ``fit_note`` that says so.

    Parameters
    ----------
    notes : mapping
        Those of a run with one replicate.
    coef : (d,) array
    level : float or None
        Of the intervals; .95 if None.
    ones : int or None
        Which column is the intercept's.
    reach : (d + 1,) sequence or None
        The largest absolute values of columns and response, by public bounds.
    """
    if _MOMENTS not in notes or np.ndim(coef) != 1:
        return {}
    if ones is None or reach is None:
        return {"fit_note": NO_FIT}
    from scipy.special import ndtri  # takes as long to load as all that every call needs

    M, noise, clip, made = (np.asarray(notes[name])[0] for name in (_MOMENTS, _NOISE, _LEVEL, _COORDINATES))
    z, unit = float(ndtri((1 + (level or 0.95)) / 2)), 1 / made[-1, -1]
    one, y, v = np.linalg.solve(made, np.array([np.eye(len(M))[ones], np.eye(len(M))[-1], [*-coef, 1.0]]).T).T
    weight, noise_of_weight = float(one @ M @ one), noise * float(one @ one)
    u = y - (one @ M @ y) / max(weight, noise_of_weight) * one
    v, u = v / unit, u / unit
    residual, total = float(v @ M @ v), float(u @ M @ u)
    largest, away = ((np.abs(made @ each) @ reach) ** 2 for each in (v, u))
    hidden = max(1 - weight, 0.0) + z * noise_of_weight
    known = min(residual - _LEAST * noise * (v @ v), total - _LEAST * noise * (u @ u), weight - 0.5) > 0
    if not known or hidden * max(largest / residual, away / total) > _HIDDEN:
        return {"fit_note": NO_FIT}
    most, most_away = min(largest, clip**2 * (v @ v)), min(away, clip**2 * (u @ u))
    spread = np.hypot(noise * (v @ v), np.sqrt(most * residual / n_rows))
    left = residual / total
    parts = noise**2 * ((np.outer(v, v) - left * np.outer(u, u)) ** 2).sum()
    half = z * np.sqrt(parts + max(most, left * most_away) * 2 * residual / n_rows) / total
    variances = residual / weight, residual - z * spread, residual + z * spread + hidden * largest
    deviation = unit * np.sqrt(np.maximum(variances, 0.0) * (n_rows / max(n_rows - len(coef), 1)))
    r_squared = (
        1 - left,
        1 - left - half - hidden * largest / total,
        min(1 - left + half + left * hidden * away / total, 1.0),
    )
    return {
        name + end: float(value)
        for name, values in (("r_squared", r_squared), ("residual_std", deviation))
        for end, value in zip(("", "_low", "_high"), values, strict=True)
    }


def in_units(found: Mapping[str, Any], unit: float) -> dict[str, Any]:
    """Return what :func:`goodness` returned, of a response in units of ``unit``."""
    return {name: value * unit if name.startswith("residual") else value for name, value in found.items()}


def binned(notes: Mapping[str, Any], unit: float = 1.0, center: float = 0.0) -> dict[str, FloatArray]:
    """Return the binned fit of one run, column by column, of a response in its units; empty without one."""
    if "binned_fit" not in notes:
        return {}
    found = dict(zip(BINNED, np.asarray(notes["binned_fit"])[..., 0], strict=True))
    found["rows"] = np.maximum(found["rows"], 0.0)
    for name in ("predicted", "observed"):
        found[name] = unit * found[name] + center
    for name in ("std_error", "residual_std"):
        found[name] = unit * found[name]
    return found
