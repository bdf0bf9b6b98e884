"""Line charts as Vega-Lite: lines with bands and points, named at their ends or in a legend.

A page's chart, its static picture and a figure for a paper are the same specification in other sizes. A mean
is drawn at its logarithm where ``is_log`` says so, so that one chart has metrics of both kinds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from reports import palette
from reports.charts.drawing import Chart, Picture, draw_chart, field, marks
from reports.palette import Look

NARROW = 340  # pixels of a chart on a phone
_LETTER, _MOST_ROOM = 6.4, 300  # pixels of a letter of a name, and of all names
_WIDE = 520  # pixels of a plot from which on there is room for names
_NAME_HEIGHT = 15
_LOG_TICKS = [round(power + math.log10(digit), 6) for power in range(-12, 13) for digit in (1, 2, 5)]
_LOG_VALUES = f"is_log && domain('y')[1] - domain('y')[0] > 0.7 ? {_LOG_TICKS} : null"
_LOG_LABEL = "is_log ? format(pow(10, datum.value), '.2~g') : datum.label"


@dataclass(frozen=True)
class Line:
    """A line: (x, y) of its points, its look, and the lower and upper ends of its band if it has one."""

    label: str
    points: Sequence[tuple[float, float]]
    look: Look
    band: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True)
class Axes:
    """What the axes show, and the chart's size in pixels; a range that is not given follows from the data."""

    x_title: str
    y_title: str
    x_ticks: Sequence[float] | Mapping[str, str] = ()
    x_log: bool = True
    y_log: bool = True
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    steps: bool = False  # lines rise in steps
    bars: bool = False  # bands are error bars
    width: float | str = 660
    height: int = 360


def guide(label: str, points: Sequence[tuple[float, float]], dash: tuple[int, ...] = palette.SOLID) -> Line:
    """Return a thin gray line, of theory or of a limit."""
    return Line(label, points, palette.guide_look(dash))


def line_chart(lines: Sequence[Line], axes: Axes) -> Chart:
    """Return the chart of some lines."""
    rows = [
        {"line": line.label, "x": x, "mean": y, "low": low, "high": high}
        for line in lines
        for (x, y), (low, high) in zip(line.points, line.band or _no_band(line), strict=True)
    ]
    looks = {line.label: line.look for line in lines}
    ends = {line.label: line.points[-1] for line in lines if line.points}
    named = names_in_legend(ends, axes)
    return chart_of_rows({"values": rows}, looks, axes, legend=named)


def _no_band(line: Line) -> Sequence[tuple[Any, Any]]:
    return [(None, None)] * len(line.points)


def line_picture(lines: Sequence[Line], axes: Axes, name: str, description: str, data_source: str) -> Picture:
    """Return the chart of some lines as a picture."""
    return draw_chart(line_chart(lines, axes), name, description, data_source)


def names_in_legend(ends: Mapping[str, tuple[float, float]], axes: Axes) -> list[str]:
    """Return which names the legend of a picture has: those of lines that end too near to another."""
    usable = {
        name: y for name, (_, y) in ends.items() if name and math.isfinite(y) and (y > 0 or not axes.y_log)
    }
    if not usable or isinstance(axes.width, str) or axes.width < _WIDE:
        return [name for name in ends if name]
    last = max(x for x, _ in ends.values())
    at = sorted((math.log10(y) if axes.y_log else y, name) for name, y in usable.items())
    room = _NAME_HEIGHT * ((at[-1][0] - at[0][0]) or 1) / axes.height
    near = {name for pair in pairwise(at) if pair[1][0] - pair[0][0] <= room for _, name in pair}
    return [
        name for name, (x, _) in ends.items() if name and (name in near or x < last or name not in usable)
    ]


