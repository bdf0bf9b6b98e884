"""Line charts as Vega-Lite: lines with bands and points, and a legend.

A page's chart, its static picture and a figure for a paper are the same specification in other sizes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports import palette
from reports.charts.drawing import Chart, field, marks
from reports.palette import Look

_WIDE = 520  # pixels of a plot from which on the legend has two columns
LINE_HEIGHT = 16  # pixels
_OWN = {palette.NON_PRIVATE, palette.ZERO_LINE}  # colors of lines that are never gray
_IN_RANGE = "datum.value < domain('x')[0] || datum.value > domain('x')[1] ? '' : datum.label"


@dataclass(frozen=True)
class Line:
    """A line: (x, y) of its points, its look, and the lower and upper limits of its band if it has one."""

    label: str
    points: Sequence[tuple[float, float]]
    look: Look
    band: Sequence[tuple[Any, Any]] = ()


@dataclass(frozen=True)
class Axes:
    """Titles and ticks of the axes, and the chart's size in pixels; omitted ranges follow from the data."""

    x_title: str | Mapping[str, str]
    y_title: str | Mapping[str, str]
    x_ticks: Sequence[float] | Mapping[str, str] = ()
    x_log: bool = True
    y_log: bool = True
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    bars: bool = False  # bands are error bars
    width: float | str = 660
    height: int = 360


def guide(label: str, points: Sequence[tuple[float, float]], dash: tuple[int, ...] = palette.SOLID) -> Line:
    """Return a thin gray line, of theory or of a limit."""
    return Line(label, points, palette.guide_look(dash))


def line_chart(lines: Sequence[Line], axes: Axes) -> Chart:
    """Return the chart of some lines with a legend; a row of its data has its own looks."""
    rows = [
        {"line": line.label, "x": x, "mean": y, "low": low, "high": high,
         "color": line.look.color, "dash": line.look.dash, "width": line.look.width}
        for line in lines
        for (x, y), (low, high) in zip(
            line.points, line.band or [(None, None)] * len(line.points), strict=True
        )
    ]  # fmt: skip
    at, line = _positions(axes), field("line:N")
    color = {"color": field("color:N", scale=None)}
    limits = {"x": at["x"], "y": field("low:Q"), "y2": field("high"), **color, "detail": line}
    band: dict[str, Any] = {"opacity": 1.0 if axes.bars else 0.12}
    strokes = {**at, **color, "strokeDash": field("dash:N", scale=None), "detail": line}
    strokes["strokeWidth"] = field("width:Q", scale=None)
    return {
        "data": {"values": [_positive(row) if axes.y_log else row for row in rows]},
        "layer": [
            marks(None, "rule" if axes.bars else "area", limits, only="isValid(datum.low)", **band),
            marks(None, "line", strokes),
            _dots({line.label: line.look for line in lines}, at, _legend(axes.width)),
        ],
        "title": {"text": axes.y_title, "fontSize": 12, "limit": {"expr": "width"}, "offset": 10},
        "width": axes.width,
        "height": axes.height,
        "autosize": {"type": "fit-x", "contains": "padding"},
    }


def focus_chart(
    rows: Sequence[Mapping[str, Any]],
    looks: Mapping[str, Look],
    axes: Axes,
    focus: str,
    *,
    tooltip: str = "",
    labeled: bool = True,
) -> Chart:
    """Return a chart with one private line in color, the others gray, and names at the ends of lines.

    Where the chart is live, with a ``tooltip``, the page writes the names, and a line follows the pointer.
    """
    at, line = _positions(axes), field("line:N")
    styles = {
        name: {"color": look.color, "dash": look.dash, "own": look.color in _OWN}
        for name, look in looks.items()
    }
    first = "datum.line == focus"
    own = f"{first} || datum.of == focus || styles[datum.line].own"
    color = f"datum.of == focus ? styles[focus].color : {own} ? styles[datum.line].color : '{palette.GUIDE}'"
    drawn: list[Chart] = [
        {"calculate": f"datum.mean > 0 || {str(not axes.y_log).lower()} ? datum.mean : null", "as": "mean"},
        {"calculate": color, "as": "color"},
        {"calculate": "styles[datum.line].dash", "as": "dash"},
        {"calculate": f"{first} ? 3 : {own} ? 1.8 : 1.1", "as": "width"},
    ]
    ink = {"color": field("color:N", scale=None)}
    strokes = {**at, **ink, "strokeDash": field("dash:N", scale=None), "detail": line}
    strokes |= {"strokeWidth": field("width:Q", scale=None), "order": field("x:Q")}
    limits = {"x": at["x"], "y": field("low:Q"), "y2": field("high"), **ink, "detail": line}
    free, dots = "datum.role == 'nonprivate'", {"filled": True, "opacity": 1, "size": 46}
    failed = {"text": "×", "fontSize": 17, "fontWeight": "bold"}
    values = [_positive(row) if axes.y_log else dict(row) for row in rows]
    last: list[Chart] = [
        {"joinaggregate": [{"op": "max", "field": "x", "as": "end"}], "groupby": ["line"]},
        {"filter": "datum.x == datum.end && isValid(datum.mean)"},
    ]
    layers = [
        marks(None, "area", limits, only=f"{first} && isValid(datum.low)", opacity=0.14),
        marks(None, "line", strokes),
        marks(None, "point", {**at, **ink}, only=f"({first} || {free}) && isValid(datum.mean)", **dots),
        marks(None, "text", {**at, **ink}, only="datum.n_failed > 0 && isValid(datum.mean)", **failed),
    ]  # fmt: skip
    if tooltip:
        hover = {
            "type": "point",
            "fields": ["x"],  # and no channel: the nearest point is that in both directions
            "nearest": True,
            "on": "pointermove",
            "clear": "pointerout",
        }
        words = {"expr": tooltip.replace("datum.", "(datum.datum || datum).")}
        pick = marks(None, "point", at, only="isValid(datum.mean)", opacity=0, size=90, tooltip=words)
        hovered: list[Chart] = [{"filter": {"param": "hover", "empty": False}}]
        hovered.append({"aggregate": [], "groupby": ["x"]})  # one line, not one for each row
        layers.insert(0, {**marks(None, "rule", {"x": at["x"]}, color=palette.AXIS), "transform": hovered})
        layers.append({**pick, "name": "all", "params": [{"name": "hover", "select": hover}]})
        layers.append({**marks(None, "point", at, opacity=0), "name": "ends", "transform": last})
    elif labeled:
        layers.append(_names_at_ends(values, styles, axes, focus))
    return {
        "data": {"values": values},
        "params": [{"name": "styles", "value": styles}, {"name": "focus", "value": focus}],
        "transform": drawn,
        "layer": layers,
        "title": {"text": axes.y_title, "fontSize": 12, "limit": {"expr": "width"}, "offset": 10},
        "width": axes.width,
        "height": axes.height,
        **({"autosize": {"type": "fit-x", "contains": "padding"}} if tooltip else {}),
    }


