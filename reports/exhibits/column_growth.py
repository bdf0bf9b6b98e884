"""Shows how errors grow with the number of columns, where panels of a study differ in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from reports.analysis.series import View
from reports.charts import palette
from reports.charts.chart import labeled_ticks
from reports.charts.figures import bare_axes, set_ticks
from reports.charts.picture import Shown, warned_picture
from reports.charts.slope_table import fitted_slope
from reports.charts.svg import drawing, new_figure
from reports.numbers import num, setting

_ALIKE = ["estimator", "calibration", "form", "epsilon", "n", "s"]
_WIDTH, _HEIGHT, _FONT = 560.0, 360.0, 11.5


@dataclass(frozen=True)
class GrowthLine:
    """One estimator's errors: (d, mean, standard error) by growing d, and their slope."""

    label: str
    order: int
    points: list[tuple[float, float, float]]
    slope: tuple[float, float]


def draw(view: View, summary: pd.DataFrame, content: Mapping[str, Any]) -> tuple[Shown, ...]:
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
        (line.label, *(num({d: v for d, v, _ in line.points}[d]) for d in columns), _written(line.slope))
        for line in lines
        if len(line.points) == len(columns)
    )
    text = (
        f"The largest error of a coefficient against the number of columns d, at n = {at[1]:,} and "
        f"ε = {setting(at[0])}. Theory: slope 1 where second moments are private, ½ where they are public or "
        "gradients are asked for."
    )
    picture = warned_picture(view.page.dataset.data_source, "column-growth", text, _figure(lines, columns))
    heading = "How fast does the error grow with the number of columns?"
    return (Shown(heading, text, picture, ("", *(f"d = {d}" for d in columns), "slope"), table, 1),)


def _written(slope: tuple[float, float]) -> str:
    return f"{slope[0]:.2f} ± {slope[1]:.2f}".replace("-", "−")


def _figure(lines: list[GrowthLine], columns: list[int]) -> Figure:
    values = [v for line in lines for _, v, _ in line.points]
    low, high = min(values) / 1.4, max(values) * 1.4
    with drawing():
        fig = new_figure(_WIDTH, _HEIGHT)
        ax = fig.add_axes((0.1, 0.14, 0.5, 0.8))
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlim(columns[0] / 1.2, columns[-1] * 1.2)
        ax.set_ylim(low, high)
        bare_axes(ax)
        set_ticks(ax, "x", [float(d) for d in columns], [])
        set_ticks(ax, "y", labeled_ticks(low, high, (1, 2, 5)), [])
        ax.tick_params(colors=palette.AXIS, labelcolor=palette.MUTED, labelsize=_FONT * 0.92)
        ends = sorted(lines, key=lambda line: line.points[-1][1])
        for place, line in enumerate(ends):
            color, marker = palette.SERIES[palette.slot(line.order)], palette.marker(line.order, 0)
            ax.plot(*zip(*[(d, v) for d, v, _ in line.points], strict=True), color=color, marker=marker)
            height = 0.15 + 0.7 * (place + 0.5) / len(ends)
            fig.text(0.63, height, line.label, fontsize=_FONT, color=color, va="center")
        ax.set_xlabel("number of columns d", fontsize=_FONT, color=palette.INK)
        ax.set_ylabel("largest error", fontsize=_FONT, color=palette.INK)
    return fig
