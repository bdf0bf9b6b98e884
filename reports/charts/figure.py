"""The chart of a study for a paper: the first view of its page, in a width and a format, with its data."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import pandas as pd

from data.errors import DataError
from data.results.summary import summarize
from dpalgos.survival.curves import SurvivalCurves
from reports.cells import errors_of, settings_of
from reports.charts.drawing import CONFIG, Chart, with_visible_names
from reports.charts.lines import LINE_HEIGHT
from reports.charts.study import StudyChart
from reports.charts.survival import survival_chart
from reports.new_sample import page_cells
from reports.page import StudyPage
from reports.ranking import headline_of
from reports.writing import spreadsheet_text

Format = Literal["pdf", "svg", "png"]
POINTS_PER_INCH, PNG_PIXELS_PER_INCH = 72, 300
_ASPECT, _LEAST_PLOT = 0.55, 0.4  # height of the plot, and its least width, over the width of the figure
_PER_CHARACTER = 5.0  # points of a title
_SIZE = re.compile(r'width="([\d.]+)" height="([\d.]+)"')
_SMALL: dict[str, Any] = {
    "axis": {"labelFontSize": 8, "titleFontSize": 9},
    "legend": {"labelFontSize": 8},
    "text": {"fontSize": 9},
}
_COLUMNS = ["line", "estimator", "form", "calibration", "panel", "delta_rule", "x"]
_COLUMNS += ["mean", "se", "low", "high", "n", "n_ok", "n_failed"]


def draw_figure(results: pd.DataFrame, page: StudyPage, form: Format, inches: float) -> tuple[bytes, bytes]:
    """Return a figure of a width in inches, and its data as CSV: the first view of the page's chart."""
    cells = page_cells(summarize(results), results, page).cells
    settings = settings_of(errors_of(cells, page), page)
    if not settings:
        raise DataError("no private estimator has run in this study, so there is nothing to draw")
    head = headline_of(cells, replace(page, headline={**page.headline, **settings[0]._asdict()}))
    if head is None or head.where != settings[0]:
        at = f"ε = {settings[0].epsilon:g}, δ = {settings[0].delta_rule}, panel {settings[0].panel!r}"
        raise DataError(f"the study has no private estimates at {at}")
    chart = StudyChart.build(page, cells, head)
    chart = replace(chart, choice={**chart.choice, page.axis.column: head.x})
    width = inches * POINTS_PER_INCH
    height = max(120, round(_ASPECT * width))
    others = {row.line: None for row in head.rows if row.role in ("nonprivate", "zero")}
    most = max(1, height // LINE_HEIGHT - len(others))
    lines = [*[row.line for row in head.ranking.private[:most]], *others]
    rows = chart.chosen(lines)[_COLUMNS]
    data = rows.rename(columns={"low": "q10", "high": "q90"}).map(spreadsheet_text).to_csv(index=False)

    def drawn(plot: float) -> Chart:
        return chart.of_lines(lines, focus=lines[0], width=plot, height=height)

    return _in_format(drawn, form, width), data.encode()


def draw_curves(curves: SurvivalCurves, form: Format, inches: float) -> tuple[bytes, bytes]:
    """Return the figure of released survival curves, and its data as CSV."""
    width = inches * POINTS_PER_INCH
    height = max(120, round(_ASPECT * width))
    figure = _in_format(lambda plot: survival_chart(curves, plot, height), form, width)
    return figure, curves.frame().map(spreadsheet_text).to_csv(index=False).encode()


def _in_format(chart_of: Callable[[float], Chart], form: Format, width: float) -> bytes:
    """Return a figure of a width in points; the plot is as wide as what stands next to it leaves room for."""
    import vl_convert

    config = {**CONFIG, **{part: {**CONFIG[part], **looks} for part, looks in _SMALL.items()}}

    def drawn(plot: float, limit: float) -> tuple[str, float, float]:
        chart = chart_of(plot)
        if title := chart.get("title"):  # above the plot and what stands next to it
            lines = textwrap.wrap(title["text"], round(limit / _PER_CHARACTER))
            chart = {**chart, "title": {**title, "text": lines, "fontSize": 9, "limit": limit}}
        svg = vl_convert.vegalite_to_svg(with_visible_names(chart), config=config, allowed_base_urls=[])
        size = _SIZE.search(svg)
        assert size
        return svg, float(size[1]), float(size[2])

    _, whole, _ = drawn(width, width)
    beside = whole - width
    plot = max(_LEAST_PLOT * width, width - beside)
    svg, whole, height = drawn(plot, plot + beside)
    svg = _SIZE.sub(f'width="{width:g}" height="{height * width / whole:g}"', svg, count=1)
    if form == "pdf":
        return bytes(vl_convert.svg_to_pdf(svg))
    if form == "png":
        return bytes(vl_convert.svg_to_png(svg, scale=PNG_PIXELS_PER_INCH / POINTS_PER_INCH))
    return svg.encode()
