"""How errors grow with the number of columns, where panels of a study differ in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from reports.charts.lines import Axes, Line, line_picture
from reports.cost import fitted_slope
from reports.palette import look
from reports.series import View
from reports.table import PageTable, Section
from reports.writing import num, render_sentence, slope_text

_ALIKE = ["estimator", "calibration", "form", "epsilon", "n", "s"]


def draw(view: View, summary: pd.DataFrame, content: Mapping[str, Any]) -> tuple[Section, ...]:
    """Return a picture and a table of errors against d; nothing where fewer than three d were run."""
    rows = summary[(summary["metric"] == content["metric"]) & (summary["calibration"] != "none")]
    lines: list[Line] = []
    slopes: list[str] = []
    for (name, _, form, *where), group in rows.groupby(_ALIKE, sort=True):
        ordered = group.sort_values("d")
        points = list(zip(*(ordered[c].astype(float) for c in ("d", "mean", "se")), strict=True))
        slope = fitted_slope(points)
        if slope is not None:
            info = view.page.estimator(str(name))
            ends = [(d, value) for d, value, _ in points]
            lines.append(Line(f"{info.title} {form}".strip(), ends, look("private", info.order)))
            slopes.append(slope_text(slope))
            at = where
    if not lines:
        return ()
    columns = sorted({int(d) for line in lines for d, _ in line.points})
    table = tuple(
        (line.label, *(num(value) for _, value in line.points), slope)
        for line, slope in zip(lines, slopes, strict=True)
        if len(line.points) == len(columns)
    )
    text = render_sentence("column_growth", n=at[1], epsilon=at[0])
    axes = Axes("number of columns d", "largest error of a coefficient", columns, height=280)
    shown = line_picture(lines, axes, "column-growth", text, view.page.data_source)
    heading = "How fast does the error grow with the number of columns?"
    names = ("Estimator", *(f"d = {d}" for d in columns), "slope")
    return (Section(heading, text, shown, PageTable(names, table, heading)),)
