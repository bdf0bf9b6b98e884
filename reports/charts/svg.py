"""Figures as bytes: the same figure always gives the same bytes, and its text stays text."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def drawing() -> Iterator[None]:
    """Draw with this module's settings, whatever the user's matplotlibrc says."""
    with mpl.rc_context(_RC):
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in CSS pixels (a point in the SVG is one of them)."""
    return Figure(figsize=(width / 72, height / 72), dpi=72, facecolor=palette.PAPER)


def to_svg(fig: Figure, title: str, description: str) -> bytes:
    """Return a standalone SVG with a title and a description for screen readers."""
    buffer = io.BytesIO()
    with drawing():
        fig.savefig(
            buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    text = buffer.getvalue().decode("utf-8")
    text = re.sub(r"(font: [^;\"]*?)'DejaVu Sans'", lambda m: m.group(1) + FONTS, text)
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"\s*<style type=\"text/css\">.*?</style>\s*", "\n", text, count=1, flags=re.DOTALL)
    text = re.sub(r"<defs>\s*</defs>\s*", "", text)
    head = f"<title>{escape(title)}</title>\n<desc>{escape(description)}</desc>"
    style = 'style="stroke-linejoin: round; stroke-linecap: butt" role="img"'
    text = re.sub(r"<svg ([^>]*)>", lambda m: f"<svg {m.group(1)} {style}>\n {head}", text, count=1)
    return re.sub(r"[ \t]+\n", "\n", text).encode("utf-8")


def to_png(fig: Figure) -> bytes:
    """Return a PNG on white."""
    buffer = io.BytesIO()
    with drawing():
        fig.savefig(buffer, format="png", dpi=PNG_DPI, metadata={"Software": None})
    return buffer.getvalue()


def inline(svg: bytes | str, prefix: str) -> str:
    """Return an SVG for a page: colors as CSS variables, unique ids, no fixed size.

    Parameters
    ----------
    svg : bytes or str
        What `to_svg` returned.
    prefix : str
        Makes the ids unique within the page.
    """
    text = svg.decode("utf-8") if isinstance(svg, bytes) else svg
    text = text[text.index("<svg") :]
    text = re.sub(r"#[0-9a-f]{6}\b", lambda m: _variable(m.group(0)), text)
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r"url\(#", f"url(#{prefix}-", text)
    text = re.sub(r'xlink:href="#', f'href="#{prefix}-', text)
    head, rest = text.split(">", 1)
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    head = re.sub(r' xmlns(:\w+)?="[^"]*"', "", head)
    title = f"{prefix}-title"
    rest = rest.replace("<title>", f'<title id="{title}">', 1).replace(
        "<desc>", f'<desc id="{prefix}-desc">', 1
    )
    return f'{head} aria-labelledby="{title} {prefix}-desc">{rest}'.strip()


def _variable(color: str) -> str:
    name = palette.BY_HEX.get(color)
    return f"var(--{name})" if name else color
