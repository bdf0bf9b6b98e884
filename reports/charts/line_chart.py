"""The line chart of all pages: lines with bands and points, named at their ends.

`drawn` returns the data of its layers and `line_chart` the layers. The explorer's chart has the same layers,
whose data the page computes as its reader chooses (`reports/templates/explorer.js`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from functools import partial
from typing import Any

import numpy as np
import scipy

from reports import palette
from reports.charts.picture import Picture, picture
from reports.charts.vega_lite import Chart, field, marks, value
from reports.palette import Look
from reports.writing import num, setting

MARGIN, LINE_HEIGHT = 16, 15  # between the plot and the names of lines; of a name, in pixels
NARROW = 300  # pixels of a plot on a phone
_MOST_LETTERS = 44  # of a name above a plot on a phone
_EDGE_HEIGHT = 14  # pixels of a number above the plot
_BESIDE, _ABOVE = "{left: 9, center: 0, right: -9}", "{left: -8, center: -11, right: -8}"  # an arrow
HALO: Any = {"stroke": palette.PAPER, "strokeWidth": 4, "strokeJoin": "round"}  # behind a text on lines
LAYERS = ("points", "guides", "leaders", "labels", "edges", "failed", "flagged")


@dataclass(frozen=True)
class Line:
    """A line: (x, y) of its points, the lower and upper ends of its band if any, and its look."""

    label: str
    points: Sequence[tuple[float, float]]
    look: Look
    band: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True)
class Reference:
    """A thin gray line, of theory or a limit of the data, which is dashed."""

    label: str
    points: Sequence[tuple[float, float]]
    dash: Sequence[int] = (1, 0)


@dataclass(frozen=True)
class Frame:
    """Axes: what they show, their ranges, whether they are logarithmic, and the size of the plot."""

    x_title: str
    y_title: str
    x: tuple[float, float]
    y: tuple[float, float]
    title: str = ""
    x_ticks: Sequence[float] = ()
    x_log: bool = True
    y_log: bool = True
    width: int = 640
    height: int = 400
    steps: bool = False  # lines rise in steps
    png: bool = True  # the picture is also wanted in that format
    names_on_top: bool = False  # of lines, in their order from above, where there is no room at their ends
    marks: Mapping[str, Sequence[Mapping[str, Any]]] = dataclass_field(
        default_factory=dict
    )  # more data, by layer

    def pixel(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point lies, in pixels from the upper left corner."""
        return (
            self.width * _share(x, self.x, self.x_log),
            self.height * (1 - min(max(_share(y, self.y, self.y_log), 0.0), 1.0)),
        )


def _share(value: float, ends: tuple[float, float], log: bool) -> float:
    if log:
        return math.log(max(value, 1e-300) / ends[0]) / math.log(ends[1] / ends[0])
    return (value - ends[0]) / (ends[1] - ends[0])


def line_chart(
    lines: Sequence[Line], frame: Frame, guides: Sequence[Reference] = (), *, bars: bool = False
) -> Chart:
    """Return a line chart; ``bars`` draws bands as error bars."""
    data = drawn(lines, frame, guides)
    x = {"type": "log" if frame.x_log else "linear", "domain": frame.x, "nice": False}
    y = {"type": "log" if frame.y_log else "linear", "domain": frame.y, "nice": False, "zero": False}
    shown = [name for name in LAYERS if data.get(name)] or ["points"]
    ticks = ticks_that_fit(frame)
    layers = chart_layers(
        {name: data.get(name, []) for name in shown},
        {"scale": x, "axis": {"title": frame.x_title or None, **({"values": ticks} if ticks else {})}},
        {"scale": y, "axis": {"title": frame.y_title or None, **_ON_TOP}},
        steps=frame.steps,
        bars=bars,
    )
    return {**layers, "width": frame.width, "height": frame.height}


def line_picture(
    lines: Sequence[Line],
    frame: Frame,
    name: str,
    description: str,
    data_source: str,
    *,
    guides: Sequence[Reference] = (),
) -> Picture:
    """Return a line chart as a picture that has a narrow form for phones."""
    narrow = replace(frame, width=NARROW, height=260, y_title="", names_on_top=True)
    wide, other = (
        picture(
            line_chart(lines, each, guides),
            name,
            description,
            data_source,
            title=frame.title,
            png=each.png and each is frame,
        )
        for each in (frame, narrow)
    )
    return replace(wide, narrow=other.svg, narrow_title=frame.y_title)


