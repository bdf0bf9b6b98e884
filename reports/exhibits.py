"""What a classification of frames shows: printed numbers beside ours, ROC curves, what was selected, film."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from reports import palette, svg
from reports.chart import line_color, text_color
from reports.figures import PRINTED_DASH, bare_axes
from reports.labels import add_banner
from reports.numbers import num, rule_text, setting, short
from reports.page import Exhibits, FilmFrame
from reports.picture import Picture, Shown, banner
from reports.svg import drawing, new_figure
from reports.view import Series, Setting, View

_RATE = re.compile(r"tpr_at_fpr_(\d\d)")
_MOMENTS = ("mean", "sd", "min", "25 %", "50 %", "75 %", "max")
_FONT = 11.5
_MOST_PANELS = 5
_EXTENT = (1500.0, 1100.0)  # half-widths of a film's frame, in pixels of the data


def draw_exhibits(view: View, summary: pd.DataFrame) -> tuple[Shown, ...]:
    """Return everything there is to show, nothing for a study without frames."""
    exhibits, where = view.page.exhibits, view.headline
    if exhibits is None or where is None:
        return ()
    shown = (
        _printed(view, exhibits, where),
        _roc(view, summary, where),
        _selection(view, exhibits, where),
        _film(view, exhibits),
        _compared(exhibits),
    )
    return tuple(item for item in shown if item is not None)


def _printed(view: View, exhibits: Exhibits, where: Setting) -> Shown | None:
    """The paper's table, and under each of its lines ours."""
    if not exhibits.printed:
        return None
    sizes = sorted({row.s for row in exhibits.printed})
    lines = dict.fromkeys((row.delta_rule, row.epsilon) for row in exhibits.printed)
    rows: list[tuple[str, ...]] = []
    for rule, epsilon in lines:
        cells = {row.s: row for row in exhibits.printed if (row.delta_rule, row.epsilon) == (rule, epsilon)}
        asked = (f"δ = {rule_text(rule)}", "ε = ∞" if math.isinf(epsilon) else f"ε = {setting(epsilon)}")
        printed = [f"{cells[s].mean:.2f} ({cells[s].spread:.2f})" if s in cells else "" for s in sizes]
        rows.append((*asked, "as printed in the paper, UCI data", *printed))
        without = math.isinf(epsilon)
        at = Setting(where.epsilon if without else epsilon, rule, where.prepare)
        for series in view.series(at):
            if series.role == ("nonprivate" if without else "private"):
                rows.append((*asked, f"here: {series.label}", *(_mean(series, s) for s in sizes)))
    source = "real" if view.page.dataset.data_source == "real" else "stand-in"
    text = (
        "Share of test frames misclassified. The paper's numbers are copied from its table, no results of "
        "this run; what its brackets hold is not said there, probably the standard deviation over splits. "
        f"Ours are on {source} data, with the standard error in brackets, panel “{where.prepare}”."
    )
    if exhibits.label_counts:
        rate = min(exhibits.label_counts) / sum(exhibits.label_counts)
        text += f" Calling every frame what most are called errs on {num(rate)}."
    columns = ("δ", "ε", "what", *(f"s = {setting(s)}" for s in sizes))
    return Shown("The paper's table beside ours", text, None, columns, tuple(rows), 3)


def _mean(series: Series, s: float) -> str:
    point = series.at(s)
    if point is None:
        return "not run"
    if not point.answered:
        return point.status
    return f"{point.mean:.3f} ({point.se:.3f})" if math.isfinite(point.se) else f"{point.mean:.3f}"


