"""One chart of a study for a paper: the page's chart at a choice, in a width and a format, with its data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pandas as pd

from reports.cells import cells_of, errors_of, panels_of, settings_of
from reports.charts.drawing import CONFIG
from reports.charts.study import NEW_SAMPLE, SIZES, StudyChart
from reports.page import StudyPage
from reports.ranking import PageHeadline, first_lines, headline_of
from reports.results import summarize
from reports.writing import spreadsheet_text

Format = Literal["pdf", "svg", "png"]
POINTS_PER_INCH, PNG_PIXELS_PER_INCH = 72, 300
_ASPECT = 0.55  # height over width of the plot
_SMALL: dict[str, Any] = {
    "axis": {"labelFontSize": 8, "titleFontSize": 9},
    "legend": {"labelFontSize": 8},
    "text": {"fontSize": 9},
}
_COLUMNS = ["line", "estimator", "form", "calibration", "panel", "delta_rule", "x"]
_COLUMNS += ["mean", "se", "low", "high", "n", "n_ok", "n_failed"]


class FigureError(ValueError):
    """A choice that the study does not have; the message says which there are."""


@dataclass(frozen=True, kw_only=True)
class FigureChoice:
    """The content of a figure: the page's first view where nothing is chosen.

    ``width`` is that of the whole figure, in inches; ``lines`` are names of the chart's lines.
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
    summary = summarize(results)
    page = _with_axis(summary, page, choice)
    cells = cells_of(summary, page)
    head = _headline(cells, page, choice)
    for name in choice.lines:
        _require("--lines", name, [*(row.line for row in head.rows), NEW_SAMPLE])
    lines = choice.lines or [*first_lines(head.rows, head.x, page), NEW_SAMPLE]
    chart = StudyChart.build(page, cells, head)
    selection: dict[str, Any] = {"metric": choice.metric} if choice.metric else {}
    selection |= {page.axis.column: head.x, **({"axis": choice.axis} if choice.axis else {})}
    chart = replace(chart, choice={**chart.choice, **selection})
    rows = chart.chosen(lines)[_COLUMNS]
    data = rows.rename(columns={"low": "q10", "high": "q90"}).map(spreadsheet_text).to_csv(index=False)
    width = choice.width * POINTS_PER_INCH
    drawn = chart.of_lines(lines, width=width, height=max(120, round(_ASPECT * width)), pad=2)
    return _in_format(drawn, choice.format), data.encode()


def _with_axis(summary: pd.DataFrame, page: StudyPage, choice: FigureChoice) -> StudyPage:
    _require("--metric", choice.metric, sorted(summary["metric"].unique()))
    _require("--axis", choice.axis, [*(size for size in SIZES if summary[size].notna().any()), "epsilon"])
    axis = choice.axis if choice.axis not in ("", "epsilon") else page.axis.column
    metric = choice.metric or page.metric
    label = page.metric_label if metric == page.metric else ""
    return replace(page, axis=replace(page.axis, column=axis), metric=metric, metric_label=label)


def _require(option: str, value: Any, known: Sequence[Any]) -> None:
    if value not in (None, "", *known):
        raise FigureError(f"{option} must be one of {', '.join(map(str, known))}, got {value!r}")


def _headline(cells: pd.DataFrame, page: StudyPage, choice: FigureChoice) -> PageHeadline:
    errors = errors_of(cells, page)
    settings = settings_of(errors, page)
    if not settings:
        raise FigureError("no private estimator has run in this study, so there is nothing to draw")
    _require("--panel", choice.panel, panels_of(errors, page))
    _require("--delta", choice.delta_rule, sorted({each.delta_rule for each in settings}))
    _require("--epsilon", choice.epsilon, sorted({each.epsilon for each in settings}))
    chosen: dict[str, Any] = {
        "epsilon": choice.epsilon,
        "delta_rule": choice.delta_rule,
        "panel": choice.panel,
    }
    where = settings[0]._replace(**{key: value for key, value in chosen.items() if value not in (None, "")})
    headline = headline_of(cells, replace(page, headline={**page.headline, **where._asdict()}))
    if headline is None or headline.where != where:
        at = f"ε = {where.epsilon:g}, δ = {where.delta_rule}, panel {where.panel!r}"
        raise FigureError(f"the study has no private estimates at {at}")
    return headline


def _in_format(chart: dict[str, Any], form: Format) -> bytes:
    import vl_convert

    config = {**CONFIG, **{part: {**CONFIG[part], **looks} for part, looks in _SMALL.items()}}
    svg = vl_convert.vegalite_to_svg(chart, config=config, allowed_base_urls=[])
    svg = re.sub(r'(<svg[^>]*? width=")[\d.]+', rf"\g<1>{chart['width']:g}", svg, count=1)
    if form == "pdf":
        return bytes(vl_convert.svg_to_pdf(svg))
    if form == "png":
        return bytes(vl_convert.svg_to_png(svg, scale=PNG_PIXELS_PER_INCH / POINTS_PER_INCH))
    return svg.encode()
