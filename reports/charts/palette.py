"""Colors of the whole site: one per estimator, the same in every figure.

An estimator's color is `SERIES[order % 7]`, where `order` is its stable number in the catalog; the next
seven numbers get the same colors with other markers. The hues are Okabe and Ito's, safe for color-blind
readers (their yellow is darkened: it can't be read on white). Black is kept for non-private estimators and
gray for the zero vector and for theory.

Figures are drawn with the light colors; `DARK` holds what the browser swaps in when the reader prefers dark.
"""

from __future__ import annotations

from types import MappingProxyType

SERIES = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#a89a00")
SERIES_DARK = ("#ff8a3d", "#4aa8e8", "#2cc79a", "#e39ac4", "#f5b93a", "#7cc8f5", "#e5d85a")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def mix(color: str, other: str, share: float) -> str:
    """Mix two colors: `share` of the second one."""
    pair = zip(_rgb(color), _rgb(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pair)


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


SERIES_TEXT = tuple(mix(c, "#101418", 0.38) for c in SERIES)
SERIES_TEXT_DARK = tuple(mix(c, "#ffffff", 0.25) for c in SERIES_DARK)

INK = "#1b1f24"
MUTED = "#5b6470"
GUIDE = "#8b929b"
ZERO_LINE = "#868d96"
GRID = "#e4e7eb"
AXIS = "#9aa1ab"
PAPER = "#ffffff"
NON_PRIVATE = "#050505"
WARN = "#b45309"
WARN_FILL = "#fdf0d5"
FLAG = "#e0a030"

LIGHT = MappingProxyType(
    {
        "ink": INK,
        "muted": MUTED,
        "guide": GUIDE,
        "zero": ZERO_LINE,
        "grid": GRID,
        "axis": AXIS,
        "paper": PAPER,
        "nonprivate": NON_PRIVATE,
        "warn": WARN,
        "warn-fill": WARN_FILL,
        "flag": FLAG,
        **{f"s{i}": color for i, color in enumerate(SERIES)},
        **{f"t{i}": color for i, color in enumerate(SERIES_TEXT)},
    }
)
DARK = MappingProxyType(
    {
        "ink": "#e8eaed",
        "muted": "#a5adb8",
        "guide": "#7d858f",
        "zero": "#8e959f",
        "grid": "#2a2f36",
        "axis": "#5a626d",
        "paper": "#14171b",
        "nonprivate": "#f7f7f7",
        "warn": "#fbbf57",
        "warn-fill": "#3a2b10",
        "flag": "#c98a1e",
        **{f"s{i}": color for i, color in enumerate(SERIES_DARK)},
        **{f"t{i}": color for i, color in enumerate(SERIES_TEXT_DARK)},
    }
)
BY_HEX = MappingProxyType({color: name for name, color in LIGHT.items()})


def slot(order: int) -> int:
    """Return the number of an estimator's color."""
    return order % len(SERIES)


def line_color(role: str, order: int) -> str:
    """Return the color of a line: the estimator's, black for non-private, gray for the zero vector."""
    if role == "private":
        return SERIES[slot(order)]
    return ZERO_LINE if role == "zero" else NON_PRIVATE


def text_color(role: str, order: int) -> str:
    """Return the color of a line's label: the same hue, dark enough to read."""
    if role == "private":
        return SERIES_TEXT[slot(order)]
    return MUTED if role == "zero" else NON_PRIVATE


def marker(order: int, form: int) -> str:
    """Return the marker of an estimator's line, which distinguishes forms and shared colors."""
    times = order // len(SERIES)  # that the colors were gone through; after seven times markers are moved on
    return MARKERS[(form + 3 * times + times // len(MARKERS)) % len(MARKERS)]
