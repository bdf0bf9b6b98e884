"""The line figure of every study: error against size on log–log axes, labeled at the line ends."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.analysis.series import Point, Series
from reports.charts import palette
from reports.charts.axes import (
    LETTER,
    LIMIT_DASH,
    PRINTED_DASH,
    ZERO_DOTS,
    EndLabel,
    Size,
    add_end_labels,
    add_words,
    framed,
    line_end,
    log_ticks,
    set_ticks,
)
from reports.charts.picture import drawing
from reports.numbers import num, setting

MAIN_REACH, PANEL_REACH = 25.0, 6.0


@dataclass(frozen=True)
class Reference:
    """A thin gray line: theory, or a limit of the data themselves (dashed)."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    dash: bool = False


@dataclass(frozen=True)
class LineFigure:
    """Everything a line figure shows.

    Attributes
    ----------
    limits : tuple
        Range of the vertical axis; values beyond it are marked with an arrow and their number.
    flagged : tuple of float
        Sizes at which δ times the number of rows is at least one.
    """

    series: tuple[Series, ...]
    references: tuple[Reference, ...]
    limits: tuple[float, float]
    sizes: tuple[float, ...]
    flagged: tuple[float, ...]
    x_label: str
    y_label: str
    title: str = ""
    rows_symbol: str = "m"


def error_limits(
    groups: Sequence[Sequence[Series]], levels: Sequence[float] = (), reach: float = MAIN_REACH
) -> tuple[float, float]:
    """Return the range of the error axis for figures that share it.

    The range is that of the private estimators and the zero vector. A non-private error far below it (it
    tends to 0 where the sample is the whole data set) or a private one far above the zero vector would squash
    everything else: what lies more than `reach` times below the best private error, or 12 times above the
    zero vector, is left outside, and the figure marks it with an arrow and the number.
    """
    points = [(s, p) for group in groups for s in group for p in s.points if p.answered and p.mean > 0]
    private = [p.mean for s, p in points if s.role == "private"]
    others = [p.mean for s, p in points if s.role != "private"]
    zero = [p.mean for s, p in points if s.role == "zero"]
    inside = private or others
    if not inside:
        return (0.1, 1.0)
    floor = min(inside) / reach
    low = max(min([*private, *others]), floor)
    low = min([low, *(v for v in levels if v >= floor)])
    high = max([*private, *others])
    if zero:
        high = min(high, 12 * max(zero))
    high = max([high, *others, min(inside) * 1.5])
    return (low / 1.25, high * 1.25)


@drawing()
def draw(spec: LineFigure, size: Size) -> Figure:
    """Draw lines, references, arrows at values outside the axis, and crosses at cells without an answer."""
    fig, ax = framed(size)
    low, high = spec.limits
    failures = [(s, p) for s in spec.series for p in s.points if not p.answered]
    crosses = max(Counter(p.x for _, p in failures).values(), default=0)
    strip = (14 + 9 * min(crosses, 5)) / size.plot_height if crosses else 0.0  # above the largest error
    sizes = spec.sizes or (1.0, 10.0)
    ax.set(xscale="log", yscale="log", xlim=(min(sizes) / 1.12, max(sizes) * 1.12))
    ax.set_ylim(low, high * (high / low) ** (strip / (1 - strip)))
    set_ticks(ax, "x", size_ticks(spec.sizes, size))
    set_ticks(ax, "y", log_ticks(low, high, 9))
    ax.tick_params(axis="x", which="major", length=4)
    if spec.flagged:
        ends = (max(spec.flagged[0] / 1.05, ax.get_xlim()[0]), min(spec.flagged[-1] * 1.05, ax.get_xlim()[1]))
        ax.plot(
            ends,
            [0, 0],
            transform=ax.get_xaxis_transform(),
            color=palette.FLAG,
            linewidth=4,
            solid_capstyle="butt",
            clip_on=False,
        )
    for reference in spec.references:
        dash = LIMIT_DASH if reference.dash else "-"
        ax.plot(reference.x, reference.y, color=palette.GUIDE, linewidth=0.9, linestyle=dash, zorder=1.5)
    for series in spec.series:
        _line(ax, spec, size, series)
    _missing(ax, spec, size, failures)
    add_end_labels(ax, size, [*_series_labels(ax, spec, size), *_reference_labels(ax, spec)])
    add_words(fig, size, spec.title, _with_direction(spec.y_label, size), spec.x_label, _note(spec, size))
    return fig


def size_ticks(sizes: Sequence[float], size: Size) -> list[float]:
    """Return the sizes to label: the figure's own where their numbers fit side by side, else round ones."""
    letter = LETTER * size.font / size.plot_width
    low, high = (min(sizes) / 1.12, max(sizes) * 1.12) if sizes else (0.9, 11.0)
    gaps = [math.log(b / a) / math.log(high / low) for a, b in pairwise(sizes)]
    if sizes and all(gap >= letter * (len(setting(x)) + 1.5) for gap, x in zip(gaps, sizes[1:], strict=True)):
        return list(sizes)
    return log_ticks(low, high, int(1 / (letter * (len(setting(high)) + 3))))


def means(series: Series) -> tuple[list[float], list[float]]:
    """Return the sizes and mean errors of the cells that gave an answer."""
    points = [p for p in series.points if p.answered]
    return [p.x for p in points], [p.mean for p in points]


def series_color(series: Series) -> str:
    return palette.line_color(series.role, series.info.order)


def series_text_color(series: Series) -> str:
    return palette.text_color(series.role, series.info.order)


