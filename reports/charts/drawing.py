"""Vega-Lite specifications as pictures, and the script that draws them in a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.metadata import version
from typing import Any

from platformdirs import user_cache_path

from reports import palette
from reports.visible import visible

Chart = dict[str, Any]

FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
PNG_SCALE = 1.5
SMALLEST = 0.8  # of its own width: down to which a picture can be read

_AXIS = {
    "labelColor": palette.MUTED,
    "titleColor": palette.INK,
    "titleFontWeight": "normal",
    "gridColor": palette.GRID,
    "domainColor": palette.AXIS,
    "ticks": False,
    "labelPadding": 6,
    "labelOverlap": "greedy",
    "labelSeparation": 8,
    "labelFontSize": 11,
    "titleFontSize": 12,
}
CONFIG: dict[str, Any] = {
    "aria": False,  # the whole figure has a description
    "mark": {"aria": False},
    "background": palette.PAPER,
    "padding": {"left": 20, "right": 16, "top": 5, "bottom": 5},  # browsers draw wider letters
    "font": FONTS,
    "axis": _AXIS,
    "axisX": {"grid": False},
    "axisY": {"domain": False},
    "view": {"stroke": None},
    "title": {
        "anchor": "start",
        "fontWeight": "normal",
        "color": palette.INK,
        "fontSize": 13,
        "subtitleColor": palette.INK,
    },
    "legend": {
        "orient": "bottom",
        "title": None,
        "symbolLimit": 0,
        "symbolStrokeWidth": 1.6,
        "labelColor": palette.INK,
        "labelFontSize": 12,
        "unselectedOpacity": 0.6,
        "offset": 12,
        "labelOffset": 8,
        "columnPadding": 18,
    },
    "text": {"fontSize": 12, "color": palette.INK},
    "header": {"labelColor": palette.INK, "title": None, "labelAnchor": "start"},
}
_TYPES = {"Q": "quantitative", "N": "nominal"}


@dataclass(frozen=True)
class Picture:
    """A figure: its file's name without ending, alternative text, width, and bytes (PNG if needed)."""

    name: str
    alt: str
    width: float
    svg: bytes
    png: bytes | None = None


def banner(data_source: str) -> str:
    """Return the warning for a page and its figures; empty unless a stand-in was used."""
    return "STAND-IN DATA: simulated, not the real dataset" if data_source == "stand-in" else ""


def with_visible_names(part: Any) -> Any:
    """Return a chart whose texts have no control characters, which no picture can hold."""
    if isinstance(part, Mapping):
        return {name: with_visible_names(each) for name, each in part.items()}
    if isinstance(part, list | tuple):
        return [*map(with_visible_names, part)]
    return visible(part) if isinstance(part, str) else part


def draw_chart(
    chart: Chart, name: str, description: str, data_source: str, *, title: str = "", png: bool = True
) -> Picture:
    """Return a chart as a picture; on a stand-in it and its description carry the warning."""
    import vl_convert  # what draws is loaded where something is drawn: most runs have their pages already

    name, description, title = map(visible, (name, description, title))
    if warning := banner(data_source):
        description = f"{warning}. {description}"
    if above := [*filter(None, [*warning.split(": "), title])]:  # in a line, a card would cut it
        own, color = dict(chart.get("title", {})), {"color": palette.WARN} if warning else {}
        warning_title = {
            "offset": 10,
            "fontWeight": "bold",
            "text": above,
            "subtitle": own.get("text", ""),
            **color,
        }
        chart = {**chart, "title": warning_title}
    svg = vl_convert.vegalite_to_svg(with_visible_names(chart), config=CONFIG, allowed_base_urls=[])
    accessible = f' role="img"><title>{escape(name)}</title><desc>{escape(description)}</desc>'
    svg = svg.replace(">", accessible, 1)
    width = float(svg.partition(' width="')[2].partition('"')[0])
    raster = vl_convert.svg_to_png(svg, scale=PNG_SCALE) if png else None
    return Picture(name, description, width, svg.encode(), raster)


def field(name: str, /, **options: Any) -> dict[str, Any]:
    """Return the encoding of a channel by a field, "x:Q" of a quantity, "text:N" of a name."""
    name, _, kind = name.partition(":")
    return {"field": name, **({"type": _TYPES[kind]} if kind else {}), **options}


def marks(
    rows: Sequence[Mapping[str, Any]] | None,
    mark: str,
    encoding: Mapping[str, Any],
    *,
    only: str = "",
    **looks: Any,
) -> Chart:
    """Return a layer: a mark for each row, those that fulfill an expression; None: of the chart's rows."""
    chart: Chart = {} if rows is None else {"data": {"values": list(rows)}}
    if only:
        chart["transform"] = [{"filter": only}]
    return {**chart, "mark": {"type": mark, **looks}, "encoding": dict(encoding)}


@cache
def vega_library() -> str:
    """Return Vega as one script, which takes seconds to bundle and is kept in the user's cache folder."""
    import vl_convert

    file = user_cache_path("dpcost") / f"vega-{version('vl-convert-python')}.js"
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        text = str(vl_convert.javascript_bundle("window.vegaEmbed=vegaEmbed;"))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{id(text)}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(file)
    except OSError:  # a folder that can't be written to costs time, nothing else
        pass
    return text
