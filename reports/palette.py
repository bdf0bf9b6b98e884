"""Colors and shapes of the whole site: one look per estimator, the same in every figure.

An estimator's hue is `HUES[order % 7]`, where `order` is its stable number in the catalog. The next seven
numbers, and other forms of an estimator, get another shade of that hue and another shape. The hues are Okabe
and Ito's, safe for color-blind readers; the light ones are darker, with a contrast of 3 to the page. Black is
kept for non-private estimators and gray for the zero vector and for theory.

Where a reader prefers dark, the browser inverts the lightness of pictures and swatches.
"""

from __future__ import annotations

from dataclasses import dataclass

HUES = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#c48500", "#3c99d2", "#8f9300")
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right")
SOLID, PRINTED_DASH, ZERO_DOTS, LIMIT_DASH = (1, 0), (6, 3), (1, 3), (8, 3, 2, 3)
GUIDE_DASHES = (SOLID, LIMIT_DASH, ZERO_DOTS)  # of lines of theory


def mix(color: str, other: str, share: float) -> str:
    """Mix two colors: `share` of the second one."""
    pair = zip(_rgb(color), _rgb(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pair)


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


INK, MUTED, GUIDE, ZERO_LINE, GRID, AXIS = "#1b1f24", "#5b6470", "#8b929b", "#868d96", "#e4e7eb", "#9aa1ab"
PAPER, NON_PRIVATE, WARN = "#ffffff", "#050505", "#a34a07"
SERIES = (*HUES, *(mix(c, "#101418", 0.45) for c in HUES), *(mix(c, MUTED, 0.5) for c in HUES))


@dataclass(frozen=True)
class Look:
    """How a line is drawn: its color, its dash, and shape and fill of its points."""

    color: str
    dash: tuple[int, ...]
    shape: str
    fill: str
    width: float = 2.0


def look(role: str, order: int, form: int = 0, calibration: str = "tight") -> Look:
    """Return an estimator's look: black without privacy, gray dots for zero, hollow and dashed as printed.

    An estimator that proves no finite ε at all is dashed and dotted.
    """
    if role == "zero":
        return Look(ZERO_LINE, ZERO_DOTS, "", ZERO_LINE)
    if role == "nonprivate":
        shape = SHAPES[(order + form) % len(SHAPES)]
        return Look(NON_PRIVATE, SOLID, shape, NON_PRIVATE)
    place, shape = slot(order, form), SHAPES[(form + 3 * (order // len(HUES))) % len(SHAPES)]
    if role == "unprotected":
        return Look(SERIES[place], LIMIT_DASH, shape, PAPER)
    if calibration == "paper":
        return Look(SERIES[place], PRINTED_DASH, shape, PAPER)
    return Look(SERIES[place], SOLID, shape, SERIES[place])


def guide_look(dash: tuple[int, ...]) -> Look:
    """Return the look of a line of theory or of a limit: thin and gray."""
    return Look(GUIDE, dash, "", GUIDE, 1.0)


def slot(order: int, form: int = 0) -> int:
    """Return the number of a color: the hue is the estimator's, the shade differs by form."""
    return order % len(HUES) + len(HUES) * ((order // len(HUES) + form) % 3)