def chart_of_rows(
    data: Mapping[str, Any],
    looks: Mapping[str, Look],
    axes: Axes,
    *,
    legend: Sequence[str],
    is_log: str = "",
    params: Sequence[Chart] = (),
    transform: Sequence[Chart] = (),
    begins_with: Sequence[str] = (),
    tooltip: str = "",
) -> Chart:
    """Return the chart of rows with line, x, mean, low and high.

    A click on the legend shows or hides a line where the chart ``begins_with`` some. ``is_log`` is an
    expression of the parameters.
    """
    names = [name for name in looks if name]
    room = min(_MOST_ROOM, 20 + _LETTER * max(map(len, names), default=0))
    styles = {
        name: {
            "c": look.color,
            "ink": look.ink,
            "dash": list(look.dash),
            "width": look.width,
            "dots": bool(look.shape),
        }
        for name, look in looks.items()
    }
    own: list[Chart] = [{"name": "styles", "value": styles}]
    own += [{"name": "is_log", "expr": is_log or str(axes.y_log).lower()}]
    x_axis: dict[str, Any] = {
        "title": axes.x_title or None,
        "format": ",.6~g",
        "labelOverlap": "greedy",
        "titleLimit": {"expr": "width"},
    }
    if axes.x_ticks:
        x_axis["values"] = axes.x_ticks if isinstance(axes.x_ticks, Mapping) else list(axes.x_ticks)
    x_scale: dict[str, Any] = {"type": "log"} if axes.x_log else {"type": "linear", "zero": False}
    x_scale |= {"nice": False, **({"domain": axes.x_range} if axes.x_range else {"padding": 8})}
    x_scale["rangeMax"] = {"expr": f"width > {_WIDE} ? width - {room:.0f} : width"}
    y_scale: dict[str, Any] = {"nice": False, "zero": False}
    y_scale |= {"domain": axes.y_range} if axes.y_range else {"padding": 6}
    y_axis = {
        "title": None,
        "values": {"expr": _LOG_VALUES},
        "labelExpr": _LOG_LABEL,
        "labelOverlap": "greedy",
    }
    x, y = field("x:Q", scale=x_scale, axis=x_axis), field("y:Q", scale=y_scale, axis=y_axis)
    at, line = {"x": x, "y": y}, field("line:N")
    looks_of_points = {
        "stroke": [look.color for look in looks.values()],
        "fill": [look.fill for look in looks.values()],
        "shape": [look.shape or "stroke" for look in looks.values()],
    }
    named: dict[str, Any] = {
        "title": None,
        "orient": "bottom",
        "symbolLimit": 0,
        "symbolStrokeWidth": 1.6,
    }
    named |= {
        "labelLimit": {"expr": f"width > {_WIDE} ? width / 2 - 30 : width - 20"},
        "columns": {"expr": f"width > {_WIDE} ? 2 : 1"},
        "values": list(legend),
    }
    points = {
        channel: field(
            "line:N", scale={"domain": list(looks), "range": values}, legend=named if legend else None
        )
        for channel, values in looks_of_points.items()
    }
    color, ends = field("c:N", scale=None), {"x": x, "y": field("lo:Q"), "y2": field("hi")}
    dots = marks(
        None, "point", {**at, **points}, only="styles[datum.line].dots", size=46, opacity=1, strokeWidth=1.6
    )
    if tooltip:
        dots["mark"]["tooltip"] = {"expr": tooltip}
    if begins_with:
        chosen = {"type": "point", "fields": ["line"], "toggle": "true"}
        shown = {
            "name": "shown",
            "select": chosen,
            "bind": "legend",
            "value": [{"line": n} for n in begins_with],
        }
        dots["params"] = [shown]
    band: dict[str, Any] = {"clip": True, "opacity": 1} if axes.bars else {"clip": True, "opacity": 0.12}
    curve: dict[str, Any] = {"interpolate": "step-after"} if axes.steps else {}
    dash, width = field("dash:N", scale=None), field("thick:Q", scale=None)
    strokes = {**at, "color": color, "strokeDash": dash, "strokeWidth": width, "detail": line}
    beside: dict[str, Any] = {"align": "left", "dx": 9, "baseline": "middle", "limit": room - 10}
    text = {**at, "text": line, "color": field("ink:N", scale=None)}
    beyond = "datum.n_failed > 0 || !isValid(datum.y)"
    cross = {"x": x, "y": field("cross:Q"), "color": color}
    return {
        "data": dict(data),
        "params": [*own, *params],
        "transform": [*transform, *([{"filter": {"param": "shown"}}] if begins_with else []), *_PLACES],
        "layer": [
            marks(None, "rule" if axes.bars else "area", {**ends, "color": color, "detail": line}, **band),
            marks(None, "line", strokes, clip=True, **curve),
            dots,
            marks(None, "text", cross, only=beyond, text="×", fontSize=17, fontWeight="bold"),
            {**marks(None, "text", text, **beside), "transform": _NAMES},
        ],
        "title": {"text": axes.y_title, "fontSize": 12, "limit": {"expr": "width"}, "offset": 10},
        "width": axes.width,
        "height": axes.height,
        "autosize": {"type": "fit-x", "contains": "padding"},
    }  # fmt: skip


def _calculate(name: str, expression: str) -> Chart:
    return {"calculate": expression, "as": name}


def _scaled(value: str) -> str:
    return f"is_log ? (datum.{value} > 0 ? log(datum.{value}) / LN10 : null) : datum.{value}"


_PLACES: list[Chart] = [
    _calculate("y", _scaled("mean")),
    _calculate("lo", f"isValid(datum.low) && (!is_log || datum.low > 0) ? ({_scaled('low')}) : datum.y"),
    _calculate("hi", f"isValid(datum.high) ? ({_scaled('high')}) : datum.y"),
    _calculate("c", "styles[datum.line].c"),
    _calculate("ink", "styles[datum.line].ink"),
    _calculate("dash", "styles[datum.line].dash"),
    _calculate("thick", "styles[datum.line].width"),
    {"joinaggregate": [
        {"op": "min", "field": "lo", "as": "bottom"}, {"op": "max", "field": "hi", "as": "top"},
        {"op": "max", "field": "x", "as": "end"},
    ]},
    _calculate("cross", "isValid(datum.y) ? datum.y : datum.top"),
]  # fmt: skip
_NAMES: list[Chart] = [
    {"filter": f"width > {_WIDE} && datum.x == datum.end && isValid(datum.y)"},
    {"window": [{"op": "lag", "field": "y", "as": "below"}, {"op": "lead", "field": "y", "as": "above"}],
     "sort": [{"field": "y"}]},
    _calculate("room", f"{_NAME_HEIGHT} * (datum.top - datum.bottom) / height"),
    {"filter": "(datum.below == null || datum.y - datum.below > datum.room) && "
               "(datum.above == null || datum.above - datum.y > datum.room)"},
]  # fmt: skip
