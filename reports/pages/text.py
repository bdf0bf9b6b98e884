"""Templates, the filters that they use, and the words for a manifest."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

from jinja2 import Environment
from markupsafe import Markup, escape

from reports import palette
from reports.charts.drawing import Picture, can_draw, inline, vega_library
from reports.writing import environment, words

_SCRIPTS = "<!-- scripts -->"
_EMPTY: dict[str, Any] = {
    **dict.fromkeys(("heading", "banner", "sentence", "caption", "search"), ""),
    **dict.fromkeys(("links_on_top", "lead"), ()),
    **dict.fromkeys(("number", "pictures")),
}


def render_page(
    title: str,
    description: str,
    sections: Sequence[Any] = (),
    *,
    template: str = "page.html.jinja",
    scripts: Sequence[str] = (),
    data: Mapping[str, str] = MappingProxyType({}),
    **context: Any,
) -> tuple[bytes, bytes]:
    """Return a page as HTML, with scripts and their data by id, and as Markdown."""
    values = {**_EMPTY, "title": title, "description": description, "sections": sections, **context}
    colors = {"light": palette.LIGHT, "dark": palette.DARK}
    page = _environment("html").get_template(template).render(values, **colors)
    # "ε = 0.5" and "10 %" stay on one line.
    page = re.sub(r"(?<=\b\w) = (?=[\w⁰-⁹])", "\u00a0=\u00a0", page)
    page = re.sub(r"(?<=\d) (?=%)", "\u00a0", page)
    elements = [_DATA.format(name=name, text=text) for name, text in data.items()]
    elements += [f"<script>{template_text(name)}</script>" for name in scripts]
    html = page.replace(_SCRIPTS, "\n".join(elements)).encode("utf-8")
    text = _environment("markdown").get_template("report.md.jinja").render(values)
    return html, (re.sub(r"\n{3,}", "\n\n", text).strip() + "\n").encode()


_DATA = '<script type="application/octet-stream" id="{name}">{text}</script>'


@cache
def script_hashes() -> list[str]:
    """Return the scripts that pages may run, as a Content-Security-Policy names them."""
    texts = [template_text(name) for name in ("filter.js", "chart.js")]
    if can_draw():
        texts.append(vega_library())  # which a page carries packed
    return [script_hash(text) for text in texts]


def script_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def template_text(name: str) -> str:
    return _environment("html").get_template(name).render()


@cache
def _environment(form: str) -> Environment:
    """Return the environment of a form: HTML is escaped unless marked safe, Markdown by the filter `text`."""
    env = environment(autoescape=form == "html", trim_blocks=True, lstrip_blocks=True)
    env.filters.update(
        text=powers if form == "html" else markdown_text,
        words=words,
        href=safe_href,
        slot=palette.slot,
    )
    env.globals["figure"] = _figure
    return env


def _figure(picture: Picture, prefix: str) -> Markup:
    drawn = Markup(inline(picture.svg, prefix))
    width = _MOST_SCALE * _drawn_width(drawn)
    drawn = Markup('<div style="max-width:{:.0f}px">{}</div>').format(width, drawn)
    least = _least_width(drawn)
    frame = Markup(
        '<div class="scroll" tabindex="0" role="region" aria-label="Picture: {}">'
        '<div style="min-width:{:.0f}px">{}</div></div>'
    )
    return frame.format(picture.name, least, drawn) if least > _PHONE else drawn


def markdown_text(text: object) -> str:
    """Escape text for Markdown, table cells included."""
    safe = html.escape(" ".join(str(text).split()), quote=False)
    return re.sub(r"([|*\[\]`\\])", r"\\\1", safe)


_PHONE, _SMALLEST = 340, 8.1  # pixels: of a figure on a phone, and of text that can be read
_MOST_SCALE = 1.25  # of a figure: its text is then as large as the page's


def _drawn_width(svg: str) -> float:
    box = re.search(r'viewBox="\S+ \S+ ([\d.]+)', svg)
    return float(box[1]) if box else 0.0


def _least_width(svg: str) -> float:
    """Return from which width on the text of a figure can be read."""
    sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)', svg)]
    return _drawn_width(svg) * _SMALLEST / min(sizes) if sizes else 0.0


_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹·⁻⁺"
_LOWERED = str.maketrans(_RAISED, "0123456789.−+")


def powers(text: object) -> Markup:
    """Escape text for HTML and set raised digits as real superscripts."""
    return Markup(
        re.sub(
            "(?<=[^\\s])[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺][⁰¹²³⁴⁵⁶⁷⁸⁹·⁻⁺]*",
            lambda m: f"<sup>{m.group(0).translate(_LOWERED)}</sup>",
            str(escape(str(text))),
        )
    )


def safe_href(address: str) -> str:
    """Return an address fit for a link: http(s) or relative; anything else becomes empty."""
    if re.match(r"https?://[^\s]+$", address):
        return address
    if address and ":" not in address and not address.startswith(("//", "\\")):
        return address
    return ""


# What the page says of a manifest in its own words.
_SHOWN = {
    *("blocks", "budgets", "command", "finished", "machine", "not_run", "earlier_contents", "profile"),
    *("rerun_commands", "started", "warning"),
}
_NAMES = {"sha256": "SHA-256", "python": "Python", "packages": "Packages"}


def manifest_rows(manifest: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Flatten what a page shows nowhere else of a manifest into (name, value) pairs with readable names."""
    return tuple(_flatten({key: value for key, value in manifest.items() if key not in _SHOWN}, ()))


def _flatten(value: Any, path: tuple[str, ...]) -> Iterable[tuple[str, str]]:
    text = ", ".join(_NAMES.get(part, part.replace("_", " ")) for part in path)
    name = text[:1].upper() + text[1:]
    if isinstance(value, Mapping) and path[-1:] == ("packages",):
        yield name, ", ".join(f"{k} {v}" for k, v in value.items())
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flatten(item, (*path, str(key)))
    elif isinstance(value, list | tuple) and any(isinstance(item, Mapping | list | tuple) for item in value):
        for i, item in enumerate(value, start=1):
            yield from _flatten(item, (*path, str(i)))
    elif isinstance(value, list | tuple):
        if value:
            yield name, ", ".join(str(item) for item in value)
    elif value not in (None, ""):
        yield name, str(value)
