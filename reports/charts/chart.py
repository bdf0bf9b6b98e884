"""The content, size and axes of a line figure; drawing is in `reports.charts.figures`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from matplotlib.ticker import MaxNLocator

from reports.analysis.series import Point, Series
from reports.charts import palette
from reports.numbers import setting


@dataclass(frozen=True)
class Size:
    """Measures of a figure, in CSS pixels.

    `full_labels` names every line at its end, otherwise every estimator once; `dense_ticks` labels 2 and 5
    between the decades of the size axis.
    """

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    font: float
    full_labels: bool = True
    phone: bool = False
    bands: bool = True
    dense_ticks: bool = False

    @property
    def plot_width(self) -> float:
        return self.width - self.left - self.right

    @property
    def plot_height(self) -> float:
        return self.height - self.top - self.bottom


WIDE = Size(960, 590, left=52, right=232, top=48, bottom=62, font=12.5, dense_ticks=True)
NARROW = Size(390, 620, left=36, right=140, top=66, bottom=60, font=10.5, phone=True)
PANEL = Size(430, 345, left=40, right=132, top=51, bottom=40, font=11.5, full_labels=False, bands=False)
CARD = Size(430, 325, left=40, right=132, top=51, bottom=38, font=11.5, full_labels=False)
_LEAST_LABELS = 3
LETTER = 0.6  # width of a letter as a share of the font size, generous
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
        Sizes whose δ times the size is at least one.
    banner : str
        Warning printed on the figure, e.g. that the data are a stand-in.
    rows_symbol : str
        Symbol of the number of rows.
    """

    series: tuple[Series, ...]
    references: tuple[Reference, ...]
    limits: tuple[float, float]
    sizes: tuple[float, ...]
    flagged: tuple[float, ...]
    x_label: str
    y_label: str
    title: str = ""
    banner: str = ""
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


@dataclass(frozen=True)
class Frame:
    """The axes of one figure: ranges and positions of values."""

    spec: LineFigure
    size: Size

    @cached_property
    def x_range(self) -> tuple[float, float]:
        """Range of the size axis."""
        sizes = self.spec.sizes or (1.0, 10.0)
        return (min(sizes) / 1.12, max(sizes) * 1.12)

    @cached_property
    def x_ticks(self) -> list[float]:
        """Sizes to label: the figure's own where their numbers fit side by side, else round ones."""
        sizes = sorted(set(self.spec.sizes))
        if sizes and self._apart(sizes):
            return sizes
        dense = labeled_ticks(*self.x_range, (1, 2, 5))
        return dense if self.size.dense_ticks and self._apart(dense) else labeled_ticks(*self.x_range, (1,))

    def _apart(self, ticks: Sequence[float]) -> bool:
        """Whether the numbers of ticks fit side by side."""
        letter = LETTER * self.size.font / self.size.plot_width
        return all(
            self.across(b) - self.across(a) >= letter * (len(setting(a)) + len(setting(b)) + 2) / 2
            for a, b in pairwise(ticks)
        )

    @cached_property
    def failures(self) -> tuple[tuple[Series, Point], ...]:
        return tuple((s, p) for s in self.spec.series for p in s.points if not p.answered)

    @cached_property
    def y_range(self) -> tuple[float, float]:
        """Range of the error axis, with a strip on top for cells without an answer."""
        low, high = self.spec.limits
        stacked = max((sum(p.x == x for _, p in self.failures) for x in self.spec.sizes), default=0)
        if not stacked:
            return (low, high)
        strip = (14 + 9 * min(stacked, 5)) / self.size.plot_height
        return (low, high * (high / low) ** (strip / (1 - strip)))

    def across(self, x: float) -> float:
        """Place of a size as a share of the horizontal axis."""
        low, high = self.x_range
        return math.log(x / low) / math.log(high / low)

    def up(self, y: float) -> float:
        """Place of an error as a share of the vertical axis."""
        low, high = self.y_range
        return math.log(max(y, 1e-300) / low) / math.log(high / low)


def means(series: Series) -> tuple[list[float], list[float]]:
    """Return the sizes and mean errors of the cells that gave an answer."""
    points = [p for p in series.points if p.answered]
    return [p.x for p in points], [p.mean for p in points]


def line_color(series: Series) -> str:
    """Return the color of a line: the estimator's, black for non-private, gray for zero."""
    if series.role == "private":
        return palette.SERIES[palette.slot(series.info.order)]
    return palette.ZERO_LINE if series.role == "zero" else palette.NON_PRIVATE


def text_color(series: Series) -> str:
    """Return the color of a line's label: the same hue, dark enough to read."""
    if series.role == "private":
        return palette.SERIES_TEXT[palette.slot(series.info.order)]
    return palette.MUTED if series.role == "zero" else palette.NON_PRIVATE


def decade_ticks(low: float, high: float, steps: Sequence[int]) -> list[float]:
    """Return the multiples `steps` of every power of ten within a range."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [s * 10.0**p for p in powers for s in steps if low <= s * 10.0**p <= high]


def labeled_ticks(low: float, high: float, steps: Sequence[int]) -> list[float]:
    """Return `decade_ticks`, with finer steps where fewer than three would be left to read the axis by."""
    for finer in (steps, (1, 3), (1, 2, 5), range(1, 10)):
        if len(found := decade_ticks(low, high, finer)) >= _LEAST_LABELS:
            return found
    even = MaxNLocator(nbins=4, min_n_ticks=_LEAST_LABELS).tick_values(low, high)
    return [float(f"{tick:.12g}") for tick in even if low <= tick <= high]
