"""Pictures of the page: half-widths against ε, and the gauge of a budget."""

import html
import math
from collections.abc import Mapping, Sequence

from reports.palette import HUES

_LEFT, _TOP, _WIDTH, _HEIGHT = 52, 14, 330, 190


def chart(lines: Mapping[str, Sequence[tuple[float, float]]], epsilon: float) -> str:
    """Return half-widths against ε on logarithmic axes, with a marker at the chosen ε, as SVG."""
    points = [each for line in lines.values() for each in line]
    if not points:
        return "<p>No interval is forecast at any of these ε.</p>"
    low, high = _ends([math.log10(width) for _, width in points])
    left, right = _ends([math.log10(each) for each, _ in points])

    def x(value: float) -> float:
        return _LEFT + _WIDTH * (math.log10(value) - left) / (right - left)

    def y(value: float) -> float:
        return _TOP + _HEIGHT * (high - math.log10(value)) / (high - low)

    bottom = _TOP + _HEIGHT
    marks = [
        f'<line x1="{x(epsilon):.1f}" x2="{x(epsilon):.1f}" y1="{_TOP}" y2="{bottom}" class="marker"/>',
        f'<text x="{_LEFT}" y="{bottom + 30}">ε</text>',
    ]
    marks += [
        f'<text x="{x(each):.1f}" y="{bottom + 16}" text-anchor="middle">{each:g}</text>'
        for each in sorted({e for e, _ in points})
    ]
    marks += [
        f'<text x="{_LEFT - 6}" y="{y(10**each):.1f}" text-anchor="end">{10**each:.2g}</text>'
        for each in (low, high)
    ]
    below = -math.inf  # of the label above
    for number, (name, line) in enumerate(sorted(lines.items(), key=lambda each: -each[1][-1][1])):
        color, places = HUES[number % len(HUES)], " ".join(f"{x(e):.1f},{y(width):.1f}" for e, width in line)
        below = max(below + 12, y(line[-1][1]) + 4)
        marks.append(f'<polyline points="{places}" fill="none" stroke="{color}" stroke-width="2"/>')
        marks.append(
            f'<text x="{_LEFT + _WIDTH + 6}" y="{below:.1f}" fill="{color}">{html.escape(name)}</text>'
        )
    title = "Half-widths of intervals against ε"
    return (
        f'<svg viewBox="0,0 {_LEFT + _WIDTH + 150} {bottom + 36}" role="img" aria-label="{title}" '
        f'class="chart">'
        f"<title>{title}</title>{''.join(marks)}</svg>"
    )


def _ends(logs: Sequence[float]) -> tuple[float, float]:
    return (min(logs), max(logs)) if max(logs) > min(logs) else (min(logs) - 0.5, max(logs) + 0.5)


def gauge(spent: float, asked: float, total: float) -> str:
    """Return a bar of a budget: what is spent, what a plan asks, and what is left, as SVG."""
    parts, at = [], 0.0
    for name, value in (("spent", spent), ("asked", asked)):
        width = 100 * max(0.0, min(value, total - at)) / total
        parts.append(
            f'<rect x="{100 * at / total:.2f}" y="0" width="{width:.2f}" height="8" class="{name}"/>'
        )
        at += value
    title = f"ε {spent:.3g} of {total:g} is spent; this plan asks for {asked:.3g}"
    return (
        f'<svg viewBox="0,0 100 8" preserveAspectRatio="none" role="img" aria-label="{title}" class="gauge">'
        f"<title>{title}</title>{''.join(parts)}</svg>"
    )
