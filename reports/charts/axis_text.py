"""The words of a line figure: names at line ends, names along reference lines, axes, banner."""

from __future__ import annotations

import math
import textwrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath

from reports.analysis.series import Series
from reports.charts import label_placement, palette
from reports.charts.chart import LETTER, Frame, Reference, line_color, means, text_color


def add_references(ax: Axes, frame: Frame) -> None:
    """Draw thin gray reference lines, each labeled where there is most room."""
    spec, size = frame.spec, frame.size
    font = size.font * 0.85
    lines = {r: label_placement.interpolate_log(r.x, r.y) for r in spec.references}
    data = [label_placement.interpolate_log(*means(s)) for s in spec.series if s.points]
    for reference, line in lines.items():
        ax.plot(
            reference.x,
            reference.y,
            color=palette.GUIDE,
            linewidth=0.9,
            linestyle=(0, (6, 3, 1, 3)) if reference.dash else "-",
            zorder=1.5,
        )
        offset = 0.75 * font / size.plot_height
        found = label_placement.clearest(
            line,
            [*data, *(other for r, other in lines.items() if r != reference)],
            frame.x_range,
            frame.y_range,
            width=len(reference.label) * font * LETTER / size.plot_width,
            offsets=(offset, -offset),
        )
        if found is not None:
            _name_along(ax, frame, reference, found[0], above=found[1] > 0)


def _name_along(ax: Axes, frame: Frame, reference: Reference, x: float, above: bool) -> None:
    line = label_placement.interpolate_log(reference.x, reference.y)
    behind, ahead = line(x / 1.05), line(x * 1.05)
    angle = 0.0
    if math.isfinite(behind) and math.isfinite(ahead):
        rise = (frame.up(ahead) - frame.up(behind)) * frame.size.plot_height
        run = (frame.across(x * 1.05) - frame.across(x / 1.05)) * frame.size.plot_width
        angle = math.degrees(math.atan2(rise, run))
    tilt = math.radians(angle)
    away = 3.0 if above else -3.0
    ax.annotate(
        reference.label,
        (x, line(x)),
        xytext=(-away * math.sin(tilt), away * math.cos(tilt)),
        textcoords="offset points",
        ha="center",
        va="bottom" if above else "top",
        rotation=angle,
        rotation_mode="anchor",
        fontsize=frame.size.font * 0.85,
        color=palette.MUTED,
        zorder=1.7,
    )


def add_end_labels(ax: Axes, frame: Frame) -> None:
    """Name the lines at their right ends; names that would collide are moved apart, with a leader."""
    size = frame.size
    shown = _labeled(frame)
    if not shown:
        return
    levels, texts = [], []
    ceiling = frame.up(frame.spec.limits[1])
    for series in shown:
        levels.append(min(max(frame.up(means(series)[1][-1]), 0.0), ceiling))
        texts.append(_end_label(frame, series))
    heights = [size.font * (0.3 + 1.12 * (text.count("\n") + 1)) / size.plot_height for text in texts]
    places = label_placement.spread(levels, heights, -0.03, 1.02)
    pixel = 1 / size.plot_width
    for series, level, text, place in zip(shown, levels, texts, places, strict=True):
        end = 1.0 if series.role == "zero" else frame.across(means(series)[0][-1])
        ax.plot(
            [end + 3 * pixel, 1 + 3 * pixel, 1 + 14 * pixel],
            [level, level, place],
            transform=ax.transAxes,
            color=line_color(series),
            linewidth=0.7,
            alpha=0.6,
            clip_on=False,
            zorder=1.9,
        )
        ax.text(
            1 + 17 * pixel,
            place,
            text,
            transform=ax.transAxes,
            ha="left",
            va="center",
            fontsize=size.font,
            linespacing=1.1,
            color=text_color(series),
            fontweight="bold" if series.role == "nonprivate" else "normal",
            clip_on=False,
        )


def _labeled(frame: Frame) -> list[Series]:
    """Return the lines to be named: all, or the first of every estimator."""
    drawn = [s for s in frame.spec.series if means(s)[0]]
    if frame.size.full_labels:
        return drawn
    return list({s.info.name: s for s in reversed(drawn)}.values())[::-1]


def _end_label(frame: Frame, series: Series) -> str:
    text = series.brief if frame.size.full_labels else series.info.label
    letters = int((frame.size.right - 20) / (frame.size.font * LETTER))
    return "\n".join(textwrap.wrap(text, letters, break_long_words=False, break_on_hyphens=False))


def add_words(fig: Figure, frame: Frame) -> None:
    """Write title, banner, axis names and the note on flags."""
    spec, size = frame.spec, frame.size
    width, height, font = size.width, size.height, size.font
    if spec.title:
        fig.text(
            6 / width,
            1 - 7 / height,
            spec.title,
            fontsize=font * 1.08,
            fontweight="bold",
            color=palette.INK,
            ha="left",
            va="top",
        )
    if spec.banner:
        add_banner(fig, spec.banner, 1 - 8 / width, 1 - 8 / height, font * 0.92)
    direction = "(lower is better)"
    letters = (width - 12) / (font * 0.95 * LETTER)
    if size.phone:
        direction = f"\n{direction}"
    else:
        direction = f" {direction}" if len(spec.y_label) + len(direction) < letters else ""
    fig.text(
        6 / width,
        1 - (size.top - 10) / height,
        spec.y_label + direction,
        fontsize=_fitting(spec.y_label, font * 0.95, width - 12),
        linespacing=1.2,
        color=palette.INK,
        ha="left",
        va="bottom",
    )
    middle = (size.left + size.plot_width / 2) / width
    note = _note(frame)
    fig.text(
        middle,
        (24 if note else 8) / height,
        spec.x_label,
        fontsize=font * 0.95,
        color=palette.INK,
        ha="center",
        va="bottom",
    )
    if note:
        fig.text(middle, 7 / height, note, fontsize=font * 0.85, color=palette.WARN, ha="center", va="bottom")


def _fitting(text: str, font: float, width: float) -> float:
    """Return a font size, at most `font`, at which a line of text is no wider than `width`."""
    return font * min(1.0, width / TextPath((0, 0), text, size=font).get_extents().width)


def add_banner(fig: Figure, text: str, x: float, y: float, font: float) -> None:
    """Print a warning at the figure's upper right corner (or wherever `x`, `y` say)."""
    fig.text(
        x,
        y,
        text,
        fontsize=font,
        fontweight="bold",
        color=palette.WARN,
        ha="right",
        va="top",
        bbox={"facecolor": palette.WARN_FILL, "edgecolor": palette.WARN, "linewidth": 0.8, "pad": 3},
    )


def _note(frame: Frame) -> str:
    if not frame.size.full_labels:
        return ""
    parts = []
    if frame.spec.flagged:
        text = f"amber axis: δ·{frame.spec.rows_symbol} ≥ 1"
        parts.append(text if frame.size.phone else f"{text}, a weak guarantee")
    if frame.failures or any(p.n_failed for s in frame.spec.series for p in s.points):
        parts.append("×: failed or refused")
    return "; ".join(parts)
