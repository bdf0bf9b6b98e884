"""The line figure of every study: error against size on log–log axes, labeled at the line ends."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullFormatter

from reports.analysis.series import Point, Series
from reports.charts import palette
from reports.charts.axis_text import add_end_labels, add_references, add_words
from reports.charts.chart import (
    Frame,
    LineFigure,
    Size,
    decade_ticks,
    labeled_ticks,
    line_color,
    means,
    text_color,
)
from reports.charts.svg import drawing, new_figure
from reports.numbers import num, setting

PRINTED_DASH = (0, (5, 2.2))
ZERO_DOTS = (0, (1, 1.6))


def draw(spec: LineFigure, size: Size) -> Figure:
    frame = Frame(spec, size)
    with drawing():
        fig = new_figure(size.width, size.height)
        box = (
            size.left / size.width,
            size.bottom / size.height,
            size.plot_width / size.width,
            size.plot_height / size.height,
        )
        ax = fig.add_axes(box)
        _axes(ax, frame)
        add_references(ax, frame)
        for series in spec.series:
            _line(ax, frame, series)
        _missing(ax, frame)
        add_end_labels(ax, frame)
        add_words(fig, frame)
    return fig


def bare_axes(ax: Axes) -> None:
    """Leave only the horizontal axis line."""
    ax.set_facecolor("none")
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_color(palette.AXIS)


def set_ticks(ax: Axes, which: str, major: list[float], minor: list[float]) -> None:
    """Put ticks at fixed places, the major ones with plain numbers."""
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_major_locator(FixedLocator(major))
    axis.set_major_formatter(FixedFormatter([setting(v) for v in major]))
    axis.set_minor_locator(FixedLocator(minor))
    axis.set_minor_formatter(NullFormatter())


def _axes(ax: Axes, frame: Frame) -> None:
    size = frame.size
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(*frame.x_range)
    ax.set_ylim(*frame.y_range)
    bare_axes(ax)
    low, high = frame.x_range
    set_ticks(
        ax,
        "x",
        frame.x_ticks,
        decade_ticks(low, high, range(2, 10)),
    )
    low, high = frame.spec.limits
    decades = math.log10(high / low)
    steps = (1, 2, 5) if decades <= 2.2 else (1, 3) if decades < 4 else (1,)
    set_ticks(ax, "y", labeled_ticks(low, high, steps), [])
    ax.tick_params(which="both", colors=palette.AXIS, labelcolor=palette.MUTED, length=0, pad=4)
    ax.tick_params(which="major", labelsize=size.font * 0.92)
    ax.tick_params(axis="x", which="major", length=4)
    ax.tick_params(axis="x", which="minor", length=2)
    ax.grid(True, which="major", color=palette.GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    if frame.spec.flagged:
        left = max(min(frame.spec.flagged) / 1.05, frame.x_range[0])
        right = min(max(frame.spec.flagged) * 1.05, frame.x_range[1])
        ax.plot(
            [left, right],
            [0, 0],
            transform=ax.get_xaxis_transform(),
            color=palette.FLAG,
            linewidth=4,
            solid_capstyle="butt",
            clip_on=False,
            zorder=1.6,
        )


def _line(ax: Axes, frame: Frame, series: Series) -> None:
    x, y = means(series)
    if not x:
        return
    color = line_color(series)
    if series.role == "zero":
        ax.plot(frame.x_range, (y[-1], y[-1]), color=color, linewidth=2, linestyle=ZERO_DOTS, zorder=2)
        return
    printed = series.calibration == "paper"
    if frame.size.bands:
        _band(ax, frame, series, 0.07 if printed else 0.13)
    round_marker = series.role == "nonprivate"
    ax.plot(
        x,
        y,
        color=color,
        linewidth=2.0 if frame.size.full_labels else 1.8,
        linestyle=PRINTED_DASH if printed else "-",
        marker="o" if round_marker else palette.marker(series.info.order, series.form_index),
        markersize=4.2 if frame.size.full_labels else 3.4,
        markerfacecolor=palette.PAPER if printed else color,
        markeredgecolor=color,
        markeredgewidth=1.1,
        zorder=3 if series.role == "private" else 3.5,
    )
    _beyond(ax, frame, series)


def _band(ax: Axes, frame: Frame, series: Series, alpha: float) -> None:
    shown = [p for p in series.points if p.answered and p.n_ok > 1]
    if len(shown) < 2:
        return
    floor = frame.y_range[0] / 10
    ax.fill_between(
        [p.x for p in shown],
        [max(p.q10, floor) for p in shown],
        [max(p.q90, floor) for p in shown],
        color=line_color(series),
        alpha=alpha,
        linewidth=0,
        zorder=1.8,
    )


def _beyond(ax: Axes, frame: Frame, series: Series) -> None:
    """Mark values outside the axis: an arrow at its edge, and the most extreme number."""
    low, high = frame.spec.limits
    answered = [p for p in series.points if p.answered]
    below = [p for p in answered if p.mean < low]
    above = [p for p in answered if p.mean > high]
    if below:
        _arrows(ax, frame, series, below, low, min(below, key=lambda p: p.mean))
    if above:
        _arrows(ax, frame, series, above, high, max(above, key=lambda p: p.mean))


def _arrows(ax: Axes, frame: Frame, series: Series, points: list[Point], edge: float, extreme: Point) -> None:
    down = edge == frame.spec.limits[0]
    ax.plot(
        [p.x for p in points],
        [edge] * len(points),
        linestyle="none",
        color=line_color(series),
        marker="v" if down else "^",
        markersize=6,
        clip_on=False,
        zorder=4,
    )
    if series.role != "nonprivate" and not frame.size.full_labels:
        return
    right = frame.across(extreme.x) > 0.5
    ax.annotate(
        num(extreme.mean),
        (extreme.x, edge),
        xytext=(-7 if right else 7, 3 if down else -3),
        textcoords="offset points",
        ha="right" if right else "left",
        va="bottom" if down else "top",
        fontsize=frame.size.font * 0.85,
        color=text_color(series),
        zorder=5,
    )


def _missing(ax: Axes, frame: Frame) -> None:
    """Cross cells without an answer in the strip on top, and cells where some repetitions failed."""
    stacked: dict[float, int] = {}
    for series, point in frame.failures:
        row = stacked.get(point.x, 0)
        stacked[point.x] = row + 1
        place = 1 - (12 + 9 * min(row, 4)) / frame.size.plot_height
        ax.plot(
            [point.x],
            [place],
            transform=ax.get_xaxis_transform(),
            marker="x",
            markersize=5,
            markeredgewidth=1.6,
            color=line_color(series),
            clip_on=False,
            zorder=4,
        )
    if frame.failures:
        ax.axhline(frame.spec.limits[1], color=palette.GRID, linewidth=0.8, zorder=1)
    for series in frame.spec.series:
        part = [p for p in series.points if p.answered and p.n_failed > 0]
        if part:
            ax.plot(
                [p.x for p in part],
                [p.mean for p in part],
                linestyle="none",
                marker="x",
                markersize=9,
                markeredgewidth=1.6,
                color=line_color(series),
                zorder=4,
            )
