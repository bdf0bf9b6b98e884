"""The pictures of a classification of frames: ROC curves, which features of which boids, a film."""

from __future__ import annotations

import re
from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from reports import palette
from reports.axis_text import add_banner
from reports.chart import line_color, text_color
from reports.figures import PRINTED_DASH, bare_axes
from reports.page import Exhibits, FilmFrame
from reports.picture import banner
from reports.series import Series, View
from reports.svg import drawing, new_figure

_FONT = 11.5
_EXTENT = (1500.0, 1100.0)  # half-widths of a film's frame, in pixels of the data


def roc_figure(view: View, curves: list[tuple[Series, list[float], list[float], float]]) -> Figure:
    """Draw (series, false alarms, hits, area) as curves, the areas beside them."""
    width, height, left, bottom, side = 860.0, 470.0, 52.0, 52.0, 370.0
    with drawing():
        fig = new_figure(width, height)
        ax = fig.add_axes((left / width, bottom / height, side / width, side / height))
        bare_axes(ax)
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1)
        ax.grid(True, color=palette.GRID, linewidth=0.8)
        ax.set_axisbelow(True)
        ax.tick_params(colors=palette.AXIS, labelcolor=palette.MUTED, labelsize=_FONT * 0.92, length=0, pad=5)
        ax.plot([0, 1], [0, 1], color=palette.ZERO_LINE, linewidth=1.2, linestyle=(0, (1, 2)))
        for place, (series, alarms, hits, area) in enumerate(curves):
            printed = series.calibration == "paper"
            style = PRINTED_DASH if printed else "-"
            ax.plot(alarms, hits, color=line_color(series), linewidth=1.9, linestyle=style, zorder=3)
            y = 1 - (0.02 + 0.075 * place)
            ax.plot(
                [1.05, 1.11], [y, y], color=line_color(series), linewidth=2.2, linestyle=style, clip_on=False
            )
            ax.text(
                1.13, y, f"{area:.2f}  {series.brief}", color=text_color(series), fontsize=_FONT, va="center"
            )
        ax.set_xlabel("share of other frames called a flock", fontsize=_FONT, color=palette.INK)
        ax.set_title("share of flocks found", fontsize=_FONT, color=palette.INK, loc="left", pad=12)
        _warn(fig, view, width, height)
    return fig


def selection_figure(
    view: View, exhibits: Exhibits, panels: list[tuple[Series, Mapping[str, int], int]]
) -> Figure:
    """Draw (series, counts by column, repetitions) as a grid of features and boids each."""
    features, rows = exhibits.features, len(exhibits.features)
    width, left, right, row, top, gap = 960.0, 58.0, 16.0, 11.0, 34.0, 34.0
    each = row * rows
    height = top + len(panels) * (each + gap) + 22
    with drawing():
        fig = new_figure(width, height)
        for i, (series, counts, repetitions) in enumerate(panels):
            low = height - top - (i + 1) * (each + gap) + gap / 2
            box = (left / width, low / height, 1 - (left + right) / width, each / height)
            ax = fig.add_axes(box)
            bare_axes(ax)
            ax.set_xlim(0.5, exhibits.n_boids + 0.5)
            ax.set_ylim(rows - 0.5, -0.5)
            ax.set_yticks(range(rows), features)
            ax.tick_params(colors=palette.AXIS, labelcolor=palette.MUTED, labelsize=8, length=0, pad=3)
            segments, alphas = [], []
            for column, count in counts.items():
                match = re.fullmatch(r"(\D+)(\d+)", column)
                if match is None or match[1] not in features:
                    continue  # the intercept
                boid, y = int(match[2]), features.index(match[1])
                segments.append([(boid, y - 0.44), (boid, y + 0.44)])
                alphas.append(0.15 + 0.85 * count / repetitions)
            ax.add_collection(
                LineCollection(segments, colors=line_color(series), alpha=alphas or None, linewidths=3.6)
            )
            ax.set_title(series.brief, fontsize=_FONT, color=text_color(series), loc="left", pad=4)
        fig.text(
            0.5, 5 / height, "boid; the darker, the more repetitions selected it", ha="center", va="bottom",
            fontsize=_FONT * 0.9, color=palette.INK,
        )  # fmt: skip
        _warn(fig, view, width, height)
    return fig


def film_figure(view: View, exhibits: Exhibits) -> Figure:
    """Draw a strip of frames per label."""
    labels = list(dict.fromkeys(frame.label for frame in exhibits.film))
    strips = [[frame for frame in exhibits.film if frame.label == label] for label in labels]
    across = max(map(len, strips))
    width, top, gap, caption = 960.0, 34.0, 10.0, 20.0
    one = (width - gap * (across + 1)) / across
    tall = one * _EXTENT[1] / _EXTENT[0]
    height = top + len(strips) * (tall + caption) + 6
    with drawing():
        fig = new_figure(width, height)
        for i, strip in enumerate(strips):
            for j, frame in enumerate(strip):
                low = height - top - (i + 1) * (tall + caption) + caption
                box = ((gap + j * (one + gap)) / width, low / height, one / width, tall / height)
                _draw_frame(fig.add_axes(box), frame)
                name = "labelled as a flock" if frame.label else "not labelled as a flock"
                fig.text(
                    (gap + j * (one + gap)) / width, (low - 5) / height, f"{name}, frame {frame.frame}",
                    fontsize=_FONT * 0.88, color=palette.MUTED, va="top",
                )  # fmt: skip
        _warn(fig, view, width, height)
    return fig


def _draw_frame(ax: Axes, frame: FilmFrame) -> None:
    ax.set_facecolor("none")
    for spine in ax.spines.values():
        spine.set_color(palette.GRID)
    ax.set_xlim(-_EXTENT[0], _EXTENT[0])
    ax.set_ylim(-_EXTENT[1], _EXTENT[1])
    ax.set_xticks([])
    ax.set_yticks([])
    moves = zip(frame.x, frame.y, frame.x_velocity, frame.y_velocity, strict=True)
    trails = [[(x - 5 * u, y - 5 * v), (x, y)] for x, y, u, v in moves]
    ax.add_collection(LineCollection(trails, colors=palette.SERIES[1], linewidths=1.1, capstyle="round"))


def _warn(fig: Figure, view: View, width: float, height: float) -> None:
    if text := banner(view.page.dataset.data_source, brief=True):
        add_banner(fig, text, 1 - 12 / width, 1 - 8 / height, _FONT * 0.92)
