"""Fields, tables and pictures, drawn the same in all steps."""

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shiny import ui

from flows.page.files import OPEN, quoted_entry, text_of_list
from reports.palette import HUES
from reports.writing import short

_LEFT, _TOP, _WIDTH, _HEIGHT = 52, 14, 330, 190
_STYLE = """
body { font-size: 16px; } h1 { font-size: 1.5rem; margin-top: .6em; }
h2 { font-size: 1.15rem; margin-top: 1.2em; }
fieldset.column { border-top: 1px solid var(--bs-border-color); padding: .5em 0; }
.fields { display: none; } fieldset:has([value=number]:checked) .number,
fieldset:has([value=category]:checked) .category, fieldset:has([value=time]:checked) .time { display: block; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(15rem, 100%), 1fr)); gap: 0 1rem; }
.grid > .btn { align-self: center; }
legend { font-size: 1rem; font-weight: 600; float: none; } label { font-size: .9rem; }
.boxes { max-height: 12rem; overflow-y: auto; } .scroll { overflow-x: auto; } .scroll table { width: auto; }
.banner { border: 1px solid #a34a07; border-radius: 6px; padding: .6em .9em; }
.ok { color: var(--bs-success-text-emphasis); }
.chart { width: 100%; max-width: 38rem; font-size: 11px; } .chart text { fill: currentColor; }
.chart .marker { stroke: currentColor; stroke-dasharray: 4; }
.gauge { width: 100%; max-width: 40rem; height: 1rem; background: #8b929b55; }
.gauge .spent { fill: #0072b2; } .gauge .asked { fill: #c48500; }
iframe.results { width: 100%; height: 40rem; border: 1px solid var(--bs-border-color); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
"""
_DARK = """
const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = () => { document.documentElement.dataset.bsTheme = dark.matches ? "dark" : "light"; };
dark.addEventListener("change", theme); theme();
"""
HEADER = ui.TagList(ui.tags.style(ui.HTML(_STYLE)), ui.tags.script(ui.HTML(_DARK)))


def document(title: str, *parts: Any) -> ui.Tag:
    """Return a whole page with the style of all pages."""
    return ui.page_fluid(HEADER, *parts, title=title, lang="en")


def text_field(name: str, label: str, value: Any = "", placeholder: str = "") -> ui.Tag:
    """Return a field that is read when a person leaves it; an open value is shown as empty."""
    text = text_of_list(value) if isinstance(value, list) else "" if value in (None, OPEN) else str(value)
    return ui.input_text(name, label, text, placeholder=placeholder, update_on="blur", width="100%")


def lines_field(name: str, label: str, value: Mapping[str, list[str]] | None) -> ui.Tag:
    """Return a field with the codes of a category on each line."""
    text = "\n".join(
        f"{quoted_entry(category)} = {text_of_list([*codes])}" for category, codes in (value or {}).items()
    )
    return ui.input_text_area(name, label, text, rows=3, update_on="blur", width="100%")


def select_field(name: str, label: str, choices: Any, selected: Any = None) -> ui.Tag:
    return ui.input_select(name, label, choices, selected=selected, width="100%")


def check_boxes(name: str, label: str, choices: Sequence[str], chosen: Sequence[str] = ()) -> ui.Tag:
    """Return a box for each of many columns."""
    boxes = ui.input_checkbox_group(
        name, label, list(choices), selected=list(chosen), inline=True, width="100%"
    )
    return ui.div(boxes, class_="boxes")


def grid(*parts: Any) -> ui.Tag:
    """Return fields next to each other; hidden fields take no place."""
    return ui.div(*parts, class_="grid")


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> ui.Tag:
    """Return a table, which scrolls on a phone."""
    lines = [ui.tags.tr(*[ui.tags.td(cell) for cell in row]) for row in rows]
    first = ui.tags.tr(*[ui.tags.th(each, scope="col") for each in head])
    title = ui.tags.caption(caption) if caption else None
    whole = ui.tags.table(title, ui.tags.thead(first), ui.tags.tbody(*lines), class_="table table-sm")
    return ui.div(whole, class_="scroll", tabindex="0", role="region", aria_label=caption or head[0])


