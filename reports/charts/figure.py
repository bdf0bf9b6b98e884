"""One chart of a study for a paper: the page's view, in a width and a format, with the data behind it."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import pandas as pd

from reports.analysis.ranking import first_lines
from reports.analysis.results import summarize
from reports.analysis.series import Series, Setting, View, nearest_value
from reports.charts.explorer import metric_words
from reports.charts.line_chart import Frame, line_chart
from reports.charts.picture import NO_SPACE, can_draw, specification
from reports.charts.study_charts import along_epsilon, error_limits, has_one_size, series_line
from reports.page import StudyPage
from reports.writing import spreadsheet_text

Format = Literal["pdf", "svg", "png"]
FORMATS: tuple[str, ...] = get_args(Format)
POINTS_PER_INCH, PNG_PIXELS_PER_INCH = 72, 300
_ASPECT = 0.66  # height over width of the plot
_NARROW, _NAME = 4.5 * POINTS_PER_INCH, 12  # below which names stand above the lines; the height of one
_SMALL = {"labelFontSize": 8, "titleFontSize": 9}


class FigureError(ValueError):
    """A choice that the study does not have; the message says which there are."""


@dataclass(frozen=True, kw_only=True)
class FigureChoice:
    """What a figure shows: the page's first view where nothing is chosen.

    ``width`` is that of the whole figure, in inches; ``lines`` are names at the ends of the chart's lines.
    """

    metric: str = ""
    panel: str = ""
    axis: str = ""
    epsilon: float | None = None
    delta_rule: str = ""
    lines: tuple[str, ...] = ()
    format: Format = "pdf"
    width: float = 6.5


def draw_figure(results: pd.DataFrame, page: StudyPage, choice: FigureChoice) -> tuple[bytes, bytes]:
    """Return a figure and its data as CSV; raise `FigureError` for what the study does not have."""
    if not can_draw():
        raise FigureError(NO_SPACE)
    summary = summarize(results)
    view = View.build(summary, _with_choices(summary, page, choice))
    where = _setting(view, choice)
    x = view.size_at(where)
    if x is None:
        raise FigureError(f"panel {where.panel!r} has no private answer to draw")
    series: Sequence[Series] = _chosen(view, where, x, choice.lines)
    along = choice.axis == "epsilon" or (not choice.axis and has_one_size(view))
    if along:
        series = along_epsilon(view, where, series, x)
    svg = _svg(view, series, "ε" if along else view.page.axis.label, choice.width)
    return _in_format(svg, choice.format), _csv(series, where).encode()


def _with_choices(summary: pd.DataFrame, page: StudyPage, choice: FigureChoice) -> StudyPage:
    axis = choice.axis if choice.axis not in ("", "epsilon") else page.axis.column
    known = {"--metric": sorted(summary["metric"].unique()), "--axis": ["n", "d", "s", "steps", "epsilon"]}
    _require("--metric", choice.metric, known["--metric"])
    _require("--axis", choice.axis, known["--axis"])
    if not summary[axis].notna().any():
        raise FigureError(f"--axis must be a size that this study varies, got {axis!r}")
    if choice.metric in ("", page.metric):
        return replace(page, axis=replace(page.axis, column=axis))
    words = metric_words(choice.metric, page)
    return replace(
        page, axis=replace(page.axis, column=axis), metric=choice.metric, metric_label=words["label"]
    )


def _require(option: str, value: str, known: Sequence[str]) -> None:
    if value and value not in known:
        raise FigureError(f"{option} must be one of {', '.join(known)}, got {value!r}")


def _setting(view: View, choice: FigureChoice) -> Setting:
    head = view.headline
    if head is None:
        raise FigureError("no private estimator has run in this study, so there is nothing to draw")
    _require("--panel", choice.panel, view.panels)
    _require("--delta", choice.delta_rule, view.rules)
    epsilon = head.epsilon if choice.epsilon is None else choice.epsilon
    if nearest_value(view.epsilons, epsilon) != epsilon:
        raise FigureError(f"--epsilon must be one of {', '.join(map(str, view.epsilons))}, got {epsilon:g}")
    where = Setting(epsilon, choice.delta_rule or head.delta_rule, choice.panel or head.panel)
    if where not in view.settings:
        raise FigureError(
            f"the study has no answers at ε = {epsilon:g} and δ = {where.delta_rule} in {where.panel}"
        )
    return where


def _chosen(view: View, where: Setting, x: float, names: Sequence[str]) -> tuple[Series, ...]:
    if not names:
        return first_lines(view, where, x)
    known = {series.brief: series for series in view.series(where)}
    for name in names:
        _require("--lines", name, list(known))
    return tuple(known[name] for name in names)


def _svg(view: View, series: Sequence[Series], title: str, width: float) -> str:
    """Return the chart in a width: drawn, measured, and drawn again with what is left for the plot."""
    wanted = width * POINTS_PER_INCH
    width_of_first, _ = _size_of(_drawn(view, series, title, wanted, 0.6 * wanted))
    svg = _drawn(view, series, title, wanted, 1.6 * wanted - width_of_first)
    drawn_width, height = _size_of(svg)
    scaled = f'width="{wanted:g}" height="{height * wanted / drawn_width:.2f}"'  # its viewBox stays
    return svg.replace(f'width="{drawn_width:g}" height="{height:g}"', scaled, 1)


def _drawn(view: View, series: Sequence[Series], title: str, wanted: float, inner: float) -> str:
    import vl_convert

    sizes, low, high = sorted({p.x for s in series for p in s.points}), *error_limits(series)
    lines = [series_line(s, sizes) for s in series]
    height, marks = round(max(120, _ASPECT * inner)), dict[str, Sequence[Mapping[str, Any]]]()
    if wanted < _NARROW:  # the names stand above the lines, since there is no room next to them
        taller = 1 + _NAME * len(lines) / height
        high, height = low * (high / low) ** taller, round(height * taller)
        marks["labels"] = [
            {
                "px": 6,
                "py": _NAME * (i + 0.6),
                "text": f"{one.look.symbol} {one.label}",
                "c": one.look.ink,
            }
            for i, one in enumerate(lines)
        ]
        lines = [replace(one, label="") for one in lines]
    frame = Frame(
        x_title=title,
        y_title=view.page.metric_label,
        x=(sizes[0] / 1.06, sizes[-1] * 1.06),
        y=(low, high),
        x_ticks=sizes,
        width=max(60, round(inner)),
        height=height,
        marks=marks,
    )
    chart = specification(line_chart(lines, frame))
    small = {**chart["config"], "text": {"fontSize": 9}, "axis": {**chart["config"]["axis"], **_SMALL}}
    return str(vl_convert.vegalite_to_svg({**chart, "config": small, "padding": 2}))


def _size_of(svg: str) -> tuple[float, float]:
    found = re.search(r'<svg[^>]* width="([\d.]+)" height="([\d.]+)"', svg)
    assert found
    return float(found[1]), float(found[2])


def _in_format(svg: str, form: Format) -> bytes:
    import vl_convert

    if form == "pdf":
        return bytes(vl_convert.svg_to_pdf(svg))
    if form == "png":
        return bytes(vl_convert.svg_to_png(svg, scale=PNG_PIXELS_PER_INCH / POINTS_PER_INCH))
    return svg.encode()


def _csv(series: Sequence[Series], where: Setting) -> str:
    rows = [
        {
            "line": one.brief,
            "estimator": one.info.name,
            "form": one.form,
            "calibration": one.calibration,
            "panel": where.panel,
            "delta_rule": where.delta_rule,
            "x": point.x,
            "mean": point.mean,
            "se": point.se,
            "q10": point.q10,
            "q90": point.q90,
            "n": point.n,
            "n_ok": point.n_ok,
            "n_failed": point.n_failed,
        }
        for one in series
        for point in one.points
    ]
    out = io.StringIO()
    pd.DataFrame(rows).map(spreadsheet_text).to_csv(out, index=False)
    return out.getvalue()