_ON_TOP: Any = {"titleAngle": 0, "titleAlign": "left", "titleAnchor": "end", "titleX": -38, "titleY": -8}


def drawn(lines: Sequence[Line], frame: Frame, guides: Sequence[Reference] = ()) -> dict[str, list[Any]]:
    """Return the data of each layer: points, guides, names with their leaders, values beyond the axis."""
    low, high = frame.y
    data: dict[str, list[Any]] = {name: list(frame.marks.get(name, ())) for name in LAYERS}
    wanted: list[tuple[str, str, str, tuple[float, float]]] = []
    for key, line in enumerate(lines):
        look = line.look
        style = {"key": key, "c": look.color, "fill": look.fill, "dash": look.dash}
        bands = line.band or [(math.nan, math.nan)] * len(line.points)
        for (x, y), (bottom, top) in zip(line.points, bands, strict=True):
            beyond = not low <= y <= high  # marked at the edge instead
            shape = "" if beyond else look.shape
            row = {"x": x, "y": max(y, low / 10) if frame.y_log else y, **style, "shape": shape}
            if math.isfinite(bottom + top):
                row |= {"lo": max(bottom, low / 10) if frame.y_log else bottom, "hi": top}
            data["points"].append(row)
            if look.shape and beyond:
                data["edges"].append({"x": x, "c": look.color, "text": num(y), **_edge(frame, x, y)})
        if line.points and line.label:
            wanted.append((line.label, look.symbol, look.ink, frame.pixel(*line.points[-1])))
    for key, guide in enumerate(guides):
        data["guides"] += [{"x": x, "y": y, "key": key, "dash": list(guide.dash)} for x, y in guide.points]
        inside = [(x, y) for x, y in guide.points if low <= y <= high]
        if inside and guide.label:
            wanted.append((guide.label, "—", palette.MUTED, frame.pixel(*inside[-1])))
    if frame.names_on_top:
        data["labels"] = list(_names_on_top(wanted, _EDGE_HEIGHT * bool(data["edges"])))
        return data
    places = spread([at for *_, (_, at) in wanted], LINE_HEIGHT, frame.height + 8)
    for key, ((text, _, color, (x, y)), place) in enumerate(zip(wanted, places, strict=True)):
        data["labels"].append({"px": frame.width + MARGIN, "py": place, "text": text, "c": color})
        for i, (px, py) in enumerate([(x + 4, y), (frame.width + 2, y), (frame.width + MARGIN - 2, place)]):
            data["leaders"].append({"px": px, "py": py, "key": key, "i": i, "c": color})
    return data


def _edge(frame: Frame, x: float, y: float) -> dict[str, Any]:
    """Return the arrow for a value beyond the axis, and on which side of it the value stands.

    Above the plot no line is in the way; at its foot the value stands next to the arrow, inside the plot.
    """
    if y > frame.y[1]:
        return {"y": frame.y[1], "shape": "triangle-up", "align": "center"}
    on_the_right = frame.pixel(x, y)[0] > frame.width / 2
    return {"y": frame.y[0], "shape": "triangle-down", "align": "right" if on_the_right else "left"}


def _names_on_top(
    wanted: Sequence[tuple[str, str, str, tuple[float, float]]], above: float
) -> Iterator[dict[str, Any]]:
    for k, (text, symbol, color, _) in enumerate(sorted(wanted, key=lambda each: each[-1][1])):
        brief = text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}…"
        yield {
            "px": 0,
            "py": LINE_HEIGHT * (k - len(wanted)) - above,
            "text": f"{symbol} {brief}",
            "c": color,
        }


def spread(wanted: Sequence[float], height: float, below: float) -> list[float]:
    """Move labels of a height apart, as little as possible in least squares, and keep them above `below`."""
    order = np.argsort(wanted, kind="stable")
    steps = min(height, below / max(1, len(wanted))) * np.arange(len(wanted))
    places = np.empty(len(wanted))
    if len(wanted):
        feet = scipy.optimize.isotonic_regression(np.asarray(wanted, dtype=float)[order] - steps).x
        places[order] = np.clip(feet, 0, below - steps[-1]) + steps
    return [float(place) for place in places]


