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

import numpy as np

from reports import palette
from reports.charts.drawing import Chart, Picture, draw_chart, field, marks
from reports.palette import Look

NARROW = 340  # pixels of a chart on a phone
_LETTER, _MOST_ROOM = 6.4, 300  # pixels of a letter of a name, and of all names
_WIDE = 520  # pixels of a plot from which on there is room for names
_NAME_HEIGHT = 15


def _ticks(*digits: float) -> list[float]:
    return [round(power + math.log10(digit), 6) for power in range(-12, 13) for digit in digits]


_LOG_SPAN = "domain('y')[1] - domain('y')[0]"
_LOG_VALUES = (
    f"!is_log ? null : {_LOG_SPAN} > 0.7 ? {_ticks(1, 2, 5)} : "
    f"{_LOG_SPAN} > 0.2 ? {_ticks(1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)} : null"
)
_IN_RANGE = "datum.value < domain('x')[0] || datum.value > domain('x')[1] ? '' : datum.label"
_LOG_LABEL = "is_log ? format(pow(10, datum.value), '.3~g') : datum.label"


@dataclass(frozen=True)
class Line:
    """A line: (x, y) of its points, its look, and the lower and upper ends of its band if it has one."""

    label: str
    points: Sequence[tuple[float, float]]
    look: Look
    band: Sequence[tuple[Any, Any]] = ()


@dataclass(frozen=True)
class Axes:
    """What the axes show, and the chart's size in pixels; a range that is not given follows from the data."""

    x_title: str | Mapping[str, str]
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
        for (x, y), (low, high) in zip(
            line.points, line.band or [(None, None)] * len(line.points), strict=True
        )
    ]
    looks = {line.label: line.look for line in lines}
    return chart_of_rows({"values": rows}, looks, axes, legend=names_in_legend(rows, axes))


def profile_steps(ratios: np.ndarray, largest: float) -> list[tuple[float, float]]:
    """Return the corners of a performance profile, the share of ratios at most τ, up to ``largest``."""
    found = np.sort(ratios)
    x, y = np.r_[1.0, found], np.arange(len(found) + 1) / len(found)
    inside = x <= largest
    corners = zip(x[inside].tolist(), y[inside].tolist(), strict=True)
    return [*corners, (largest, float(y[inside].max()))]


def line_picture(lines: Sequence[Line], axes: Axes, name: str, description: str, data_source: str) -> Picture:
    """Return the chart of some lines as a picture."""
    return draw_chart(line_chart(lines, axes), name, description, data_source)


def names_in_legend(rows: Sequence[Mapping[Any, Any]], axes: Axes) -> list[str]:
    """Return which names the legend of a picture has: those of lines that end too near to another."""

    def is_drawn(value: float | None) -> bool:
        return value is not None and math.isfinite(value) and (value > 0 or not axes.y_log)

    def height(value: float) -> float:
        return math.log10(value) if axes.y_log else value

    names = list(dict.fromkeys(row["line"] for row in rows if row["line"]))
    drawn = sorted((row for row in rows if is_drawn(row["mean"])), key=lambda row: float(row["x"]))
    if not drawn or isinstance(axes.width, str) or axes.width < _WIDE:
        return names
    last = drawn[-1]["x"]
    ends = sorted((height(row["mean"]), row["line"]) for row in drawn if row["x"] == last)
    values = [height(row[key]) for row in drawn for key in ("low", "mean", "high") if is_drawn(row[key])]
    room = _NAME_HEIGHT * (max(values) - min(values)) / axes.height
    near = {name for pair in pairwise(ends) if pair[1][0] - pair[0][0] <= room for _, name in pair}
    at_ends = {name for _, name in ends} - near
    return [name for name in names if name not in at_ends]


@dataclass(frozen=True)
class Choices:
    """What a reader chooses in a chart: parameters with menus, what follows from them, and its lines.

    ``is_log`` is an expression of the parameters, ``lines`` are those that are drawn at first. One row
    belongs to no line and is drawn nowhere, so that the rows that a choice leaves can be counted.
    """

    params: Sequence[Chart]
    transform: Sequence[Chart]
    is_log: str
    lines: Sequence[str]
    tooltip: str


def chart_of_rows(
    data: Mapping[str, Any],
    looks: Mapping[str, Look],
    axes: Axes,
    *,
    legend: Sequence[str],
    choices: Choices | None = None,
) -> Chart:
    """Return the chart of rows with line, x, mean, low and high."""
    room = min(_MOST_ROOM, 20 + _LETTER * max(map(len, looks), default=0))
    is_log = choices.is_log if choices else str(axes.y_log).lower()
    styles = _styles(looks) | ({"": {"dots": False}} if choices else {})
    params: list[Chart] = [{"name": "styles", "value": styles}]
    params.append({"name": "is_log", "expr": is_log})
    transform = list[Chart]()
    if choices:
        params += choices.params
        drawn = {"or": [{"param": "shown"}, "!datum.line"]}
        transform += [*choices.transform, {"filter": drawn}]
    return {
        "data": dict(data),
        "params": params,
        "transform": [*transform, *_PLACES],
        "layer": _layers(looks, axes, room, legend, choices),
        "title": {"text": axes.y_title, "fontSize": 12, "limit": {"expr": "width"}, "offset": 10},
        "width": axes.width,
        "height": axes.height,
        "autosize": {"type": "fit-x", "contains": "padding"},
    }


