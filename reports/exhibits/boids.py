"""Exhibits of a flock: selected features, frames of a simulation, the summary of a stand-in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from reports.analysis.series import Series, Setting, View
from reports.charts import palette
from reports.charts.axes import bare_axes
from reports.charts.line_chart import series_color, series_text_color
from reports.charts.picture import ReportSection, drawing, new_figure, picture
from reports.numbers import setting, short

_FONT = 11.5
_MOMENTS = ("mean", "sd", "min", "25 %", "50 %", "75 %", "max")
_MOST_PANELS = 5
_EXTENT = (1500.0, 1100.0)  # half-widths of a film's frame, in pixels of the data


@dataclass(frozen=True)
class FilmFrame:
    """A frame of a simulated flock: its label, its number, and place and velocity per boid."""

    label: int
    frame: int
    x: Sequence[float]
    y: Sequence[float]
    x_velocity: Sequence[float]
    y_velocity: Sequence[float]


@dataclass(frozen=True)
class SummaryRow:
    """Mean, standard deviation, minimum, quartiles and maximum of a column, as published and simulated."""

    column: str
    published: Sequence[float]
    simulated: Sequence[float]


@dataclass(frozen=True)
class Flock:
    """Content of the exhibits of a flock.

    Attributes
    ----------
    features : sequence of str
        What is known of a boid; columns are ``<feature><boid>``.
    n_boids : int
    selected : mapping
        Cell → column → in how many repetitions it has a coefficient.
    film : sequence of FilmFrame
    summary : sequence of SummaryRow
        A stand-in beside published numbers, from `summary_source`.
    """

    features: Sequence[str]
    n_boids: int
    selected: Mapping[str, Mapping[str, int]]
    film: Sequence[FilmFrame]
    summary: Sequence[SummaryRow]
    summary_source: str

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Flock:
        film = [FilmFrame(**frame) for frame in content["film"]]
        return cls(**{**content, "film": film, "summary": [SummaryRow(**row) for row in content["summary"]]})


def draw(view: View, summary: pd.DataFrame, content: Mapping[str, Any]) -> tuple[ReportSection, ...]:
    """Return the exhibits of a flock."""
    flock, where = Flock.from_content(content), view.headline
    if where is None:
        return ()
    shown = (_selection(view, flock, where), _film(view, flock), _compared(flock))
    return tuple(item for item in shown if item is not None)


def _selection(view: View, flock: Flock, where: Setting) -> ReportSection | None:
    x = view.headline_size
    panels = []
    for series in view.series(where):
        point = None if x is None else series.at(x)
        if point is not None and flock.selected.get(point.cell) and point.n_ok:
            panels.append((series, flock.selected[point.cell], point.n_ok))
    panels = panels[:_MOST_PANELS]
    if not panels or x is None:
        return None
    text = " ".join(_selected_words(flock, *panel) for panel in panels)
    alt = f"Which features of which boids are selected at {view.page.x_symbol} = {setting(x)}. {text}"
    figure = _selection_figure(flock, panels)
    shown = picture(figure, "selected", alt, view.page.dataset.data_source)
    return ReportSection("Which boids and features are selected", text, shown)


def _selected_words(flock: Flock, series: Series, counts: Mapping[str, int], repetitions: int) -> str:
    by_feature: dict[str, int] = {}
    for column, count in counts.items():
        feature = re.sub(r"\d+$", "", column)
        by_feature[feature] = by_feature.get(feature, 0) + count
    total = sum(by_feature.values())
    often = sorted(by_feature.items(), key=lambda item: -item[1])[:3]
    stable = sum(count == repetitions for count in counts.values())
    named = ", ".join(f"{name} {short(100 * count / total)} %" for name, count in often)
    return f"{series.label}: {named} of what is selected; {stable} features in every repetition."


def _film(view: View, flock: Flock) -> ReportSection | None:
    if not flock.film:
        return None
    text = (
        "The first simulation that is labeled as a flock, and the first that is not: frames of 200 boids, "
        "each a line as long as five of its steps. These are simulated; real frames are never shown."
    )
    shown = picture(_film_figure(flock), "film", text, view.page.dataset.data_source)
    return ReportSection("What the flock looks like", text, shown)


def _compared(flock: Flock) -> ReportSection | None:
    if not flock.summary:
        return None
    rows = []
    for row in flock.summary:
        rows.append((row.column, "published", *map(_plain, row.published)))
        rows.append(("", "simulated", *map(_plain, row.simulated)))
    text = (
        "The stand-in beside what is published of the copy on Kaggle, a related file: "
        f"{flock.summary_source}. The simulation was adjusted to come near these numbers, so that "
        "agreement is no evidence."
    )
    heading = "How near the stand-in comes to what is published"
    return ReportSection(heading, text, None, ("column", "", *_MOMENTS), tuple(rows), 2)


def _plain(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


@drawing()
def _selection_figure(flock: Flock, panels: list[tuple[Series, Mapping[str, int], int]]) -> Figure:
    """Draw (series, counts by column, repetitions) as a grid of features and boids each."""
    features, n_rows = flock.features, len(flock.features)
    width, left, right, top, gap, each = 960.0, 58.0, 16.0, 34.0, 34.0, 11.0 * n_rows
    height = top + len(panels) * (each + gap) + 22
    fig = new_figure(width, height)
    for i, (series, counts, repetitions) in enumerate(panels):
        low = height - top - (i + 1) * (each + gap) + gap / 2
        ax = fig.add_axes((left / width, low / height, 1 - (left + right) / width, each / height))
        bare_axes(ax, 8.7)
        ax.set(xlim=(0.5, flock.n_boids + 0.5), ylim=(n_rows - 0.5, -0.5))
        ax.set_yticks(range(n_rows), features)
        segments, alphas = [], []
        for column, count in counts.items():
            match = re.fullmatch(r"(\D+)(\d+)", column)
            if match is not None and match[1] in features:  # not the intercept
                boid, y = int(match[2]), features.index(match[1])
                segments.append([(boid, y - 0.44), (boid, y + 0.44)])
                alphas.append(0.15 + 0.85 * count / repetitions)
        ax.add_collection(
            LineCollection(segments, colors=series_color(series), alpha=alphas or None, linewidths=3.6)
        )
        ax.set_title(series.brief, fontsize=_FONT, color=series_text_color(series), loc="left", pad=4)
    text = "boid; the darker, the more repetitions selected it"
    fig.text(0.5, 5 / height, text, ha="center", va="bottom", fontsize=_FONT * 0.9, color=palette.INK)
    return fig


@drawing()
def _film_figure(flock: Flock) -> Figure:
    """Draw a strip of frames per label."""
    labels = list(dict.fromkeys(frame.label for frame in flock.film))
    strips = [[frame for frame in flock.film if frame.label == label] for label in labels]
    across = max(map(len, strips))
    width, top, gap, caption = 960.0, 34.0, 10.0, 20.0
    one = (width - gap * (across + 1)) / across
    tall = one * _EXTENT[1] / _EXTENT[0]
    height = top + len(strips) * (tall + caption) + 6
    fig = new_figure(width, height)
    for i, strip in enumerate(strips):
        low = height - top - (i + 1) * (tall + caption) + caption
        for j, frame in enumerate(strip):
            left = (gap + j * (one + gap)) / width
            _draw_frame(fig.add_axes((left, low / height, one / width, tall / height)), frame)
            text = f"{'' if frame.label else 'not '}labeled as a flock, frame {frame.frame}"
            fig.text(left, (low - 5) / height, text, fontsize=_FONT * 0.88, color=palette.MUTED, va="top")
    return fig


def _draw_frame(ax: Axes, frame: FilmFrame) -> None:
    ax.set_facecolor("none")
    for spine in ax.spines.values():
        spine.set_color(palette.GRID)
    ax.set(xlim=(-_EXTENT[0], _EXTENT[0]), ylim=(-_EXTENT[1], _EXTENT[1]), xticks=[], yticks=[])
    moves = zip(frame.x, frame.y, frame.x_velocity, frame.y_velocity, strict=True)
    trails = [[(x - 5 * u, y - 5 * v), (x, y)] for x, y, u, v in moves]
    ax.add_collection(LineCollection(trails, colors=palette.SERIES[1], linewidths=1.1, capstyle="round"))