def ticks_that_fit(frame: Frame) -> list[float]:
    """Return the wanted ticks whose numbers have room, from the right; none where Vega shall choose."""
    kept: list[float] = []
    for tick in sorted(frame.x_ticks, reverse=True):
        room = frame.pixel(kept[-1], 1)[0] - frame.pixel(tick, 1)[0] if kept else math.inf
        if room >= 9 + 3.6 * len("".join(map(setting, [*kept[-1:], tick]))):
            kept.append(tick)
    return kept[::-1]


def chart_layers(
    data: Mapping[str, Sequence[Mapping[str, Any]]],
    x: Mapping[str, Any],
    y: Mapping[str, Any],
    *,
    steps: bool = False,
    bars: bool = False,
) -> Chart:
    """Return the layers of a line chart that have data; `x` and `y` are scales and axes."""
    own = {name: partial(marks, rows, name=name) for name, rows in data.items()}
    at_x, at = field("x:Q", **x), {"x": field("x:Q", **x), "y": field("y:Q", **y)}
    colored = {"color": field("c:N", scale=None)}
    shape, dash = field("shape:N", scale=None), field("dash:N", scale=None)
    px, py = field("px:Q", scale=None, axis=None), field("py:Q", scale=None, axis=None)
    inner, outer = list[Chart](), list[Chart]()
    if "flagged" in own:
        ends = {"x": at_x, "x2": field("x2"), "y": value("height")}
        inner.append(own["flagged"]("rule", ends, strokeWidth=5, color=palette.FLAG))
    if "guides" in own:
        dashed = {**at, "strokeDash": dash, "detail": field("key:N")}
        inner.append(own["guides"]("line", dashed, clip=True, strokeWidth=1, color=palette.GUIDE))
    if "points" in own:
        points, ends = own["points"], {"x": at_x, "y": field("lo:Q"), "y2": field("hi")}
        kind = "rule" if bars else "area"
        light: dict[str, Any] = {} if bars else {"opacity": 0.12}
        line = {**at, **colored, "strokeDash": dash, "detail": field("key:N")}
        across: dict[str, Any] = {"interpolate": "step-after"} if steps else {}
        dots = {**at, "stroke": field("c:N", scale=None), "fill": field("fill:N", scale=None), "shape": shape}
        big: dict[str, Any] = {"filled": True, "size": 46, "opacity": 1, "strokeWidth": 1.6, "tooltip": True}
        banded = {**ends, **colored, "detail": field("key:N")}
        inner += [
            points(kind, banded, only="isValid(datum.lo)", clip=True, **light),
            points("line", line, clip=True, strokeWidth=2, **across),
            points("point", dots, only="datum.shape", **big),
        ]
    if "edges" in own:
        edges = own["edges"]
        inner.append(edges("point", {**at, **colored, "shape": shape}, filled=True, size=55, opacity=1))
        looks: dict[str, Any] = {"align": {"expr": "datum.align"}, "baseline": "middle", "fontSize": 10}
        looks |= {"dx": {"expr": f"({_BESIDE})[datum.align]"}, "dy": {"expr": f"({_ABOVE})[datum.align]"}}
        text = {**at, "text": field("text:N")}
        inner.append(edges("text", text, **looks, **HALO))
        inner.append(edges("text", {**text, **colored}, **looks))
    if "failed" in own:
        cross: dict[str, Any] = {"text": "×", "fontSize": 17, "fontWeight": "bold", "tooltip": True}
        inner.append(own["failed"]("text", {**at, **colored}, **cross))
    if "leaders" in own:
        place = {"x": px, "y": py, **colored, "detail": field("key:N"), "order": field("i:Q")}
        outer.append(own["leaders"]("line", place, strokeWidth=0.7, opacity=0.6))
    if "labels" in own:
        place = {"x": px, "y": py, **colored, "text": field("text:N")}
        outer.append(own["labels"]("text", place, align="left", baseline="middle"))
    plot: Chart = {"layer": inner}
    if not outer:
        return plot
    return {"layer": [plot, {"layer": outer}], "resolve": {"scale": {"x": "independent", "y": "independent"}}}
