"""The printable page of one release, from its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpalgos import get_estimator
from dpalgos.answers.baseline import BaselineTable
from dpalgos.coefficients import CENTERED, SHRUNK, CoefficientTable
from dpalgos.survival.curves import SurvivalCurves
from reports.charts.drawing import Picture, draw_chart
from reports.charts.lines import Axes, Line, guide, line_chart
from reports.charts.survival import survival_chart
from reports.pages.coefficient_table import INTERCEPTS, ResultColumn, table_of
from reports.pages.group_table import group_table
from reports.palette import look
from reports.render import PageTable, render_page
from reports.writing import num_in, render_sentence


def render_release(
    record: Mapping[str, Any], by_group: SurvivalCurves | BaselineTable | None = None
) -> bytes:
    """Return the page; ``by_group`` is the released table by group, if the release is one."""
    release = record["release"]
    is_centered = any(each["lower"] is not None for each in release["answer"] or ())
    return render_page(
        "pages/release.jinja",
        deployment=record["deployment"],
        release=release,
        table=group_table(by_group) if by_group else _table(release),
        curves=_curves(by_group) if isinstance(by_group, SurvivalCurves) else None,
        shown=CENTERED if is_centered else SHRUNK,
        fit=_fit(release.get("fit", {})),
        calibration=_calibration(release.get("binned_fit", {})),
    )[0]


def _table(release: Mapping[str, Any]) -> PageTable | None:
    """Return the release as a table for publication."""
    answer, level = release["answer"] or (), release["level"]
    if not answer:
        return None
    names = [each["name"] for each in answer]
    estimate, *ends = (
        np.array([one[key] for one in answer], float) for key in ("estimate", "lower", "upper")
    )
    coefficients = CoefficientTable(
        terms=names,
        estimate=estimate,
        interval=None if level is None else np.array(ends),
        level=level,
        family=release.get("model", {}).get("family", ""),
        intercept=next((name for name in INTERCEPTS if name in names), ""),
    )
    title = "Coefficients, with intervals where there are any"
    n = f"{release['model']['n']:,}" if get_estimator(release["estimator"]).task == "mean" else ""
    model = ResultColumn(title=title, rows=coefficients.rows(), level=level, footer={}, notes=(), n_of_mean=n)
    table = table_of([model])
    return replace(table, columns=("Term", *table.columns[1:]), notes=(), stacked=True)


def _curves(curves: SurvivalCurves) -> Picture:
    text = "Released survival by time with pointwise limits, and noisy numbers at risk"
    return draw_chart(survival_chart(curves), "survival curves", text, "", png=False)


def _fit(fit: Mapping[str, float]) -> tuple[str, ...]:
    """Write R² and the residual standard deviation, with their limits, in the digits that these need."""
    names = [(name, f"{name}_low", f"{name}_high") for name in ("r_squared", "residual_std") if fit]
    return tuple(num_in(fit[key], fit[keys[1]], fit[keys[2]]) for keys in names for key in keys)


def _calibration(bins: Mapping[str, Sequence[float | None]]) -> Picture | None:
    """Draw mean responses by tenths of the predictions, if released."""
    names = ("predicted", "observed", "std_error", "rows")
    columns = zip(*(bins.get(name, ()) for name in names), strict=True)
    known = sorted((p, o, se, n) for p, o, se, n in columns if p is not None and o is not None and se and n)
    if len(known) < 2:
        return None
    ends = [value for p, o, se, _ in known for value in (p, o - 2 * se, o + 2 * se)]
    room = 0.05 * (max(ends) - min(ends))
    both = min(0.0, min(ends) - room), max(0.0, max(ends) + room)
    axes = Axes("mean prediction", "mean response", (), False, False, both, both, bars=True, width=400)
    band = [(o - 2 * se, o + 2 * se) for _, o, se, _ in known]
    line = Line("tenths of the predictions", [(p, o) for p, o, *_ in known], look("private", 1), band)
    chart = line_chart([line, guide("right on average", [(end, end) for end in both])], axes)
    return draw_chart(chart, "calibration", render_sentence("calibration"), "", png=False)
