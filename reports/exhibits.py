"""What a classification of frames shows: printed numbers beside ours, ROC curves, what was selected, film."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from reports import svg
from reports.exhibit_figures import film_figure, roc_figure, selection_figure
from reports.numbers import num, rule_text, setting, short, words
from reports.page import Exhibits
from reports.picture import Picture, Shown, banner
from reports.series import Series, Setting, View

_RATE = re.compile(r"tpr_at_fpr_(\d\d)")
_MOMENTS = ("mean", "sd", "min", "25 %", "50 %", "75 %", "max")
_MOST_PANELS = 5


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
        text += f" Calling every frame what most are called errs on {num(rate)}." + _chance(view, where, rate)
    columns = ("δ", "ε", "what", *(f"s = {setting(s)}" for s in sizes))
    return Shown("The paper's table beside ours", text, None, columns, tuple(rows), 3)


def _chance(view: View, where: Setting, rate: float) -> str:
    """Say of which estimators the printed noise leaves nothing better than chance, within two errors."""
    x = view.headline_size
    points = [(s, s.at(x)) for s in view.series(where) if x is not None and s.calibration == "paper"]
    lost = [
        f"{series.label} ({num(point.mean)})"
        for series, point in points
        if point is not None and point.answered and point.mean + 2 * point.se >= rate
    ]
    if not lost or x is None:
        return ""
    at = f"ε = {setting(where.epsilon)} and {view.page.x_symbol} = {setting(x)}"
    return f" No better than that, within two standard errors, at {at}: {words(lost)}."


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
    figure = roc_figure(view, curves)
    return Shown("ROC curves", text, _picture(view, "roc", f"ROC curves. {text}", figure))


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
    figure = selection_figure(view, exhibits, panels)
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


def _film(view: View, exhibits: Exhibits) -> Shown | None:
    if not exhibits.film:
        return None
    text = (
        "The first simulation that is labelled as a flock, and the first that is not: frames of 200 boids, "
        "each a line as long as five of its steps. These are simulated; real frames are never shown."
    )
    return Shown("What the flock looks like", text, _picture(view, "film", text, film_figure(view, exhibits)))


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
