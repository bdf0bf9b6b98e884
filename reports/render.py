"""Pages: a template and its context become HTML and Markdown."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, Template
from markupsafe import Markup, escape

from reports.charts.drawing import CONFIG, SMALLEST, Chart, Picture, banner, vega_library
from reports.visible import visible
from reports.writing import environment

SCRIPT = "pages.js"  # what pages run, a file next to the folders of reports
_SKELETONS = {"html": ("page.html.jinja", "html.jinja"), "markdown": ("page.md.jinja", "markdown.jinja")}
_ON_TOP: dict[str, Any] = {
    **dict.fromkeys(("heading", "banner", "sentence", "script", "charts"), ""),
    **dict.fromkeys(("links_on_top", "lead", "sections"), ()),
    "main": None,
}


@dataclass(frozen=True)
class TableCell:
    """A cell of a table.

    ``note`` is shown below the text, and ``title`` where the pointer rests. ``kind`` is "best", "worse",
    "missing" or "flagged". ``color`` is that of an estimator, whose mark is ``hollow`` with the paper's
    calibration.
    """

    text: str
    note: str = ""
    kind: str = ""
    title: str = ""
    color: str = ""
    hollow: bool = False


@dataclass(frozen=True)
class PageTable:
    """A table whose first ``n_labels`` columns are words.

    ``notes`` are a legend below it. On a phone the cells of a ``stacked``
    table stand below each other.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str | TableCell]]
    caption: str = ""
    n_labels: int = 1
    notes: Sequence[str] = ()
    stacked: bool = False

    @property
    def cells(self) -> list[list[TableCell]]:
        return [[TableCell(each) if isinstance(each, str) else each for each in row] for row in self.rows]

    @property
    def texts(self) -> list[list[str]]:
        return [[cell.text for cell in row] for row in self.cells]


@dataclass(frozen=True)
class Bar:
    """A bar above a page's tabs: its name, its segments by kind, what it amounts to, and a note."""

    label: str
    segments: Sequence[tuple[str, float]]
    text: str
    note: str = ""

    @property
    def length(self) -> float:
        return sum(size for _, size in self.segments)


def render_page(
    template: str | Path, *, charts: Mapping[str, Chart] | None = None, **context: Any
) -> tuple[bytes, bytes]:
    """Return a page as HTML, with the data of its charts, and as Markdown; a path is a template elsewhere."""
    # "<" ends no element, and opens none.
    data = json.dumps({"config": CONFIG, "charts": charts}, ensure_ascii=False, separators=(",", ":"))
    embedded = {"charts": Markup(data.replace("<", "\\u003c"))} if charts else {}
    page, text = (
        _template(markup, template).render(
            _ON_TOP | embedded | context | {"skeleton": skeleton, "skin": skin, "contents": []}
        )
        for markup, (skeleton, skin) in _SKELETONS.items()
    )
    return _close_up(page).encode(), _close_up(text).encode()


def render_table(table: PageTable, markup: str) -> str:
    """Return one table as "html" or "markdown", with its notes."""
    macros: Any = _environment(markup).get_template(_SKELETONS[markup][1]).module
    return _close_up(str(macros.table(table)))


def _close_up(text: str) -> str:
    """Leave one empty line between paragraphs."""
    return re.sub(r"\n(\s*\n){2,}", "\n\n", text).strip() + "\n"


def _template(markup: str, template: str | Path) -> Template:
    env = _environment(markup)
    if isinstance(template, Path):
        return env.from_string(template.read_text(encoding="utf-8"))
    return env.get_template(template)


@cache
def page_script() -> bytes:
    """Return what pages run: Vega, and what draws charts, filters and prints with it."""
    return f"{vega_library()}\n{environment().get_template(SCRIPT).render()}".encode()


@cache
def _environment(markup: str) -> Environment:
    """Return the environment: HTML is escaped unless marked safe, Markdown by the filter `text`."""
    env = environment(
        autoescape=markup == "html",
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    env.filters.update(text=page_text if markup == "html" else markdown_text, href=safe_href, banner=banner)
    env.filters["pretty"] = lambda value: json.dumps(value, indent=1, ensure_ascii=False)
    env.globals.update(drawn=_drawn, Table=PageTable)
    return env


def _drawn(picture: Picture) -> Markup:
    """Return a picture that is part of the page, as wide as it is drawn at most."""
    least = SMALLEST * picture.width
    return Markup(
        '<div class="scroll" tabindex="0" role="region" aria-label="Picture: {}">'
        '<img class="drawn" alt="{}" style="max-width:{:.0f}px;min-width:{:.0f}px" '
        'src="data:image/svg+xml;base64,{}"></div>'
    ).format(picture.name, picture.alt, 1.25 * picture.width, least, base64.b64encode(picture.svg).decode())


def markdown_text(text: object) -> str:
    """Escape text for Markdown, table cells included."""
    safe = html.escape(visible(" ".join(str(text).split())), quote=False)
    return re.sub(r"([|*\[\]`\\])", r"\\\1", safe)


def page_text(text: object) -> Markup:
    """Escape text for HTML; "ε = 0.5" and "10 %" stay on one line."""
    joined = re.sub(r"(?<=\b\w) = (?=[\w⁰-⁹])", "\u00a0=\u00a0", visible(str(escape(text)).strip()))
    return Markup(re.sub(r"(?<=\d) (?=%)", "\u00a0", joined))


def safe_href(address: str) -> str:
    """Return an address fit for a link: http(s) or relative; anything else becomes empty."""
    if re.match(r"https?://[^\s]+$", address):
        return address
    if address and ":" not in address and not address.startswith(("//", "\\")):
        return address
    return ""
