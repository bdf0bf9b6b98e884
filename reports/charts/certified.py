"""The picture of certified and audited ε, a line for each private estimator of a page's headline."""

from __future__ import annotations

import math
from typing import Any

from reports import palette
from reports.cells import lines_of
from reports.charts.drawing import Chart, Picture, draw_chart, field, marks
from reports.page import StudyPage
from reports.ranking import PageHeadline
from reports.writing import render_sentence, setting, span


def certified_picture(page: StudyPage, head: PageHeadline) -> Picture | None:
    """Draw the certified and the audited ε of each private line at the headline's setting."""
    rows, proved, epsilon = [], [], head.where.epsilon
    for line in lines_of(head.rows):
        first, known = line[0], [row.certified for row in line if math.isfinite(row.certified)]
        if first.role != "private" or not known:
            continue
        smallest = epsilon / 1000  # a log axis has no place for 0
        audited = max((row.audited for row in line if math.isfinite(row.audited)), default=math.nan)
        limits = {"low": max(min(known), smallest), "high": max(*known, smallest)}
        rows.append({"name": first.line, **limits, "audited": audited if audited > 0 else None,
                     "c": first.look.color, "fill": first.look.fill})  # fmt: skip
        proved.append((first.label, span(known), audited))
    if not rows:
        return None
    alt = render_sentence("certified_picture", epsilon=epsilon, proved=proved)
    return draw_chart(_certified_chart(rows, epsilon), "certified", alt, page.source_of(head.where.panel))


def _certified_chart(rows: list[dict[str, Any]], target: float) -> Chart:
    axis = {"title": "certified ε, log scale", "tickCount": 4, "format": "~g"}
    x = field("low:Q", scale={"type": "log", "padding": 24}, axis=axis)
    names = {"title": None, "labelLimit": 420, "labelColor": palette.INK}
    y, color = field("name:N", sort=None, axis=names), field("c:N", scale=None)
    line, at = [{"target": target, "text": f"target: {setting(target)}"}], {"x": field("target:Q")}
    dots: dict[str, Any] = {"size": 60, "opacity": 1}
    shade = {"y": y, "stroke": color, "fill": field("fill:N", scale=None)}
    ends = [marks(rows, "point", {"x": place, **shade}, **dots) for place in (x, field("high:Q"))]
    triangle: dict[str, Any] = {"shape": "triangle-right", "filled": True, "size": 80, "opacity": 1}
    layers = [
        marks(line, "rule", at, strokeDash=[4, 2], color=palette.INK),
        marks(line, "text", {**at, "y": {"value": 0}, "text": field("text:N")}, dy=-8, baseline="bottom"),
        marks(
            rows, "rule", {"x": x, "x2": field("high"), "y": y, "color": color}, strokeWidth=4, opacity=0.5
        ),
        *ends,
        marks(rows, "point", {"x": field("audited:Q"), "y": y, "color": color}, **triangle),
    ]
    return {"layer": layers, "width": 300, "height": {"step": 26}}
