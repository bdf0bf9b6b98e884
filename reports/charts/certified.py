"""The figure of certified and audited ε against the requested ε."""

from __future__ import annotations

import math
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.analysis.series import Series
from reports.charts import palette
from reports.charts.axis_text import add_banner
from reports.charts.chart import labeled_ticks, line_color, text_color
from reports.charts.figures import bare_axes, set_ticks
from reports.charts.svg import drawing, new_figure
from reports.numbers import setting, span

WIDTH, ROW, SIDE, TOP, BOTTOM, FONT = 500.0, 40.0, 14.0, 42.0, 44.0, 11.5


@dataclass(frozen=True)
class CertifiedFigure:
    """Private series of one setting, the requested ε, and a warning to print."""

    series: tuple[Series, ...]
    asked: float
    banner: str = ""


def certified_range(series: Series) -> tuple[float, float] | None:
    """Return the smallest and the largest certified ε over sizes; None where nothing is certified."""
    values = [p.certified for p in series.points if math.isfinite(p.certified)]
    return (min(values), max(values)) if values else None


def audited_epsilon(series: Series) -> float | None:
    """Return the largest positive audited ε of a series; None where no audit found any."""
    values = [p.audited for p in series.points if math.isfinite(p.audited) and p.audited > 0]
    return max(values) if values else None


def draw_certified(spec: CertifiedFigure) -> Figure:
    """Draw a row per private series: the certified ε as a dot or a bar, the requested ε as a line."""
    rows = [s for s in spec.series if s.role == "private" and (certified_range(s) or audited_epsilon(s))]
    height = TOP + BOTTOM + ROW * max(1, len(rows))
    low, high = _reach(rows, spec.asked)
    with drawing():
        fig = new_figure(WIDTH, height)
        ax = fig.add_axes(
            (SIDE / WIDTH, BOTTOM / height, 1 - 2 * SIDE / WIDTH, (height - TOP - BOTTOM) / height)
        )
        ax.set_xscale("log")
        ax.set_xlim(low, high)
        ax.set_ylim(max(1, len(rows)) - 0.5, -0.5)
        bare_axes(ax)
        set_ticks(ax, "x", labeled_ticks(low, high, (1, 2, 5) if high / low < 1e3 else (1,)), [])
        ax.set_yticks([])
        ax.tick_params(colors=palette.AXIS, labelcolor=palette.MUTED, labelsize=FONT * 0.92, length=4)
        ax.axvline(spec.asked, color=palette.INK, linewidth=1.2, linestyle=(0, (4, 2)), zorder=1)
        ax.annotate(
            f"asked: {setting(spec.asked)}",
            (spec.asked, 1),
            xycoords=ax.get_xaxis_transform(),
            xytext=(0, 5),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=FONT * 0.95,
            color=palette.INK,
        )
        for y, series in enumerate(rows):
            _row(ax, y, series)
        fig.text(
            0.5,
            7 / height,
            "certified ε, log scale (right of the dashed line: less private than asked)",
            fontsize=FONT * 0.88,
            color=palette.INK,
            ha="center",
            va="bottom",
        )
        if spec.banner:
            add_banner(fig, spec.banner, 110 / WIDTH, 1 - 8 / height, FONT * 0.92)
    return fig


def _reach(rows: list[Series], asked: float) -> tuple[float, float]:
    values = [asked / 3, asked]
    for series in rows:
        values += [v for v in (*(certified_range(series) or ()), audited_epsilon(series) or 0.0) if v > 0]
    return min(values) / 1.6, max(values) * 2.2


def _row(ax: Axes, y: int, series: Series) -> None:
    color = line_color(series)
    ends = certified_range(series)
    text = series.brief
    level = y + 0.2
    if ends:
        low, high = ax.get_xlim()
        ends = (max(ends[0], low), max(ends[1], low))  # ε = 0 lies left of every log axis
        if math.log(ends[1] / ends[0]) < 0.03 * math.log(high / low):
            ends = (ends[1], ends[1])
        ax.plot(ends, (level, level), color=color, linewidth=4, alpha=0.5, solid_capstyle="round", zorder=2)
        ax.plot(
            ends,
            (level, level),
            linestyle="none",
            marker="o",
            markersize=7,
            color=color,
            markerfacecolor=palette.PAPER if series.calibration == "paper" else color,
            markeredgewidth=1.6,
            zorder=3,
        )
        text += f": ε = {span(certified_range(series) or ())}"
    audited = audited_epsilon(series)
    if audited:
        ax.plot(
            [audited],
            [level],
            linestyle="none",
            marker=">",
            markersize=8,
            color=text_color(series),
            zorder=4,
        )
        text += f", audited ≥ {span([audited])}"
    elif any(p.audited == 0 for p in series.points):
        text += ", audit saw nothing"
    ax.text(
        0.0,
        y - 0.16,
        text,
        transform=ax.get_yaxis_transform(),
        fontsize=FONT,
        color=text_color(series),
        ha="left",
        va="center_baseline",
        bbox={"facecolor": palette.PAPER, "edgecolor": "none", "pad": 1.0},
    )
