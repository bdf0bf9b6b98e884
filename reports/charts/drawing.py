"""Vega-Lite specifications as figures: bytes that are the same for the same figure, with text as text."""

from __future__ import annotations

import base64
import gzip
import json
import re
import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.metadata import version
from typing import Any

import psutil
from platformdirs import user_cache_path

from reports import palette

Chart = dict[str, Any]
HALO: Any = {"stroke": palette.PAPER, "strokeWidth": 4, "strokeJoin": "round"}  # behind a text on lines

FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
PNG_SCALE = 1.5

_AXIS = {
    "labelColor": palette.MUTED,
    "titleColor": palette.INK,
    "titleFontWeight": "normal",
    "gridColor": palette.GRID,
    "domainColor": palette.AXIS,
    "ticks": False,
    "labelPadding": 6,
    "labelOverlap": "greedy",
    "labelFontSize": 11,
    "titleFontSize": 12,
}
CONFIG: dict[str, Any] = {
    "aria": False,  # the whole figure has a description
    "mark": {"aria": False},
    "background": palette.PAPER,
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
        "columnPadding": 18,
    },
    "text": {"fontSize": 12, "color": palette.INK},
    "header": {"labelColor": palette.INK, "title": None, "labelAnchor": "start"},
}


@dataclass(frozen=True)
class Picture:
    """A figure: its file's name without ending, its alt text, its bytes (PNG where one is needed)."""

    name: str
    alt: str
    svg: bytes
    png: bytes | None = None


def banner(data_source: str) -> str:
    """Return the warning for a page and its figures; empty unless a stand-in was used."""
    return "STAND-IN DATA: simulated, not the real data set" if data_source == "stand-in" else ""


_RESERVED = (
    72e9  # bytes of address space: Vega's engine takes 67.5 GB, hardly uses them, and aborts otherwise
)
NO_SPACE = "drawing reserves 72 GB of address space, and ulimit -v leaves less; raise it, or draw elsewhere"


@cache
def can_draw() -> bool:
    """Return whether this process may reserve as much address space as drawing does."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return limit == resource.RLIM_INFINITY or limit - psutil.Process().memory_info().vms >= _RESERVED


def draw_chart(
    chart: Chart, name: str, description: str, data_source: str, *, title: str = "", png: bool = True
) -> Picture:
    """Return a chart as a picture; on a stand-in it and its description carry the warning.

    Where nothing can be drawn, the description stands in its place.
    """
    import vl_convert  # what draws is loaded where something is drawn: most runs have their pages already

    if warning := banner(data_source):
        description = f"{warning}. {description}"
    if not can_draw():
        words = '<text y="14" font-size="12">This picture was not drawn.</text>'
        blank = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 20">{words}</svg>'
        return Picture(name, description, _described(blank, name, description).encode())
    if above := [each for each in (warning, title) if each]:
        own, color = dict(chart.get("title", {})), {"color": palette.WARN} if warning else {}
        chart = {
            **chart,
            "title": {
                "offset": 10,
                "fontWeight": "bold",
                "text": above,
                "subtitle": own.get("text", ""),
                **color,
            },
        }
    svg = _described(vl_convert.vegalite_to_svg(specification(chart)), name, description)
    raster = vl_convert.svg_to_png(svg, scale=PNG_SCALE) if png else None
    return Picture(name, description, svg.encode(), raster)


def specification(chart: Chart) -> Chart:
    """Return a chart with the fonts and colors of the site."""
    return {**chart, "config": CONFIG}


def _described(svg: str, name: str, description: str) -> str:
    """Return an SVG with a title and a description for screen readers, in short numbers."""
    ids: dict[str, str] = {}
    svg = re.sub(r"\bclip\d+", lambda m: ids.setdefault(m.group(0), f"clip{len(ids)}"), svg)
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"-?\d+\.\d{3,}", _rounded, tag.group(0)), svg)
    head = f"<title>{escape(name)}</title><desc>{escape(description)}</desc>"
    return re.sub(r"<svg ([^>]*)>", lambda m: f'<svg {m.group(1)} role="img">{head}', svg, count=1)


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number.group(0)):.2f}".rstrip("0").rstrip(".")


# What the page's style says too, or is so anyway: a third of a figure.
_SAID_BY_THE_PAGE = re.compile(
    r'<path class="(?:fore|back)ground"[^>]*(?: d=""| d="M0,0h0v0h0Z")[^>]*/>'
    r'| (?:font-family="[^"]*"|opacity="1"|stroke-width="1"|font-weight="normal")'
)


def inline(svg: bytes | str, prefix: str) -> str:
    """Return an SVG for a page: colors as CSS variables, no fixed size, ids that begin with the prefix."""
    text = svg.decode("utf-8") if isinstance(svg, bytes) else svg
    text = themed(re.sub(r'(\bid="|url\(#)', rf"\g<1>{prefix}-", text))
    text = _SAID_BY_THE_PAGE.sub("", text)
    head, rest = text.split(">", 1)
    head = re.sub(r' (width|height|xmlns(:\w+)?)="[^"]*"', "", head)
    rest = rest.replace("<title>", f'<title id="{prefix}-title">', 1)
    rest = rest.replace("<desc>", f'<desc id="{prefix}-desc">', 1)
    return f'{head} aria-labelledby="{prefix}-title {prefix}-desc">{rest}'.strip()


def themed(text: str) -> str:
    """Return a text with the site's colors as CSS variables, which follow the reader's theme."""
    return re.sub(r"#[0-9a-f]{6}\b", lambda m: _variable(m.group(0)), text)


def _variable(color: str) -> str:
    name = palette.BY_HEX.get(color)
    return f"var(--{name})" if name else color


_TYPES = {"Q": "quantitative", "N": "nominal"}


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


def packed_chart(chart: Chart) -> str:
    """Return a chart for a page that draws it, in the reader's colors and at the width of its place."""
    return packed(themed(json.dumps(specification(chart), ensure_ascii=False, separators=(",", ":"))))


def packed(text: str) -> str:
    """Return a text as gzip in base 64, which the page unpacks: about a third of its size."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


@cache
def packed_library() -> str:
    return packed(vega_library())


@cache
def vega_library() -> str:
    """Return Vega as one script, which takes seconds to bundle and is kept in the user's cache folder."""
    import vl_convert

    kept = user_cache_path("dpcost") / f"vega-{version('vl-convert-python')}.js"
    try:
        return kept.read_text(encoding="utf-8")
    except OSError:
        text = str(vl_convert.javascript_bundle("window.vegaEmbed=vegaEmbed;"))
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{id(text)}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(kept)
    except OSError:  # a folder that can't be written to costs time, nothing else
        pass
    return text
