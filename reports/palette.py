"""Colors and shapes of the whole site: one look per estimator, the same in every figure.

An estimator's hue is `HUES[order % 7]`, where `order` is its stable number in the catalog; the next seven
numbers, and other forms of an estimator, get another shade of it and another shape. The hues are Okabe and
Ito's, safe for color-blind readers (their yellow is darkened: it can't be read on white). Black is kept for
non-private estimators and gray for the zero vector and for theory.

Figures are drawn with the light colors; `DARK` holds what the browser swaps in when the reader prefers dark.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

HUES = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#a89a00")
HUES_DARK = ("#ff8a3d", "#4aa8e8", "#2cc79a", "#e39ac4", "#f5b93a", "#7cc8f5", "#e5d85a")
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right")
SYMBOLS = MappingProxyType(
    dict(zip(SHAPES, ("●○", "■□", "▲△", "◆◇", "▼▽", "✚✛", "▶▷"), strict=True))
)  # in text, filled and hollow
SOLID, PRINTED_DASH, ZERO_DOTS, LIMIT_DASH = (1, 0), (6, 3), (1, 3), (8, 3, 2, 3)


def mix(color: str, other: str, share: float) -> str:
    """Mix two colors: `share` of the second one."""
    pair = zip(_rgb(color), _rgb(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pair)


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


SERIES = (*HUES, *(mix(c, "#101418", 0.45) for c in HUES), *(mix(c, "#ffffff", 0.42) for c in HUES))
SERIES_DARK = (
    *HUES_DARK,
    *(mix(c, "#ffffff", 0.5) for c in HUES_DARK),
    *(mix(c, "#14171b", 0.42) for c in HUES_DARK),
)
SERIES_TEXT = tuple(mix(c, "#101418", 0.4) for c in SERIES)
SERIES_TEXT_DARK = tuple(mix(c, "#ffffff", 0.3) for c in SERIES_DARK)

# Of each name the color in light mode, with which figures are drawn, and in dark mode.
_PLAIN = {
    "ink": ("#1b1f24", "#e8eaed"),
    "muted": ("#5b6470", "#a5adb8"),
    "guide": ("#8b929b", "#7d858f"),
    "zero": ("#868d96", "#8e959f"),
    "grid": ("#e4e7eb", "#2a2f36"),
    "axis": ("#9aa1ab", "#5a626d"),
    "paper": ("#ffffff", "#14171b"),
    "nonprivate": ("#050505", "#f7f7f7"),
    "warn": ("#a34a07", "#fbbf57"),
    "warn-fill": ("#fdf0d5", "#3a2b10"),
    "flag": ("#e0a030", "#c98a1e"),
}
_PAIRS = {
    **_PLAIN,
    **{f"s{i}": pair for i, pair in enumerate(zip(SERIES, SERIES_DARK, strict=True))},
    **{f"t{i}": pair for i, pair in enumerate(zip(SERIES_TEXT, SERIES_TEXT_DARK, strict=True))},
}
LIGHT = MappingProxyType({name: light for name, (light, _) in _PAIRS.items()})
DARK = MappingProxyType({name: dark for name, (_, dark) in _PAIRS.items()})
INK, MUTED, GUIDE, ZERO_LINE, GRID, AXIS, PAPER, NON_PRIVATE, WARN, *_ = (LIGHT[name] for name in _PLAIN)
BY_HEX = MappingProxyType({color: name for name, color in LIGHT.items()})


@dataclass(frozen=True)
class Look:
    """How a line is drawn: its color, that of its name, its dash, and shape and fill of its points."""

    color: str
    ink: str
    dash: tuple[int, ...]
    shape: str
    fill: str
    width: float = 2.0

    @property
    def symbol(self) -> str:
        """How the line is named in text: its points, filled or hollow, or dots where it has none."""
        return SYMBOLS[self.shape][self.fill == PAPER] if self.shape else "┄"


def look(role: str, order: int, form: int = 0, calibration: str = "tight") -> Look:
    """Return an estimator's look: black without privacy, gray dots for zero, hollow and dashed as printed.

    What proves no finite ε at all is dashed and dotted.
    """
    if role == "zero":
        return Look(ZERO_LINE, MUTED, ZERO_DOTS, "", ZERO_LINE)
    if role == "nonprivate":
        return Look(NON_PRIVATE, NON_PRIVATE, SOLID, "circle", NON_PRIVATE)
    place, shape = slot(order, form), SHAPES[(form + 3 * (order // len(HUES))) % len(SHAPES)]
    if role == "unprotected":
        return Look(SERIES[place], SERIES_TEXT[place], LIMIT_DASH, shape, PAPER)
    if calibration == "paper":
        return Look(SERIES[place], SERIES_TEXT[place], PRINTED_DASH, shape, PAPER)
    return Look(SERIES[place], SERIES_TEXT[place], SOLID, shape, SERIES[place])


def guide_look(dash: tuple[int, ...]) -> Look:
    """Return the look of a line of theory or of a limit: thin and gray."""
    return Look(GUIDE, MUTED, dash, "", GUIDE, 1.0)


def slot(order: int, form: int = 0) -> int:
    """Return the number of a color: the hue is the estimator's, the shade differs by form."""
    return order % len(HUES) + len(HUES) * ((order // len(HUES) + form) % 3)
