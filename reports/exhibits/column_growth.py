"""Shows how errors grow with the number of columns, where panels of a study differ in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from reports.analysis.error_curve import fitted_slope
from reports.analysis.series import View
from reports.charts import palette
from reports.charts.axes import (
    PANEL,
    EndLabel,
    add_end_labels,
    add_words,
    framed,
    line_end,
    log_ticks,
    set_ticks,
)
from reports.charts.picture import ReportSection, drawing, picture
from reports.numbers import num, setting, slope_text

_ALIKE = ["estimator", "calibration", "form", "epsilon", "n", "s"]


@dataclass(frozen=True)
class GrowthLine:
    """One estimator's errors: (d, mean, standard error) by growing d, and their slope."""

    label: str
    order: int
    points: list[tuple[float, float, float]]
    slope: tuple[float, float]


def draw(view: View, summary: pd.DataFrame, content: Mapping[str, Any]) -> tuple[ReportSection, ...]:
    """Return a picture and a table of errors against d; nothing where fewer than three d were run."""
    rows = summary[(summary["metric"] == content["metric"]) & (summary["calibration"] != "none")]
    lines: list[GrowthLine] = []
    for (name, _, form, *where), group in rows.groupby(_ALIKE, sort=True):
        ordered = group.sort_values("d")
        points = list(zip(*(ordered[c].astype(float) for c in ("d", "mean", "se")), strict=True))
        slope = fitted_slope(points)
        if slope is not None:
            info = view.page.estimator(str(name))
            lines.append(GrowthLine(f"{info.title} {form}".strip(), info.order, points, slope))
            at = where
    if not lines:
        return ()
    columns = sorted({int(d) for line in lines for d, _, _ in line.points})
    table = tuple(
        (line.label, *(num(value) for _, value, _ in line.points), slope_text(line.slope))
        for line in lines
        if len(line.points) == len(columns)
    )
    text = (
        f"The largest error of a coefficient against the number of columns d, at n = {at[1]:,} and "
        f"ε = {setting(at[0])}. Theory: slope 1 where second moments are private, ½ where they are public or "
        "gradients are asked for."
    )
    shown = picture(_figure(lines, columns), "column-growth", text, view.page.dataset.data_source)
    heading = "How fast does the error grow with the number of columns?"
    return (ReportSection(heading, text, shown, ("", *(f"d = {d}" for d in columns), "slope"), table, 1),)


@drawing()
def _figure(lines: list[GrowthLine], columns: list[int]) -> Figure:
    values = [v for line in lines for _, v, _ in line.points]
    low, high = min(values) / 1.4, max(values) * 1.4
    fig, ax = framed(PANEL)
    ax.set(xscale="log", yscale="log", xlim=(columns[0] / 1.2, columns[-1] * 1.2), ylim=(low, high))
    set_ticks(ax, "x", [float(d) for d in columns])
    set_ticks(ax, "y", log_ticks(low, high, 7))
    labels = []
    for line in lines:
        color, marker = palette.line_color("private", line.order), palette.marker(line.order, 0)
        d, value, _ = zip(*line.points, strict=True)
        ax.plot(d, value, color=color, marker=marker)
        end, level = line_end(ax, d[-1], value[-1])
        labels.append(EndLabel(line.label, palette.text_color("private", line.order), level, end))
    add_end_labels(ax, PANEL, labels)
    add_words(fig, PANEL, "", "largest error of a coefficient", "number of columns d")
    return fig
