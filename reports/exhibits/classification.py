"""Exhibits of a classification: a paper's printed numbers next to ours, and ROC curves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from reports.charts.lines import Line, roc_picture
from reports.render import PageTable, Section
from reports.results import AUC, TRUE_POSITIVE_RATES
from reports.series import Series, Setting, View
from reports.writing import render_sentence, rule_text, setting


def draw(view: View, summary: pd.DataFrame, content: Mapping[str, Any]) -> tuple[Section, ...]:
    """Return the paper's table, if any, next to ours, and ROC curves."""
    where = view.headline
    if where is None:
        return ()
    return tuple(filter(None, (_printed(view, where), _roc(view, summary, where))))


def _printed(view: View, where: Setting) -> Section | None:
    """Return the paper's table with our numbers below each of its lines."""
    if not view.page.printed:
        return None
    sizes = sorted({row.s for row in view.page.printed})
    rows: list[tuple[str, ...]] = []
    for rule, epsilon in dict.fromkeys((row.delta_rule, row.epsilon) for row in view.page.printed):
        cells = {row.s: row for row in view.page.printed if (row.delta_rule, row.epsilon) == (rule, epsilon)}
        without = math.isinf(epsilon)
        at = (
            f"δ = {rule_text(rule, view.page.axis.rows_symbol)}",
            "ε = ∞" if without else f"ε = {setting(epsilon)}",
        )
        printed = [f"{cells[s].mean:.2f} ({cells[s].spread:.2f})" if s in cells else "" for s in sizes]
        rows.append((*at, "the paper, UCI data", *printed))
        for series in view.series(Setting(where.epsilon if without else epsilon, rule, where.panel)):
            if series.role == ("nonprivate" if without else "private"):
                rows.append((*at, f"here: {series.label}", *(_mean(series, s) for s in sizes)))
    source = view.page.source_of(where.panel)
    text = render_sentence("printed_table", source=source, panel=where.panel)
    columns = ("δ", "ε", "what", *(f"s = {setting(s)}" for s in sizes))
    heading = "The paper’s table next to ours"
    return Section(heading, text, table=PageTable(columns, rows, heading, 3))


def _mean(series: Series, s: float) -> str:
    point = series.at(s)
    if point is None:
        return "not run"
    if not point.answered:
        return point.status
    return f"{point.mean:.3f} ({point.se:.3f})" if math.isfinite(point.se) else f"{point.mean:.3f}"


def _roc(view: View, summary: pd.DataFrame, where: Setting) -> Section | None:
    x, curves = view.headline_size, []
    for series in view.series(where):
        point = None if x is None else series.at(x)
        if point is None or series.role == "zero":
            continue
        means = summary[summary["cell"] == point.cell].set_index("metric")["mean"]
        found = {
            rate: float(means[name]) for name, rate in TRUE_POSITIVE_RATES.items() if name in means.index
        }
        if found and all(map(math.isfinite, found.values())):
            points = [(0.0, 0.0), *sorted(found.items()), (1.0, 1.0)]
            curves.append((series, points, float(means.get(AUC, math.nan))))
    if not curves:
        return None
    curves.sort(key=lambda curve: -curve[2])
    areas = [(series.label, area) for series, _, area in curves]
    text = render_sentence("roc_curves", symbol=view.page.axis.symbol, x=x, areas=areas)
    lines = [Line(f"{area:.2f}  {s.brief}", points, s.look) for s, points, area in curves]
    return Section(
        "ROC curves", text, roc_picture(lines, "roc", f"ROC curves. {text}", view.page.data_source)
    )
