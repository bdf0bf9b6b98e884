"""Small pictures of a budget as SVG: half-widths against ε, and the spent part."""

import html
import math
from collections.abc import Mapping, Sequence

from reports.palette import HUES
from reports.writing import short

_LEFT, _TOP, _WIDTH, _HEIGHT = 66, 14, 330, 190
_MOST_LABELS, _LONGEST = 12, 24  # of lines, and letters of a label


def half_width_chart(
    lines: Mapping[str, Sequence[tuple[float, float]]], epsilon: float | None, axis: str = "ε"
) -> str:
    """Return half-widths against ε on logarithmic axes, with a marker at the chosen ε, as SVG.

    Without a chosen ε, the horizontal axis is linear and has another name. The widest lines have a label, and
    the others are gray.
    """
    points = [each for line in lines.values() for each in line]
    if not points:
        return "<p>No interval is forecast at any of these ε.</p>"
    low, high = _range_of([math.log10(width) for _, width in points])
    place = float if epsilon is None else math.log10
    left, right = _range_of([place(each) for each, _ in points])
    bottom = _TOP + _HEIGHT

    def x(value: float) -> float:
        return round(_LEFT + _WIDTH * (place(value) - left) / (right - left), 1)

    def y(value: float) -> float:
        return round(_TOP + _HEIGHT * (high - math.log10(value)) / (high - low), 1)

    def text(at: float, height: float, words: str, **more: str) -> str:
        attributes = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in more.items())
        return f'<text x="{at}" y="{height}"{attributes}>{html.escape(words)}</text>'

    marks = [text(_LEFT, bottom + 30, f"{axis}, and half-width to the left")]
    if epsilon is not None:
        marks.append(f'<line x1="{x(epsilon)}" x2="{x(epsilon)}" y1="{_TOP}" y2="{bottom}" class="marker"/>')
    for each in sorted({e for e, _ in points}):
        marks.append(text(x(each), bottom + 16, f"{each:g}", text_anchor="middle"))
    for each in (low, high):
        marks.append(text(_LEFT - 6, y(10**each), short(10**each), text_anchor="end"))
    below = -math.inf  # of the label above
    for number, (name, line) in enumerate(sorted(lines.items(), key=lambda each: -each[1][-1][1])):
        places = " ".join(f"{x(e)},{y(width)}" for e, width in line)
        below = max(below + 12, y(line[-1][1]) + 4) if number < _MOST_LABELS else below
        hue = HUES[number % len(HUES)] if number < _MOST_LABELS else "#8b929b"
        marks.append(f'<polyline points="{places}" fill="none" stroke="{hue}" stroke-width="2"/>')
        if number < _MOST_LABELS:
            label = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
            marks.append(text(_LEFT + _WIDTH + 14, below, label, fill=hue))
    height = max(bottom + 36, below + 10)
    return _picture(
        f"0,0 {_LEFT + _WIDTH + 150} {height}",
        "chart",
        f"Half-widths of intervals against {html.escape(axis)}",
        marks,
    )


def _range_of(logs: Sequence[float]) -> tuple[float, float]:
    return (min(logs), max(logs)) if max(logs) > min(logs) else (min(logs) - 0.5, max(logs) + 0.5)


def budget_gauge(spent: float, asked: float, total: float) -> str:
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


def _picture(box: str, name: str, title: str, marks: Sequence[str], more: str = "") -> str:
    return (
        f'<svg viewBox="{box}" role="img" aria-label="{title}" class="{name}" {more}>'
        f"<title>{title}</title>{''.join(marks)}</svg>"
    )
