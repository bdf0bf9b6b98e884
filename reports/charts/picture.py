"""Figures of a report as bytes: the same figure always gives the same bytes, and its text stays text."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from reports.charts import palette

FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
PNG_DPI = 110

_RC: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "dpcost",
    "font.family": "DejaVu Sans",
    "axes.unicode_minus": True,
    "text.parse_math": False,
    "path.simplify": False,
}


@dataclass(frozen=True)
class Picture:
    """A figure: its file's name without ending, its alt text, its bytes (PNG where one is needed)."""

    name: str
    alt: str
    svg: bytes
    png: bytes | None = None


@dataclass(frozen=True)
class ReportSection:
    """A heading, computed sentences, and a picture or a table whose first `n_labels` columns are words.

    `answer` is the answer to the page's own question, where that is no error: it stands on top.
    """

    heading: str
    text: str
    picture: Picture | None = None
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    n_labels: int = 0
    answer: str = ""


@contextmanager
def drawing() -> Iterator[None]:
    """Draw with this module's settings, regardless of the user's matplotlibrc; also a decorator."""
    with mpl.rc_context(_RC):
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in CSS pixels (a point in the SVG is one of them)."""
    return Figure(figsize=(width / 72, height / 72), dpi=72, facecolor=palette.PAPER)


def banner(data_source: str, brief: bool = False) -> str:
    """Return the warning for a page and its figures; empty unless a stand-in was used."""
    if data_source != "stand-in":
        return ""
    return "stand-in data" if brief else "STAND-IN DATA: simulated, not the real data set"


def picture(figure: Figure, name: str, alt: str, data_source: str, *, png: bool = True) -> Picture:
    """Return a figure as a picture; on a stand-in it and its alt text carry the warning of `banner`."""
    if warning := banner(data_source):
        alt = f"{warning}. {alt}"
        width, height = figure.get_size_inches() * 72
        with drawing():
            figure.text(
                1 - 8 / width,
                1 - 8 / height,
                banner(data_source, brief=width < 600),
                fontsize=10.5,
                fontweight="bold",
                color=palette.WARN,
                ha="right",
                va="top",
                bbox={"facecolor": palette.WARN_FILL, "edgecolor": palette.WARN, "linewidth": 0.8, "pad": 3},
            )
    return Picture(name, alt, _svg(figure, name, alt), _png(figure) if png else None)


@drawing()
def _svg(fig: Figure, title: str, description: str) -> bytes:
    """Return a standalone SVG with a title and a description for screen readers."""
    buffer = io.BytesIO()
    fig.savefig(buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    text = buffer.getvalue().decode("utf-8")
    text = re.sub(r"(font: [^;\"]*?)'DejaVu Sans'", lambda m: m.group(1) + FONTS, text)
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"\s*<style type=\"text/css\">.*?</style>\s*", "\n", text, count=1, flags=re.DOTALL)
    text = re.sub(r"<defs>\s*</defs>\s*", "", text)
    head = f"<title>{escape(title)}</title>\n<desc>{escape(description)}</desc>"
    style = 'style="stroke-linejoin: round; stroke-linecap: butt" role="img"'
    text = re.sub(r"<svg ([^>]*)>", lambda m: f"<svg {m.group(1)} {style}>\n {head}", text, count=1)
    return re.sub(r"[ \t]+\n", "\n", text).encode("utf-8")


@drawing()
def _png(fig: Figure) -> bytes:
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=PNG_DPI, metadata={"Software": None})
    return buffer.getvalue()


def inline(svg: bytes | str, prefix: str) -> str:
    """Return an SVG for a page: colors as CSS variables, no fixed size, ids that begin with the prefix."""
    text = svg.decode("utf-8") if isinstance(svg, bytes) else svg
    text = text[text.index("<svg") :]
    text = re.sub(r"#[0-9a-f]{6}\b", lambda m: _variable(m.group(0)), text)
    text = re.sub(r'(\bid="|url\(#|xlink:href="#)', rf"\g<1>{prefix}-", text)
    head, rest = text.split(">", 1)
    head = re.sub(r' (width|height|xmlns(:\w+)?)="[^"]*"', "", head)
    rest = rest.replace("<title>", f'<title id="{prefix}-title">', 1)
    rest = rest.replace("<desc>", f'<desc id="{prefix}-desc">', 1)
    return f'{head} aria-labelledby="{prefix}-title {prefix}-desc">{rest}'.strip()


def _variable(color: str) -> str:
    name = palette.BY_HEX.get(color)
    return f"var(--{name})" if name else color
