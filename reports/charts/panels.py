"""Small multiples: the best private method of every panel, next to the errors that it is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from data.results.table import LIMIT
from reports import palette
from reports.cells import Setting, rows_at, size_at
from reports.charts.drawing import Picture, draw_chart
from reports.charts.lines import Axes, focus_chart
from reports.page import StudyPage
from reports.palette import Look
from reports.ranking import rank
from reports.writing import render_sentence

_BEST, _LIMIT, _WITHOUT, _ZERO = "best private method", "the same, no noise", "without privacy", "zero"
_LOOKS = {
    _BEST: Look(palette.HUES[0], palette.SOLID, "", palette.HUES[0]),
    _LIMIT: Look(palette.HUES[0], palette.PRINTED_DASH, "", palette.HUES[0]),
    _WITHOUT: Look(palette.NON_PRIVATE, palette.SOLID, "", palette.NON_PRIVATE),
    _ZERO: Look(palette.ZERO_LINE, palette.ZERO_DOTS, "", palette.ZERO_LINE),
}


def draw_panels(
    page: StudyPage, errors: pd.DataFrame, settings: list[Setting], *, y_log: bool
) -> Picture | None:
    """Return a chart for each panel, at the first of some settings; None where there is one panel."""
    of_panel: dict[str, Setting] = {}
    for where in settings:
        of_panel.setdefault(where.panel, where)
    rows = [row for where in of_panel.values() for row in _rows_of(page, errors, where)]
    if len(panels := list(dict.fromkeys(row["panel"] for row in rows))) < 2:
        return None
    axes = Axes(page.axis.label, "", y_log=y_log, width=250, height=150)
    chart = focus_chart(rows, _LOOKS, axes, _BEST, labeled=False)
    top = {key: chart.pop(key) for key in ("data", "params", "transform")}
    facet = {
        "field": "panel",
        "type": "nominal",
        "sort": panels,
        "header": {"title": None, "labelLimit": 250},
    }
    scale = {"scale": {"x": "independent", "y": "independent"}}
    del chart["title"]
    drawn = {**top, "facet": facet, "columns": 3, "spec": chart, "resolve": scale}
    alt = render_sentence("figure_of_panels", page=page)
    return draw_chart(drawn, "panels", alt, page.data_source)


def _rows_of(page: StudyPage, errors: pd.DataFrame, where: Setting) -> Iterator[dict[str, Any]]:
    rows = rows_at(errors, where)
    ranking = rank(rows, size_at(rows, page) or 0.0)
    if (best := ranking.best) is None:
        return
    limit = [row for row in rows_at(errors, where._replace(epsilon=LIMIT)) if row.line == best.line]
    free = ranking.non_private.line if ranking.non_private else ""
    lines = {
        _BEST: [row for row in rows if row.line == best.line],
        _LIMIT: limit,
        _WITHOUT: [row for row in rows if row.line == free],
        _ZERO: [row for row in rows if row.role == "zero"],
    }
    title = f"{page.panel_title(where.panel)}: {best.name}"
    for line, known in lines.items():
        same: dict[str, Any] = {"panel": title, "line": line, "of": _BEST if line == _LIMIT else None}
        for row in known:
            band = {"low": row.low, "high": row.high} if line == _BEST else {"low": None, "high": None}
            if row.answered:
                yield {
                    **same,
                    **band,
                    **{key: getattr(row, key) for key in ("x", "mean", "role", "n_failed")},
                }
