"""Figures of a study of attacks: AUC against ε below its ceilings, and ROC curves on log axes."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.charts import chart, label_placement, palette, svg
from reports.charts.axis_text import add_banner
from reports.charts.chart import LETTER, Size, decade_ticks, labeled_ticks
from reports.charts.figures import PRINTED_DASH, ZERO_DOTS, bare_axes, set_ticks
from reports.charts.picture import Picture, banner
from reports.charts.svg import drawing, new_figure
from reports.numbers import num, setting
from reports.page import Guide
from reports.plots import PanelGroup, Pictures
from reports.words.attack_series import AUC, CHANCE, AttackPanel, AttackView, Line

_CEILING_DASHES = ("-", (0, (6, 3, 1, 3)))
_LOWEST_RATE = 1e-3


def draw_attacks(view: AttackView, certified: Picture | None) -> Pictures:
    """Draw every figure of a study of attacks."""
    head = view.head
    if head is None:
        return Pictures(None, None, None, None, ())
    others = [panel for panel in view.panels if panel.name == head.name]
    groups = [
        PanelGroup(
            "The whole ROC curve",
            f"True against false positive rate at ε = {setting(view.epsilon)}, on log axes: an attacker who "
            "accuses few people wrongly lives on the left.",
            tuple((panel.title, _roc(view, panel)) for panel in view.heads),
        ),
        PanelGroup(
            "How the AUC grows with ε, panel by panel",
            "",
            tuple((panel.title, _auc(view, panel, chart.PANEL)) for panel in (*others, *view.heads[1:])),
        ),
    ]
    return Pictures(
        _auc(view, head, chart.WIDE, "main"),
        _auc(view, head, chart.NARROW, "main-narrow", png=False),
        _auc(view, head, chart.CARD, "card", png=False),
        certified,
        tuple(groups),
    )


def _guides(guides: Sequence[Guide], panel: AttackPanel) -> list[Guide]:
    return [guide for guide in guides if guide.panel == f"{panel.name}:{panel.n}"]


def _auc(view: AttackView, panel: AttackPanel, size: Size, name: str = "", *, png: bool = True) -> Picture:
    epsilons = sorted({cell.epsilon for line in panel.lines if line.private for cell in line.cells})
    low, high = (epsilons[0] / 1.15, epsilons[-1] * 1.15) if len(epsilons) > 1 else (0.1, 10.0)
    other, best = panel.without_privacy, panel.best_private(view.epsilon)
    alt = f"AUC of the attack against ε, {panel.title}."
    alt += f" Without privacy {num(other.mean(AUC))}." if other else ""
    alt += f" At ε = {setting(view.epsilon)} the highest is {num(best[1].mean(AUC))}." if best else ""
    with drawing():
        fig, ax = _frame(size)
        ax.set_xscale("log")
        ax.set_xlim(low, high)
        bottom = min([CHANCE, *(c.mean(AUC) for line in panel.lines for c in line.cells)]) - 0.02
        ax.set_ylim(bottom, 1.02)
        set_ticks(ax, "x", labeled_ticks(low, high, (1, 2, 5)), decade_ticks(low, high, range(2, 10)))
        set_ticks(ax, "y", [0.5, 0.6, 0.7, 0.8, 0.9, 1.0], [])
        _reference(ax, (low, high), (CHANCE, CHANCE), palette.ZERO_LINE, ZERO_DOTS)
        ends: list[tuple[float, str, str, bool]] = [(CHANCE, "a coin", palette.MUTED, False)]
        for guide, dash in zip(_guides(view.facts.ceilings, panel), _CEILING_DASHES, strict=False):
            _reference(ax, guide.n, guide.value, palette.GUIDE, dash)
            ends.append((guide.value[-1], guide.label, palette.MUTED, False))
        for line in panel.lines:
            x, y, error = _points(line, AUC)
            if line.private:
                _draw(ax, line, x, y)
                ax.fill_between(
                    x,
                    [v - 1.96 * e for v, e in zip(y, error, strict=True)],
                    [v + 1.96 * e for v, e in zip(y, error, strict=True)],
                    color=_color(line),
                    alpha=0.13,
                    linewidth=0,
                )
            elif y:
                ax.axhline(y[0], color=palette.NON_PRIVATE, linewidth=2, zorder=3)
            if y:
                ends.append((y[-1], line.brief, _text_color(line), not line.private))
        _label_ends(ax, size, [((end[0] - bottom) / (1.02 - bottom), *end[1:]) for end in ends])
        _words(fig, size, panel.title, "AUC: 1 finds everyone, ½ is a coin", view.page.axis_label, view)
    key = name or f"auc-{panel.name.replace(' ', '-')}-{panel.n}"
    return Picture(key, alt, svg.to_svg(fig, key, alt), svg.to_png(fig) if png else None)


def _roc(view: AttackView, panel: AttackPanel) -> Picture:
    size = chart.PANEL
    rates = view.facts.rates
    with drawing():
        fig, ax = _frame(size)
        for scale, limits in ((ax.set_xscale, ax.set_xlim), (ax.set_yscale, ax.set_ylim)):
            scale("log")
            limits(_LOWEST_RATE, 1.15)
        for axis in ("x", "y"):
            set_ticks(ax, axis, decade_ticks(_LOWEST_RATE, 1.0, (1,)), [])
        _reference(ax, (_LOWEST_RATE, 1), (_LOWEST_RATE, 1), palette.ZERO_LINE, ZERO_DOTS)
        ends: list[tuple[float, str, str, bool]] = []
        for guide, dash in zip(_guides(view.facts.roc_ceilings, panel), _CEILING_DASHES, strict=False):
            _reference(ax, guide.n, guide.value, palette.GUIDE, dash)
            ends.append((guide.value[0], guide.label, palette.MUTED, False))
        reached = []
        for line in panel.lines:
            cell = line.at(view.epsilon)
            if cell is None:
                continue
            points = [(rates[m], cell.mean(m)) for m in rates if cell.mean(m) > 0]
            if not points:
                continue
            x, y = zip(*points, (1.0, 1.0), strict=True)
            _draw(ax, line, x, y, markers=False)
            ends.append((y[0], line.brief, _text_color(line), not line.private))
            reached.append(f"{line.label} {num(y[0])} at {setting(x[0])}")
        decades = -math.log10(_LOWEST_RATE / 1.15)
        ends = [(1 + math.log10(max(end[0], _LOWEST_RATE) / 1.15) / decades, *end[1:]) for end in ends]
        _label_ends(ax, size, ends, to_left=False)
        _words(fig, size, panel.title, "true positive rate", "false positive rate", view)
    alt = f"ROC curves on log axes, {panel.title}. True positive rates: {'; '.join(reached)}."
    key = f"roc-{panel.name.replace(' ', '-')}-{panel.n}"
    return Picture(key, alt, svg.to_svg(fig, key, alt), svg.to_png(fig))


def _frame(size: Size) -> tuple[Figure, Axes]:
    fig = new_figure(size.width, size.height)
    box = (size.left / size.width, size.bottom / size.height)
    ax = fig.add_axes((*box, size.plot_width / size.width, size.plot_height / size.height))
    bare_axes(ax)
    ax.grid(True, which="major", color=palette.GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.tick_params(
        which="both",
        colors=palette.AXIS,
        labelcolor=palette.MUTED,
        length=0,
        pad=4,
        labelsize=size.font * 0.92,
    )
    return fig, ax


def _points(line: Line, metric: str) -> tuple[list[float], list[float], list[float]]:
    shown = [c for c in line.cells if math.isfinite(c.mean(metric))]
    errors = [c.means[metric][1] for c in shown]
    return (
        [c.epsilon for c in shown],
        [c.mean(metric) for c in shown],
        [error if math.isfinite(error) else 0.0 for error in errors],
    )


def _draw(ax: Axes, line: Line, x: Sequence[float], y: Sequence[float], *, markers: bool = True) -> None:
    printed = line.calibration == "paper"
    ax.plot(
        x,
        y,
        color=_color(line),
        linewidth=2,
        linestyle=PRINTED_DASH if printed else "-",
        marker=palette.marker(line.info.order, 0) if markers else None,
        markersize=4.2,
        markerfacecolor=palette.PAPER if printed else _color(line),
        markeredgecolor=_color(line),
        zorder=3,
    )


def _reference(ax: Axes, x: Sequence[float], y: Sequence[float], color: str, dash: object) -> None:
    ax.plot(x, y, color=color, linewidth=1.2, linestyle=dash, zorder=1.6)


def _color(line: Line) -> str:
    return palette.SERIES[palette.slot(line.info.order)] if line.private else palette.NON_PRIVATE


def _text_color(line: Line) -> str:
    return palette.SERIES_TEXT[palette.slot(line.info.order)] if line.private else palette.NON_PRIVATE


def _label_ends(
    ax: Axes, size: Size, ends: Sequence[tuple[float, str, str, bool]], *, to_left: bool = True
) -> None:
    """Name lines in the right margin at their heights, apart; curves of a ROC are named by color only."""
    letters = int((size.right - 20) / (size.font * LETTER))
    texts = ["\n".join(textwrap.wrap(text, letters, break_long_words=False)) for _, text, _, _ in ends]
    heights = [size.font * (0.3 + 1.12 * (text.count("\n") + 1)) / size.plot_height for text in texts]
    levels = [min(max(end[0], 0.0), 1.0) for end in ends]
    places = label_placement.spread(levels, heights, -0.03, 1.02)
    for (_, _, color, bold), text, level, place in zip(ends, texts, levels, places, strict=True):
        if to_left:
            x = [1 + 3 / size.plot_width, 1 + 14 / size.plot_width]
            ax.plot(
                x,
                [level, place],
                transform=ax.transAxes,
                color=color,
                linewidth=0.7,
                alpha=0.6,
                clip_on=False,
            )
        ax.text(
            1 + 17 / size.plot_width,
            place,
            text,
            transform=ax.transAxes,
            ha="left",
            va="center",
            fontsize=size.font,
            linespacing=1.1,
            color=color,
            fontweight="bold" if bold else "normal",
            clip_on=False,
        )


def _words(fig: Figure, size: Size, title: str, y_label: str, x_label: str, view: AttackView) -> None:
    width, height, font = size.width, size.height, size.font
    fig.text(
        6 / width, 1 - 7 / height, title, fontsize=font * 1.08, fontweight="bold", color=palette.INK, va="top"
    )
    fig.text(
        6 / width, 1 - (size.top - 10) / height, y_label, fontsize=font * 0.95, color=palette.INK, va="bottom"
    )
    middle = (size.left + size.plot_width / 2) / width
    fig.text(middle, 8 / height, x_label, fontsize=font * 0.95, color=palette.INK, ha="center", va="bottom")
    warning = banner(view.page.dataset.data_source, brief=True)
    if warning:
        add_banner(fig, warning, 1 - 8 / width, 1 - 8 / height, font * 0.92)