def _styles(looks: Mapping[str, Look]) -> dict[str, Any]:
    return {
        name: {
            "c": look.color,
            "ink": look.ink,
            "dash": look.dash,
            "width": look.width,
            "dots": bool(look.shape),
        }
        for name, look in looks.items()
    }


def _axes(axes: Axes, room: float) -> dict[str, Any]:
    """Return the encoding of both axes, with room for names at the right where the chart is wide."""
    x_axis: dict[str, Any] = {
        "title": axes.x_title or None,
        "format": ",.9~g",
        "labelExpr": _IN_RANGE,
        "titleLimit": {"expr": "width"},
    }
    if axes.x_ticks:
        x_axis["values"] = axes.x_ticks if isinstance(axes.x_ticks, Mapping) else list(axes.x_ticks)
    x_scale: dict[str, Any] = {"type": "log"} if axes.x_log else {"type": "linear", "zero": False}
    x_scale |= {"nice": False, **({"domain": axes.x_range} if axes.x_range else {"padding": 8})}
    x_scale["rangeMax"] = {"expr": f"width > {_WIDE} ? width - {room:.0f} : width"}
    y_scale: dict[str, Any] = {"nice": False, "zero": False}
    y_scale |= {"domain": axes.y_range} if axes.y_range else {"padding": 6}
    y_axis = {"title": None, "values": {"expr": _LOG_VALUES}, "labelExpr": _LOG_LABEL}
    return {"x": field("x:Q", scale=x_scale, axis=x_axis), "y": field("y:Q", scale=y_scale, axis=y_axis)}


def _dots(looks: Mapping[str, Look], at: Chart, legend: Sequence[str], choices: Choices | None) -> Chart:
    """Return the layer of points, whose looks the legend has."""
    named = {
        "labelLimit": {"expr": f"width > {_WIDE} ? width / 2 - 30 : width - 20"},
        "columns": {"expr": f"width > {_WIDE} ? 2 : 1"},
        "values": list(legend),
    }
    channels = {
        "stroke": [look.color for look in looks.values()],
        "fill": [look.fill for look in looks.values()],
        "shape": [look.shape or "stroke" for look in looks.values()],
    }
    encoded = {
        name: field(
            "line:N", scale={"domain": list(looks), "range": values}, legend=named if legend else None
        )
        for name, values in channels.items()
    }
    only = "styles[datum.line].dots"
    dots = marks(None, "point", {**at, **encoded}, only=only, size=46, opacity=1, strokeWidth=1.6)
    if choices:
        dots["mark"]["tooltip"] = {"expr": choices.tooltip}
        chosen = {"type": "point", "fields": ["line"], "toggle": "true"}
        first = [{"line": name} for name in choices.lines]
        dots["params"] = [{"name": "shown", "select": chosen, "bind": "legend", "value": first}]
    return dots


def _layers(
    looks: Mapping[str, Look], axes: Axes, room: float, legend: Sequence[str], choices: Choices | None
) -> list[Chart]:
    at, line, color = _axes(axes, room), field("line:N"), field("c:N", scale=None)
    ends = {"x": at["x"], "y": field("lo:Q"), "y2": field("hi"), "color": color, "detail": line}
    band: dict[str, Any] = {"clip": True, "opacity": 1.0 if axes.bars else 0.12}
    curve: dict[str, Any] = {"interpolate": "step-after"} if axes.steps else {}
    dash, width = field("dash:N", scale=None), field("thick:Q", scale=None)
    strokes = {**at, "color": color, "strokeDash": dash, "strokeWidth": width, "detail": line}
    beside: dict[str, Any] = {"align": "left", "dx": 9, "baseline": "middle", "limit": room - 10}
    names = {**at, "text": line, "color": field("ink:N", scale=None)}
    cross = {"x": at["x"], "y": field("cross:Q"), "color": color}
    failed = "datum.line && (datum.n_failed > 0 || !isValid(datum.y))"
    return [
        marks(None, "rule" if axes.bars else "area", ends, **band),
        marks(None, "line", strokes, clip=True, **curve),
        _dots(looks, at, legend, choices),
        marks(None, "text", cross, only=failed, text="×", fontSize=17, fontWeight="bold"),
        {**marks(None, "text", names, **beside), "transform": _NAMES},
        *([_NOTHING] if choices else []),
    ]


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
_NOTHING: Chart = {
    "transform": [
        {"aggregate": [{"op": "valid", "field": "cross", "as": "drawn"}]},
        {"filter": "datum.drawn == 0"},
    ],
    "mark": {
        "type": "text",
        "text": "no data for this combination",
        "x": {"expr": "width / 2"},
        "y": {"expr": "height / 2"},
    },
}
_NAMES: list[Chart] = [
    {"filter": f"width > {_WIDE} && datum.x == datum.end && isValid(datum.y)"},
    {"window": [{"op": "lag", "field": "y", "as": "below"}, {"op": "lead", "field": "y", "as": "above"}],
     "sort": [{"field": "y"}]},
    _calculate("room", f"{_NAME_HEIGHT} * (datum.top - datum.bottom) / height"),
    {"filter": "(datum.below == null || datum.y - datum.below > datum.room) && "
               "(datum.above == null || datum.above - datum.y > datum.room)"},
]  # fmt: skip
