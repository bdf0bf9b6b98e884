"""Templates and the small filters they use."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from reports.charts import palette
from reports.numbers import duration, num, rule_text, setting, short, words


@cache
def html_environment() -> Environment:
    """Return the environment of HTML templates: everything is escaped unless marked safe."""
    return _environment(autoescape=True)


@cache
def markdown_environment() -> Environment:
    """Return the environment of Markdown templates; text passes through the filter `md`."""
    return _environment(autoescape=False)


def _environment(*, autoescape: bool) -> Environment:
    env = Environment(
        loader=PackageLoader("reports", "templates"),
        autoescape=autoescape,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    _add_filters(env)
    return env


def _add_filters(env: Environment) -> None:
    env.filters.update(
        md=markdown_text,
        num=num,
        known=lambda value: num(value) if math.isfinite(value) else "not known",
        setting=setting,
        rule=rule_text,
        words=words,
        duration=duration,
        href=safe_href,
        slot=palette.slot,
        powers=powers,
        percent=lambda share: f"{short(100 * share)} %",
    )


def markdown_text(text: object) -> str:
    """Escape text for Markdown, table cells included."""
    safe = html.escape(" ".join(str(text).split()), quote=False)
    return re.sub(r"([|*\[\]`\\])", r"\\\1", safe)


def unbroken(text: str) -> str:
    """Keep "ε = 0.5" and "10 %" on one line."""
    return re.sub(r"(?<=\d) (?=%)", "\u00a0", re.sub(r"(?<=\b\w) = (?=[\w⁰-⁹])", "\u00a0=\u00a0", text))


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


def stylesheet() -> Markup:
    """Return the site's CSS with the colors of both themes."""
    source = html_environment().get_template("style.css").render(light=palette.LIGHT, dark=palette.DARK)
    return Markup(source)


def manifest_rows(manifest: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Flatten what a page shows nowhere else of a manifest into (name, value) pairs with readable names."""
    return tuple(_flatten({key: value for key, value in manifest.items() if key not in _SHOWN}, ()))


# What the page says in its own words.
_SHOWN = {
    *("budgets", "command", "finished", "machine", "not_run", "earlier_contents", "profile"),
    *("rerun_commands", "started", "warning"),
}
_NAMES = {
    "sha256": "SHA-256",
    "python": "Python",
    "packages": "Packages",
    "cpu": "CPU",
    "cpus": "CPUs",
}


def _flatten(value: Any, path: tuple[str, ...]) -> Iterable[tuple[str, str]]:
    if isinstance(value, Mapping):
        if (
            path
            and path[-1] in {"packages", "versions"}
            and all(not isinstance(v, Mapping) for v in value.values())
        ):
            yield _name(path), ", ".join(f"{k} {v}" for k, v in value.items())
            return
        for key, item in value.items():
            yield from _flatten(item, (*path, str(key)))
    elif isinstance(value, list | tuple):
        if all(not isinstance(item, Mapping | list | tuple) for item in value):
            if value:
                yield _name(path), ", ".join(str(item) for item in value)
            return
        for i, item in enumerate(value, start=1):
            yield from _flatten(item, (*path, str(i)))
    elif value not in (None, ""):
        yield _name(path), str(value)


def _name(path: tuple[str, ...]) -> str:
    parts = [_NAMES.get(part, part.replace("_", " ")) for part in path]
    text = ", ".join(parts)
    return text[:1].upper() + text[1:]