def _line(ax: Axes, spec: LineFigure, size: Size, series: Series) -> None:
    x, y = means(series)
    color, printed = series_color(series), series.calibration == "paper"
    if not x:
        return
    if series.role == "zero":
        ax.plot(ax.get_xlim(), (y[-1], y[-1]), color=color, linewidth=2, linestyle=ZERO_DOTS, zorder=2)
        return
    banded = [p for p in series.points if p.answered and p.n_ok > 1]
    if size.full_labels and len(banded) > 1:
        floor = spec.limits[0] / 10
        ax.fill_between(
            [p.x for p in banded],
            [max(p.q10, floor) for p in banded],
            [max(p.q90, floor) for p in banded],
            color=color,
            alpha=0.07 if printed else 0.13,
            linewidth=0,
            zorder=1.8,
        )
    ax.plot(
        x,
        y,
        color=color,
        linewidth=2.0 if size.full_labels else 1.8,
        linestyle=PRINTED_DASH if printed else "-",
        marker="o" if series.role == "nonprivate" else palette.marker(series.info.order, series.form_index),
        markersize=4.2 if size.full_labels else 3.4,
        markerfacecolor=palette.PAPER if printed else color,
        markeredgewidth=1.1,
        zorder=3 if series.role == "private" else 3.5,
    )
    low, high = spec.limits
    _beyond(ax, series, size, [p for p in series.points if p.answered and p.mean < low], low)
    _beyond(ax, series, size, [p for p in series.points if p.answered and p.mean > high], high)


def _beyond(ax: Axes, series: Series, size: Size, points: list[Point], edge: float) -> None:
    """Mark values outside the axis: arrows at its edge, and the most extreme number."""
    if not points:
        return
    down = points[0].mean < edge
    arrow: dict[str, Any] = {"marker": "v" if down else "^", "markersize": 6, "linestyle": "none"}
    ax.plot([p.x for p in points], [edge] * len(points), color=series_color(series), clip_on=False, **arrow)
    if series.role == "nonprivate" or size.full_labels:
        extreme = (min if down else max)(points, key=lambda p: p.mean)
        right = line_end(ax, extreme.x, edge)[0] > 0.5
        ax.annotate(
            num(extreme.mean),
            (extreme.x, edge),
            xytext=(-7 if right else 7, 3 if down else -3),
            textcoords="offset points",
            ha="right" if right else "left",
            va="bottom" if down else "top",
            fontsize=size.font * 0.85,
            color=series_text_color(series),
            zorder=5,
        )


def _missing(ax: Axes, spec: LineFigure, size: Size, failures: list[tuple[Series, Point]]) -> None:
    """Cross cells without an answer in the strip on top, and cells where some repetitions failed."""
    cross: dict[str, Any] = {"linestyle": "none", "marker": "x", "markeredgewidth": 1.6, "zorder": 4}
    stacked: dict[float, int] = {}
    for series, point in failures:
        row = stacked[point.x] = stacked.get(point.x, -1) + 1
        place = 1 - (12 + 9 * min(row, 4)) / size.plot_height
        at = ax.get_xaxis_transform()
        ax.plot(
            [point.x], [place], transform=at, markersize=5, color=series_color(series), clip_on=False, **cross
        )
    if failures:
        ax.axhline(spec.limits[1], color=palette.GRID, linewidth=0.8, zorder=1)
    for series in spec.series:
        part = [p for p in series.points if p.answered and p.n_failed > 0]
        where = [p.x for p in part], [p.mean for p in part]
        ax.plot(*where, markersize=9, color=series_color(series), **cross)


def _series_labels(ax: Axes, spec: LineFigure, size: Size) -> list[EndLabel]:
    """Return the names of all lines, or of the first of every estimator."""
    drawn = [series for series in spec.series if means(series)[0]]
    if not size.full_labels:
        drawn = list({series.info.name: series for series in reversed(drawn)}.values())[::-1]
    labels = []
    for series in drawn:
        x, y = means(series)
        end, level = line_end(ax, x[-1], min(y[-1], spec.limits[1]))
        text = series.brief if size.full_labels else series.info.label
        end = 1.0 if series.role == "zero" else end
        labels.append(EndLabel(text, series_text_color(series), level, end, series.role == "nonprivate"))
    return labels


def _reference_labels(ax: Axes, spec: LineFigure) -> list[EndLabel]:
    """Return the names of the references that cross the axes."""
    low, high = spec.limits
    seen = [reference for reference in spec.references if any(low <= y <= high for y in reference.y)]
    ends = [line_end(ax, reference.x[-1], max(reference.y[-1], low / 10)) for reference in seen]
    return [EndLabel(r.label, palette.MUTED, up, across) for r, (across, up) in zip(seen, ends, strict=True)]


def _with_direction(y_label: str, size: Size) -> str:
    """Add "lower is better" where it fits."""
    direction = "(lower is better)"
    if size.phone:
        return f"{y_label}\n{direction}"
    fits = len(y_label) + len(direction) < (size.width - 12) / (size.font * 0.95 * LETTER)
    return f"{y_label} {direction}" if fits else y_label


def _note(spec: LineFigure, size: Size) -> str:
    if not size.full_labels:
        return ""
    parts = []
    if spec.flagged:
        weak = "" if size.phone else ", a weak guarantee"
        parts.append(f"amber axis: δ·{spec.rows_symbol} ≥ 1{weak}")
    if any(p.n_failed or not p.answered for s in spec.series for p in s.points):
        parts.append("×: failed or refused")
    return "; ".join(parts)
