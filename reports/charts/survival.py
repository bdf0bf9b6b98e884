"""Survival curves with pointwise limits, and the noisy numbers at risk below them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpalgos.survival.curves import SurvivalCurves
from reports import palette
from reports.charts.drawing import Chart, field, marks
from reports.charts.lines import Axes, Line, line_chart

_BELOW, _ROW = 50, 18  # pixels: from the plot to its legend, and the height of a row
_LEFT = 24  # pixels from the plot to the names of rows
_CHARACTER = 6.5  # pixels, with a margin


def survival_chart(curves: SurvivalCurves, width: float = 620, height: int = 330) -> Chart:
    """Return the chart of released curves; a curve ends where too few persons are at risk."""
    lines, below = list[Line](), height + _BELOW + _ROW * len(curves.groups)
    numbers = [_texts(["numbers at risk"], [curves.periods[0]], below, palette.MUTED)]
    for k, (group, own) in enumerate(curves.curves().groupby("group", sort=False)):
        look = replace(palette.look("private", k), shape=palette.SHAPES[k % len(palette.SHAPES)])
        visible = own[own["survival"].notna()]
        limits = list(zip(visible["ci_low"], visible["ci_high"], strict=True))
        points = list(zip(visible["time"], visible["survival"], strict=True))
        lines.append(Line(str(group), points, look, limits))
        at_risk = [f"{max(round(each), 0):,}" for each in own["at_risk"]]
        distance = (
            _CHARACTER * (1 + max(map(len, at_risk))) * (curves.periods[-1] - curves.periods[0]) / width
        )
        apart = _apart(list(own["time"]), distance)
        y = below + _ROW * (k + 1)
        texts = _texts([at_risk[j] for j in apart], [own["time"].iloc[j] for j in apart], y, look.color)
        numbers += [texts, _label(str(group), y, look.color)]
    axes = Axes(
        curves.time,
        "survival",
        curves.periods,
        x_log=False,
        y_log=False,
        y_range=(0.0, 1.0),
        width=width,
        height=height,
    )
    chart = line_chart(lines, axes)
    return {**chart, "layer": [*chart["layer"], *numbers]}


def _apart(times: Sequence[float], distance: float) -> list[int]:
    """Return positions of times, each at least a distance after the one before."""
    labeled = [0]
    for j, time in enumerate(times):
        if time - times[labeled[-1]] >= distance:
            labeled.append(j)
    return labeled


def _label(text: str, y: float, color: str) -> Chart:
    """Return the name of a row, left of the plot."""
    channels = {"x": {"value": -_LEFT}, "y": {"value": y}, "text": field("text:N"), "color": {"value": color}}
    return marks([{"text": text}], "text", channels, align="right")


def _texts(texts: Sequence[str], times: Sequence[float], y: float, color: str) -> Chart:
    """Return a row of texts at some times, below the plot."""
    rows = [{"text": text, "x": x} for text, x in zip(texts, times, strict=True)]
    channels = {"x": field("x:Q"), "y": {"value": y}, "text": field("text:N"), "color": {"value": color}}
    return marks(rows, "text", channels, align="left" if len(rows) == 1 else "center")
