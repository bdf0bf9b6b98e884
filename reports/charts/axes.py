"""What all charts share: sizes, bare axes, ticks on log axes, words, and names at the ends of lines."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullFormatter
from scipy.optimize import isotonic_regression

from reports.charts import palette
from reports.charts.picture import new_figure
from reports.numbers import setting

PRINTED_DASH = (0, (5, 2.2))
ZERO_DOTS = (0, (1, 1.6))
LIMIT_DASH = (0, (6, 3, 1, 3))
LETTER = 0.6  # width of a letter as a share of the font size, generous
_FEWEST_TICKS = 3


@dataclass(frozen=True)
class Size:
    """Measures of a figure, in CSS pixels; `full_labels` names every line, otherwise every estimator once."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    font: float
    full_labels: bool = True

    @property
    def plot_width(self) -> float:
        return self.width - self.left - self.right

    @property
    def plot_height(self) -> float:
        return self.height - self.top - self.bottom

    @property
    def phone(self) -> bool:
        return self.width < 400


WIDE = Size(960, 590, left=52, right=232, top=48, bottom=62, font=12.5)
NARROW = Size(390, 620, left=36, right=140, top=66, bottom=60, font=10.5)
PANEL = Size(430, 345, left=40, right=132, top=51, bottom=40, font=11.5, full_labels=False)


def framed(size: Size) -> tuple[Figure, Axes]:
    """Return a figure with axes of a size, a light grid and no ticks."""
    fig = new_figure(size.width, size.height)
    box = (size.left / size.width, size.bottom / size.height)
    ax = fig.add_axes((*box, size.plot_width / size.width, size.plot_height / size.height))
    bare_axes(ax, size.font)
    ax.grid(True, which="major", color=palette.GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    return fig, ax


def bare_axes(ax: Axes, font: float = 11.5) -> None:
    """Leave only the horizontal axis line, and numbers without ticks."""
    ax.set_facecolor("none")
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_color(palette.AXIS)
    ax.tick_params(
        which="both",
        colors=palette.AXIS,
        labelcolor=palette.MUTED,
        labelsize=font * 0.92,
        length=0,
        pad=4,
    )


def set_ticks(
    ax: Axes, which: Literal["x", "y"], major: Sequence[float], minor: Sequence[float] = ()
) -> None:
    """Put ticks at fixed places, the major ones with plain numbers."""
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_major_locator(FixedLocator(major))
    axis.set_major_formatter(FixedFormatter([setting(v) for v in major]))
    axis.set_minor_locator(FixedLocator(minor))
    axis.set_minor_formatter(NullFormatter())


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers within a range: the densest of 1-2-5, 1-3 and 1 in a decade that are few enough.

    Where a range is so short that fewer than three are left to read the axis by, they are finer.
    """
    found = [_decade_ticks(low, high, steps) for steps in ((1, 2, 5), (1, 3), (1,))]
    ticks = next((each for each in found if len(each) <= most), found[-1])
    if len(ticks) >= _FEWEST_TICKS:
        return ticks
    for steps in ((1, 3), (1, 2, 5), range(1, 10)):
        if len(ticks := _decade_ticks(low, high, steps)) >= _FEWEST_TICKS:
            return ticks
    even = MaxNLocator(nbins=4, min_n_ticks=_FEWEST_TICKS).tick_values(low, high)
    return [float(f"{tick:.12g}") for tick in even if low <= tick <= high]


def _decade_ticks(low: float, high: float, steps: Sequence[int]) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [s * 10.0**p for p in powers for s in steps if low <= s * 10.0**p <= high]


def set_log_ticks(ax: Axes, which: Literal["x", "y"], most: int) -> None:
    """Label round numbers on a log axis."""
    low, high = ax.get_xlim() if which == "x" else ax.get_ylim()
    set_ticks(ax, which, log_ticks(low, high, most))


def add_words(fig: Figure, size: Size, title: str, y_label: str, x_label: str, note: str = "") -> None:
    """Write the title, the names of the axes, and a note at the bottom."""
    width, height, font = size.width, size.height, size.font
    fig.text(
        6 / width, 1 - 7 / height, title, fontsize=font * 1.08, fontweight="bold", color=palette.INK, va="top"
    )
    longest = max(y_label.split("\n"), key=len)
    natural = TextPath((0, 0), longest, size=font * 0.95).get_extents().width
    fig.text(
        6 / width,
        1 - (size.top - 10) / height,
        y_label,
        fontsize=font * 0.95 * min(1.0, (width - 12) / natural),
        color=palette.INK,
        va="bottom",
    )
    middle, low = (size.left + size.plot_width / 2) / width, (24 if note else 8) / height
    fig.text(middle, low, x_label, fontsize=font * 0.95, color=palette.INK, ha="center", va="bottom")
    fig.text(middle, 7 / height, note, fontsize=font * 0.85, color=palette.WARN, ha="center", va="bottom")


@dataclass(frozen=True)
class EndLabel:
    """The name of a line: its words and color, and where the line ends, as shares of both axes."""

    text: str
    color: str
    level: float
    end: float = 1.0
    bold: bool = False


def line_end(ax: Axes, x: float, y: float) -> tuple[float, float]:
    """Return a point of the data as shares of both axes, the height within the axes."""
    across, up = ax.transAxes.inverted().transform(ax.transData.transform((x, y)))
    return float(across), min(max(float(up), 0.0), 1.0)


def add_end_labels(ax: Axes, size: Size, labels: Sequence[EndLabel]) -> None:
    """Name lines in the right margin; names that would overlap are moved apart, with a leader."""
    letters = int((size.right - 20) / (size.font * LETTER))
    texts = ["\n".join(textwrap.wrap(label.text, letters, break_long_words=False)) for label in labels]
    heights = [size.font * (0.3 + 1.12 * (text.count("\n") + 1)) / size.plot_height for text in texts]
    places = spread([label.level for label in labels], heights, -0.03, 1.02)
    pixel = 1 / size.plot_width
    for label, text, place in zip(labels, texts, places, strict=True):
        ax.plot(
            [label.end + 3 * pixel, 1 + 3 * pixel, 1 + 14 * pixel],
            [label.level, label.level, place],
            transform=ax.transAxes,
            color=label.color,
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
            va="center",
            fontsize=size.font,
            linespacing=1.1,
            color=label.color,
            fontweight="bold" if label.bold else "normal",
        )


def spread(wanted: Sequence[float], heights: Sequence[float], low: float, high: float) -> list[float]:
    """Move labels apart, as little as possible in least squares, and keep them in [low, high].

    Parameters
    ----------
    wanted : sequence of float
        Where each label's middle would like to be, in any order.
    heights : sequence of float
        How tall each label is; all are shrunk alike where they would not fit.
    """
    if not wanted:
        return []
    order = np.argsort(wanted, kind="stable")
    tall = np.asarray(heights)[order] * min(1.0, (high - low) / sum(heights))
    offsets = np.cumsum(tall) - tall / 2  # middles above the lowest label's foot when labels touch
    feet = isotonic_regression(np.asarray(wanted)[order] - offsets).x
    places = np.empty(len(order))
    places[order] = np.clip(feet, low, high - tall.sum()) + offsets
    return [float(place) for place in places]