def _roc(view: View, summary: pd.DataFrame, where: Setting) -> Shown | None:
    x = view.headline_size
    curves = []
    for series in view.series(where):
        point = None if x is None else series.at(x)
        if point is None or series.role == "zero":
            continue
        rows = summary[summary["cell"] == point.cell].set_index("metric")["mean"]
        found = {int(m[1]) / 100: float(rows[name]) for name in rows.index if (m := _RATE.fullmatch(name))}
        if found and all(map(math.isfinite, found.values())):
            rates = sorted(found)
            hits = [0.0, *(found[rate] for rate in rates), 1.0]
            curves.append((series, [0.0, *rates, 1.0], hits, float(rows.get("auc", math.nan))))
    if not curves or x is None:
        return None
    curves.sort(key=lambda curve: -curve[3])
    best = "; ".join(f"{series.label} {area:.2f}" for series, _, _, area in curves)
    text = f"At {view.page.x_symbol} = {setting(x)}, means over repetitions. Area under the curve: {best}."
    figure = _roc_figure(view, curves)
    return Shown("ROC curves", text, _picture(view, "roc", f"ROC curves. {text}", figure))


def _roc_figure(view: View, curves: list[tuple[Series, list[float], list[float], float]]) -> Figure:
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


def _selection(view: View, exhibits: Exhibits, where: Setting) -> Shown | None:
    x = view.headline_size
    panels = []
    for series in view.series(where):
        point = None if x is None else series.at(x)
        if point is not None and exhibits.selected.get(point.cell) and point.n_ok:
            panels.append((series, exhibits.selected[point.cell], point.n_ok))
    panels = panels[:_MOST_PANELS]
    if not panels or x is None:
        return None
    text = " ".join(_selected_words(exhibits, *panel) for panel in panels)
    figure = _selection_figure(view, exhibits, panels)
    alt = f"Which features of which boids are selected at {view.page.x_symbol} = {setting(x)}. {text}"
    return Shown("Which boids and features are selected", text, _picture(view, "selected", alt, figure))


def _selected_words(exhibits: Exhibits, series: Series, counts: Mapping[str, int], repetitions: int) -> str:
    by_feature: dict[str, int] = {}
    for column, count in counts.items():
        feature = re.sub(r"\d+$", "", column)
        by_feature[feature] = by_feature.get(feature, 0) + count
    total = sum(by_feature.values())
    often = sorted(by_feature.items(), key=lambda item: -item[1])[:3]
    stable = sum(count == repetitions for count in counts.values())
    named = ", ".join(f"{name} {short(100 * count / total)} %" for name, count in often)
    return f"{series.label}: {named} of what is selected; {stable} features in every repetition."


def _selection_figure(
    view: View, exhibits: Exhibits, panels: list[tuple[Series, Mapping[str, int], int]]
) -> Figure:
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


def _film(view: View, exhibits: Exhibits) -> Shown | None:
    if not exhibits.film:
        return None
    text = (
        "The first simulation that is labelled as a flock, and the first that is not: frames of 200 boids, "
        "each a line as long as five of its steps. These are simulated; real frames are never shown."
    )
    return Shown(
        "What the flock looks like", text, _picture(view, "film", text, _film_figure(view, exhibits))
    )


def _film_figure(view: View, exhibits: Exhibits) -> Figure:
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


def _compared(exhibits: Exhibits) -> Shown | None:
    if not exhibits.summary:
        return None
    rows = []
    for row in exhibits.summary:
        rows.append((row.column, "published", *map(_plain, row.published)))
        rows.append(("", "simulated", *map(_plain, row.simulated)))
    text = (
        "The stand-in beside what is published of the copy on Kaggle, a related file: "
        f"{exhibits.summary_source}. The simulation was adjusted to come near these numbers, so that "
        "agreement is no evidence."
    )
    heading = "How near the stand-in comes to what is published"
    return Shown(heading, text, None, ("column", "", *_MOMENTS), tuple(rows), 2)


def _plain(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _picture(view: View, name: str, text: str, figure: Figure) -> Picture:
    warning = banner(view.page.dataset.data_source)
    alt = f"{warning}. {text}" if warning else text
    return Picture(name, alt, svg.to_svg(figure, name, alt), svg.to_png(figure))


def _warn(fig: Figure, view: View, width: float, height: float) -> None:
    if text := banner(view.page.dataset.data_source, brief=True):
        add_banner(fig, text, 1 - 12 / width, 1 - 8 / height, _FONT * 0.92)
