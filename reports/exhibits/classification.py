"""Exhibits of a classification: a paper's printed numbers next to ours, and ROC curves."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from reports.analysis.series import Series, Setting, View
from reports.charts import palette
from reports.charts.axes import PRINTED_DASH, ZERO_DOTS, Size, add_words, framed, set_ticks
from reports.charts.line_chart import series_color, series_text_color
from reports.charts.picture import ReportSection, drawing, picture
from reports.numbers import num, rule_text, setting, words

_RATE = re.compile(r"tpr_at_fpr_(\d\d)")


def draw(view: View, summary: pd.DataFrame, content: Mapping[str, Any]) -> tuple[ReportSection, ...]:
    """Return the paper's table, if any, next to ours, and ROC curves.

    ``content`` has ``label_counts``: how many rows are labeled 0, and 1; empty if that is not known.
    """
    where = view.headline
    if where is None:
        return ()
    shown = (_printed(view, content["label_counts"], where), _roc(view, summary, where))
    return tuple(item for item in shown if item is not None)


def _printed(view: View, counts: Sequence[int], where: Setting) -> ReportSection | None:
    """The paper's table, and under each of its lines ours."""
    if not view.page.printed:
        return None
    sizes = sorted({row.s for row in view.page.printed})
    lines = dict.fromkeys((row.delta_rule, row.epsilon) for row in view.page.printed)
    rows: list[tuple[str, ...]] = []
    for rule, epsilon in lines:
        cells = {row.s: row for row in view.page.printed if (row.delta_rule, row.epsilon) == (rule, epsilon)}
        asked = (
            f"δ = {rule_text(rule, view.page.rows_symbol)}",
            "ε = ∞" if math.isinf(epsilon) else f"ε = {setting(epsilon)}",
        )
        printed = [f"{cells[s].mean:.2f} ({cells[s].spread:.2f})" if s in cells else "" for s in sizes]
        rows.append((*asked, "as printed in the paper, UCI data", *printed))
        without = math.isinf(epsilon)
        at = Setting(where.epsilon if without else epsilon, rule, where.panel)
        for series in view.series(at):
            if series.role == ("nonprivate" if without else "private"):
                rows.append((*asked, f"here: {series.label}", *(_mean(series, s) for s in sizes)))
    source = view.page.dataset.source_of(where.panel)
    text = (
        "Share of test rows misclassified. The paper's numbers are copied from its table, no results of "
        "this run; what its brackets hold is not said there, probably the standard deviation over splits. "
        f"Ours are on {source} data, with the standard error in brackets, panel “{where.panel}”."
    )
    if counts:
        rate = min(counts) / sum(counts)
        text += f" Calling every row what most are called errs on {num(rate)}." + _chance(view, where, rate)
    columns = ("δ", "ε", "what", *(f"s = {setting(s)}" for s in sizes))
    return ReportSection("The paper's table beside ours", text, None, columns, tuple(rows), 3)


def _chance(view: View, where: Setting, rate: float) -> str:
    """Say of which estimators the printed noise leaves nothing better than chance, within two errors."""
    x = view.headline_size
    points = [(s, s.at(x)) for s in view.series(where) if x is not None and s.calibration == "paper"]
    lost = [
        f"{series.label} ({num(point.mean)})"
        for series, point in points
        if point is not None and point.answered and point.mean + 2 * point.se >= rate
    ]
    if not lost or x is None:
        return ""
    at = f"ε = {setting(where.epsilon)} and {view.page.x_symbol} = {setting(x)}"
    return f" No better than that, within two standard errors, at {at}: {words(lost)}."


def _mean(series: Series, s: float) -> str:
    point = series.at(s)
    if point is None:
        return "not run"
    if not point.answered:
        return point.status
    return f"{point.mean:.3f} ({point.se:.3f})" if math.isfinite(point.se) else f"{point.mean:.3f}"


def _roc(view: View, summary: pd.DataFrame, where: Setting) -> ReportSection | None:
    x = view.headline_size
    curves = []
    for series in view.series(where):
        point = None if x is None else series.at(x)
        if point is None or series.role == "zero":
            continue
        rows = summary[summary["cell"] == point.cell].set_index("metric")["mean"]
        found = {int(m[1]) / 100: float(rows[name]) for name in rows.index if (m := _RATE.fullmatch(name))}
        if found and all(map(math.isfinite, found.values())):
            rates = sorted(found)
            hits = [0.0, *(found[rate] for rate in rates), 1.0]
            curves.append((series, [0.0, *rates, 1.0], hits, float(rows.get("auc", math.nan))))
    if not curves or x is None:
        return None
    curves.sort(key=lambda curve: -curve[3])
    best = "; ".join(f"{series.label} {area:.2f}" for series, _, _, area in curves)
    text = f"At {view.page.x_symbol} = {setting(x)}, means over repetitions. Area under the curve: {best}."
    shown = picture(_roc_figure(curves), "roc", f"ROC curves. {text}", view.page.dataset.data_source)
    return ReportSection("ROC curves", text, shown)


@drawing()
def _roc_figure(curves: list[tuple[Series, list[float], list[float], float]]) -> Figure:
    """Draw (series, false alarms, hits, area) as curves, listed with their areas, the largest first."""
    size = Size(860, 470, left=52, right=438, top=48, bottom=52, font=11.5)
    fig, ax = framed(size)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    for axis in ("x", "y"):
        set_ticks(ax, axis, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    ax.plot([0, 1], [0, 1], color=palette.ZERO_LINE, linewidth=1.2, linestyle=ZERO_DOTS)
    for place, (series, alarms, hits, area) in enumerate(curves):
        style: dict[str, Any] = {
            "linestyle": PRINTED_DASH if series.calibration == "paper" else "-",
            "linewidth": 2,
        }
        color, y = series_color(series), 0.98 - 0.075 * place
        ax.plot(alarms, hits, color=color, zorder=3, **style)
        ax.plot([1.05, 1.11], [y, y], color=color, clip_on=False, **style)
        text = f"{area:.2f}  {series.brief}"
        ax.text(1.13, y, text, color=series_text_color(series), fontsize=size.font, va="center")
    add_words(fig, size, "", "share of the ones found", "share of the zeros called one")
    return fig
