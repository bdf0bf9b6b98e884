"""The figure of certified and audited ε against the requested ε."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.analysis.series import Series
from reports.charts import palette
from reports.charts.axes import bare_axes, set_log_ticks
from reports.charts.line_chart import series_color, series_text_color
from reports.charts.picture import drawing, new_figure
from reports.numbers import setting, span

WIDTH, ROW, SIDE, TOP, BOTTOM, FONT = 500.0, 40.0, 14.0, 42.0, 44.0, 11.5


def certified_range(series: Series) -> tuple[float, float] | None:
    """Return the smallest and the largest certified ε over sizes; None where nothing is certified."""
    values = [p.certified for p in series.points if math.isfinite(p.certified)]
    return (min(values), max(values)) if values else None


def audited_epsilon(series: Series) -> float | None:
    """Return the largest positive audited ε of a series; None where no audit found any."""
    return max((p.audited for p in series.points if p.audited > 0), default=None)


@drawing()
def draw_certified(rows: Sequence[Series], asked: float) -> Figure:
    """Draw a row per private series: the certified ε as a dot or a bar, the requested ε as a line."""
    height = TOP + BOTTOM + ROW * max(1, len(rows))
    values = [asked / 3, asked]
    for series in rows:
        values += [v for v in (*(certified_range(series) or ()), audited_epsilon(series) or 0.0) if v > 0]
    fig = new_figure(WIDTH, height)
    ax = fig.add_axes((SIDE / WIDTH, BOTTOM / height, 1 - 2 * SIDE / WIDTH, 1 - (TOP + BOTTOM) / height))
    ax.set(xscale="log", xlim=(min(values) / 1.6, max(values) * 2.2), ylim=(len(rows) - 0.5, -0.5))
    bare_axes(ax)
    set_log_ticks(ax, "x", 9)
    ax.set_yticks([])
    ax.axvline(asked, color=palette.INK, linewidth=1.2, linestyle=(0, (4, 2)), zorder=1)
    ax.annotate(
        f"asked: {setting(asked)}",
        (asked, 1),
        xycoords=ax.get_xaxis_transform(),
        xytext=(0, 5),
        textcoords="offset points",
        ha="center",
        fontsize=FONT * 0.95,
        color=palette.INK,
    )
    for y, series in enumerate(rows):
        _row(ax, y, series)
    text = "certified ε, log scale (right of the dashed line: less private than asked)"
    fig.text(0.5, 7 / height, text, fontsize=FONT * 0.88, color=palette.INK, ha="center", va="bottom")
    return fig


def _row(ax: Axes, y: int, series: Series) -> None:
    color, dark = series_color(series), series_text_color(series)
    text, level = series.brief, y + 0.2
    if found := certified_range(series):
        low, high = ax.get_xlim()
        ends = [max(value, low) for value in found]  # ε = 0 lies left of every log axis
        if math.log(ends[1] / ends[0]) < 0.03 * math.log(high / low):
            ends = [ends[1], ends[1]]
        ax.plot(ends, (level, level), color=color, linewidth=4, alpha=0.5, solid_capstyle="round", zorder=2)
        fill = palette.PAPER if series.calibration == "paper" else color
        ax.plot(ends, (level, level), "o", markersize=7, color=color, markerfacecolor=fill, zorder=3)
        text += f": ε = {span(found)}"
    if audited := audited_epsilon(series):
        ax.plot([audited], [level], ">", markersize=8, color=dark, zorder=4)
        text += f", audited ≥ {span([audited])}"
    elif any(p.audited == 0 for p in series.points):
        text += ", audit saw nothing"
    ax.text(
        0.0,
        y - 0.16,
        text,
        transform=ax.get_yaxis_transform(),
        fontsize=FONT,
        color=dark,
        va="center_baseline",
        bbox={"facecolor": palette.PAPER, "edgecolor": "none", "pad": 1.0},
    )
