"""How fast errors fall with the size, measured and predicted: slopes on log–log axes."""

from __future__ import annotations

import math

import numpy as np

from reports.analysis.series import Series, View
from reports.charts.picture import Shown
from reports.numbers import setting
from reports.words.headline import guides_of

_FEWEST_SIZES = 3


def slope_table(view: View) -> tuple[Shown, ...]:
    """Return a table of slopes at the headline's setting; nothing where there are too few sizes."""
    where, page = view.headline, view.page
    if where is None or page.x_column != "n":
        return ()
    rows = []
    for series in view.series(where):
        measured = fitted_slope([(p.x, p.mean, p.se) for p in series.points if p.answered])
        if series.role != "zero" and measured is not None:
            rows.append((series.label, _written(measured), *_privacy_part(series, view.series(where))))
    if not rows:
        return ()
    predicted = [
        f"{guide.label}: {fit[0]:.2f}".replace("-", "−")
        for guide in guides_of(page, where.panel)
        if (fit := fitted_slope([(x, y, 0.0) for x, y in zip(guide.n, guide.value, strict=True)])) is not None
    ]
    text = (
        f"Slopes of log error against log {page.x_symbol}, ± one standard error, at ε = "
        f"{setting(where.epsilon)}. The privacy term is what the mean error has beyond the best one without "
        "privacy, as the root of the "
        "difference of their squares. Where nothing but independent sampling is at work a slope is −½, where "
        "nothing but the noise of a mean is, −1."
    )
    if predicted:
        text += f" Over the same sizes, {'; '.join(predicted)}."
    columns = ("", "error", "privacy term")
    return (Shown("How fast does the error fall?", text, None, columns, tuple(rows), 1),)


def fitted_slope(points: list[tuple[float, float, float]]) -> tuple[float, float] | None:
    """Return the least-squares slope of log value against log size, and its standard error.

    Points are (size, value, standard error of the value); the error is what theirs amount to.
    """
    usable = [(x, y, se) for x, y, se in points if x > 0 and y > 0 and math.isfinite(y)]
    if len({x for x, _, _ in usable}) < _FEWEST_SIZES:
        return None
    x, y, se = (np.array(column, dtype=float) for column in zip(*usable, strict=True))
    centered = np.log(x) - np.log(x).mean()
    weights = centered / (centered**2).sum()
    return float(weights @ np.log(y)), float(np.sqrt(((weights * np.nan_to_num(se) / y) ** 2).sum()))


def _privacy_part(series: Series, every: tuple[Series, ...]) -> tuple[str]:
    """Write the slope of what privacy adds; empty for answers without it."""
    if series.role != "private":
        return ("",)
    without = [one for one in every if one.role == "nonprivate"]
    points = []
    for p in series.points:
        others = [q for one in without if (q := one.at(p.x)) is not None and q.answered]
        if not p.answered or not others:
            continue
        best = min(others, key=lambda q: q.mean)
        squared = p.mean**2 - best.mean**2
        if squared > 0:
            value = math.sqrt(squared)
            points.append((p.x, value, math.hypot(p.mean * p.se, best.mean * best.se) / value))
    fit = fitted_slope(points)
    return ("" if fit is None else _written(fit),)


def _written(fit: tuple[float, float]) -> str:
    return f"{fit[0]:.2f} ± {fit[1]:.2f}".replace("-", "−")