def _names_at_ends(
    rows: Sequence[Mapping[str, Any]], styles: Mapping[str, Any], axes: Axes, focus: str
) -> Chart:
    """Return the names of lines, right of the last points and moved apart where they would overlap."""
    ends: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if row["mean"] is not None and (row["line"] not in ends or row["x"] > ends[row["line"]]["x"]):
            ends[row["line"]] = row
    scale = math.log if axes.y_log else float
    values = [r[key] for r in rows for key in ("mean", "low", "high") if key == "mean" or r["line"] == focus]
    known = [scale(v) for v in values if v is not None and (v > 0 or not axes.y_log)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    names: list[dict[str, Any]] = []
    for row in sorted(
        (r for r in ends.values() if not axes.y_log or r["mean"] > 0), key=lambda r: -r["mean"]
    ):
        at = (high - scale(row["mean"])) / ((high - low) or 1) * (axes.height - 12) + 6
        own = row["line"] == focus or styles[row["line"]]["own"]
        text = row["line"].removesuffix(", tight")
        names.append({"text": text, "py": at, "bold": row["line"] == focus,
                      "ink": palette.INK if own else palette.MUTED})  # fmt: skip
    for before, after in itertools.pairwise(names):
        after["py"] = max(after["py"], before["py"] + LINE_HEIGHT)
    over = names[-1]["py"] - axes.height if names else 0
    for each in names if over > 0 else ():
        each["py"] -= over * each["py"] / names[-1]["py"]
    place = {
        "x": {"value": float(axes.width) + 10},
        "y": field("py:Q", scale=None, axis=None),
        "text": field("text:N"),
    }
    bold = {"expr": "datum.bold ? 'bold' : 'normal'"}
    return marks(
        names,
        "text",
        {**place, "color": field("ink:N", scale=None)},
        align="left",
        clip=False,
        fontWeight=bold,
    )


def _positive(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row for a log axis, on which a band that reaches zero ends at its mean."""
    low = row.get("low")
    return {**row, "low": row["mean"] if low is not None and not low > 0 else low}


def _positions(axes: Axes) -> dict[str, Any]:
    x_axis: dict[str, Any] = {"title": axes.x_title or None, "format": ",.9~g", "labelExpr": _IN_RANGE}
    x_axis["titleLimit"] = {"expr": "width"}
    if axes.x_ticks:
        x_axis["values"] = axes.x_ticks if isinstance(axes.x_ticks, Mapping) else list(axes.x_ticks)
    scale: dict[str, Any] = {"nice": False}
    kind: dict[bool, Any] = {True: {"type": "log"}, False: {"type": "linear", "zero": False}}
    x_scale = {**scale, **kind[axes.x_log], **({"domain": axes.x_range} if axes.x_range else {"padding": 8})}
    y_scale = {**scale, **kind[axes.y_log], **({"domain": axes.y_range} if axes.y_range else {"padding": 6})}
    y_axis = {"title": None, "format": ".3~g"}
    return {"x": field("x:Q", scale=x_scale, axis=x_axis), "y": field("mean:Q", scale=y_scale, axis=y_axis)}


def _legend(width: Any) -> Chart:
    columns = 2 if width > _WIDE else 1
    return {"labelLimit": width / columns - 25, "columns": columns}


def _dots(looks: Mapping[str, Look], at: Chart, legend: Chart) -> Chart:
    """Return the layer of points; the legend has these, and the dashes of lines without points."""
    channels: dict[str, list[Any]] = {
        "stroke": [look.color for look in looks.values()],
        "fill": [look.fill for look in looks.values()],
        "shape": [look.shape or "M-1.6,0H1.6" for look in looks.values()],
        "strokeDash": [palette.SOLID if look.shape else look.dash for look in looks.values()],
    }
    encoded = {
        name: field("line:N", scale={"domain": list(looks), "range": values}, legend=legend)
        for name, values in channels.items()
    }
    dots = marks(None, "point", {**at, **encoded}, size=46, opacity=1, strokeWidth=1.6)
    named = [name for name, look in looks.items() if look.shape]
    return {**dots, "transform": [{"filter": {"field": "line", "oneOf": named}}]}
