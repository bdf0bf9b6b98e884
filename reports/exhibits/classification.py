"""Exhibits of a classification: a paper's printed numbers next to ours, and ROC curves."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from reports.charts.drawing import Picture
from reports.charts.lines import Axes, Line, guide, line_picture
from reports.palette import ZERO_DOTS
from reports.series import Series, Setting, View
from reports.table import PageTable, Section
from reports.writing import num, render_sentence, rule_text, setting

_RATE = re.compile(r"tpr_at_fpr_(\d\d)")


def draw(view: View, summary: pd.DataFrame, content: Mapping[str, Any]) -> tuple[Section, ...]:
    """Return the paper's table, if any, next to ours, and ROC curves.

    ``content`` has ``label_counts``: how many rows are labeled 0, and 1; empty if that is not known.
    """
    where = view.headline
    if where is None:
        return ()
    return tuple(filter(None, (_printed(view, content["label_counts"], where), _roc(view, summary, where))))


def _printed(view: View, counts: Sequence[int], where: Setting) -> Section | None:
    """Return the paper's table with our numbers below each of its lines."""
    if not view.page.printed:
        return None
    sizes = sorted({row.s for row in view.page.printed})
    lines = dict.fromkeys((row.delta_rule, row.epsilon) for row in view.page.printed)
    rows: list[tuple[str, ...]] = []
    for rule, epsilon in lines:
        cells = {row.s: row for row in view.page.printed if (row.delta_rule, row.epsilon) == (rule, epsilon)}
        asked = (
            f"δ = {rule_text(rule, view.page.axis.rows_symbol)}",
            "ε = ∞" if math.isinf(epsilon) else f"ε = {setting(epsilon)}",
        )
        printed = [f"{cells[s].mean:.2f} ({cells[s].spread:.2f})" if s in cells else "" for s in sizes]
        rows.append((*asked, "as printed in the paper, UCI data", *printed))
        without = math.isinf(epsilon)
        at = Setting(where.epsilon if without else epsilon, rule, where.panel)
        for series in view.series(at):
            if series.role == ("nonprivate" if without else "private"):
                rows.append((*asked, f"here: {series.label}", *(_mean(series, s) for s in sizes)))
    source = view.page.source_of(where.panel)
    text = render_sentence("printed_table", source=source, panel=where.panel)
    if counts:
        rate = min(counts) / sum(counts)
        text += " " + _chance(view, where, rate)
    columns = ("δ", "ε", "what", *(f"s = {setting(s)}" for s in sizes))
    heading = "The paper's table next to ours"
    return Section(heading, text, table=PageTable(columns, rows, heading, 3))


def _chance(view: View, where: Setting, rate: float) -> str:
    """Name the estimators that the printed noise makes no better than chance, within two standard errors."""
    x = view.headline_size
    points = [(s, s.at(x)) for s in view.series(where) if x is not None and s.calibration == "paper"]
    lost = [
        f"{series.label} ({num(point.mean)})"
        for series, point in points
        if point is not None and point.answered and point.mean + 2 * point.se >= rate
    ]
    symbol = view.page.axis.symbol
    return render_sentence("lost_to_chance", rate=rate, epsilon=where.epsilon, symbol=symbol, x=x, lost=lost)


def _mean(series: Series, s: float) -> str:
    point = series.at(s)
    if point is None:
        return "not run"
    if not point.answered:
        return point.status
    return f"{point.mean:.3f} ({point.se:.3f})" if math.isfinite(point.se) else f"{point.mean:.3f}"


def _roc(view: View, summary: pd.DataFrame, where: Setting) -> Section | None:
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
    text = f"At {view.page.axis.symbol} = {setting(x)}, means over repetitions. Area under the curve: {best}."
    shown = _roc_figure(curves, f"ROC curves. {text}", view.page.data_source)
    return Section("ROC curves", text, shown)


def _roc_figure(
    curves: list[tuple[Series, list[float], list[float], float]], text: str, source: str
) -> Picture:
    """Draw (series, false alarms, hits, area) as curves, named with their areas."""
    axes = Axes("share of the zeros called one", "share of the ones found", x_log=False, y_log=False)
    lines = [
        Line(f"{area:.2f}  {s.brief}", list(zip(alarms, hits, strict=True)), replace(s.look, shape=""))
        for s, alarms, hits, area in curves
    ]
    diagonal = guide("", [(0.0, 0.0), (1.0, 1.0)], ZERO_DOTS)
    return line_picture([*lines, diagonal], axes, "roc", text, source)