def banner(text: str) -> ui.Tag:
    return ui.p(text, class_="banner", role="status")


def faults_of(faults: Sequence[str], complete: str) -> ui.Tag:
    """Return what is missing or wrong, or that nothing is."""
    if not faults:
        return ui.p(complete, class_="ok", role="status")
    return ui.tags.ul(*[ui.tags.li(each) for each in faults])


def chart(lines: Mapping[str, Sequence[tuple[float, float]]], epsilon: float) -> ui.HTML:
    """Return half-widths against ε on logarithmic axes, with a marker at the chosen ε, as SVG."""
    points = [each for line in lines.values() for each in line]
    if not points:
        return ui.HTML("<p>No interval is forecast at any of these ε.</p>")
    low, high = _range_of([math.log10(width) for _, width in points])
    left, right = _range_of([math.log10(each) for each, _ in points])
    bottom = _TOP + _HEIGHT

    def x(value: float) -> float:
        return round(_LEFT + _WIDTH * (math.log10(value) - left) / (right - left), 1)

    def y(value: float) -> float:
        return round(_TOP + _HEIGHT * (high - math.log10(value)) / (high - low), 1)

    def text(at: float, height: float, words: str, **more: str) -> str:
        given = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in more.items())
        return f'<text x="{at}" y="{height}"{given}>{html.escape(words)}</text>'

    marker = f'<line x1="{x(epsilon)}" x2="{x(epsilon)}" y1="{_TOP}" y2="{bottom}" class="marker"/>'
    marks = [marker, text(_LEFT, bottom + 30, "ε, and half-width to the left")]
    for each in sorted({e for e, _ in points}):
        marks.append(text(x(each), bottom + 16, f"{each:g}", text_anchor="middle"))
    for each in (low, high):
        marks.append(text(_LEFT - 6, y(10**each), short(10**each), text_anchor="end"))
    below = -math.inf  # of the label above
    for number, (name, line) in enumerate(sorted(lines.items(), key=lambda each: -each[1][-1][1])):
        places = " ".join(f"{x(e)},{y(width)}" for e, width in line)
        below = max(below + 12, y(line[-1][1]) + 4)
        hue = HUES[number % len(HUES)]
        marks.append(f'<polyline points="{places}" fill="none" stroke="{hue}" stroke-width="2"/>')
        marks.append(text(_LEFT + _WIDTH + 6, below, name, fill=hue))
    height = max(bottom + 36, below + 10)
    return _picture(
        f"0,0 {_LEFT + _WIDTH + 150} {height}", "chart", "Half-widths of intervals against ε", marks
    )


def _range_of(logs: Sequence[float]) -> tuple[float, float]:
    return (min(logs), max(logs)) if max(logs) > min(logs) else (min(logs) - 0.5, max(logs) + 0.5)


def gauge(spent: float, asked: float, total: float) -> ui.HTML:
    """Return a bar of a budget as SVG: the spent part, the part for a plan, and the rest."""
    parts, at = [], 0.0
    for name, value in (("spent", spent), ("asked", asked)):
        width = max(0.0, min(value, total - at))
        parts.append(
            f'<rect x="{100 * at / total:.2f}" width="{100 * width / total:.2f}" height="8" class="{name}"/>'
        )
        at += width
    title = f"ε {spent:.3g} of {total:g} is spent; this plan asks for {asked:.3g}"
    return _picture("0,0 100 8", "gauge", title, parts, 'preserveAspectRatio="none"')


def _picture(box: str, name: str, title: str, marks: Sequence[str], more: str = "") -> ui.HTML:
    return ui.HTML(
        f'<svg viewBox="{box}" role="img" aria-label="{title}" class="{name}" {more}>'
        f"<title>{title}</title>{''.join(marks)}</svg>"
    )
