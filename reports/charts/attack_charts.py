"""Figures of a study of attacks: AUC against ε below its ceilings, and ROC curves on log axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes

from reports.analysis.attacks import AUC, CHANCE, AttackLine, AttackPanel, AttackView
from reports.charts import palette
from reports.charts.axes import (
    LIMIT_DASH,
    NARROW,
    PANEL,
    PRINTED_DASH,
    WIDE,
    ZERO_DOTS,
    EndLabel,
    Size,
    add_end_labels,
    add_words,
    framed,
    line_end,
    log_ticks,
    set_log_ticks,
    set_ticks,
)
from reports.charts.picture import Picture, drawing, picture
from reports.charts.study_charts import PanelGroup, Pictures, slug
from reports.numbers import num, setting
from reports.page import Guide

_CEILING_DASHES = ("-", LIMIT_DASH)
_LOWEST_RATE = 1e-3


def draw_attacks(view: AttackView, certified: Picture | None) -> Pictures:
    """Draw every figure of a study of attacks."""
    head = view.head
    if head is None:
        return Pictures()
    others = [panel for panel in view.panels if panel.name == head.name]
    groups = (
        PanelGroup(
            "The whole ROC curve",
            f"True against false positive rate at ε = {setting(view.epsilon)}, on log axes: an attacker who "
            "accuses few people wrongly lives on the left.",
            tuple(_roc(view, panel) for panel in view.heads),
        ),
        PanelGroup(
            "How the AUC grows with ε, panel by panel",
            "",
            tuple(_auc(view, panel, PANEL) for panel in (*others, *view.heads[1:])),
        ),
    )
    return Pictures(
        _auc(view, head, WIDE, "main"),
        _auc(view, head, NARROW, "main-narrow", png=False),
        _auc(view, head, PANEL, "card", png=False),
        certified,
        groups,
    )


@drawing()
def _auc(view: AttackView, panel: AttackPanel, size: Size, name: str = "", *, png: bool = True) -> Picture:
    epsilons = sorted({cell.epsilon for line in panel.lines if line.private for cell in line.cells})
    low, high = (epsilons[0] / 1.15, epsilons[-1] * 1.15) if len(epsilons) > 1 else (0.1, 10.0)
    bottom = min([CHANCE, *(c.mean(AUC) for line in panel.lines for c in line.cells)]) - 0.02
    fig, ax = framed(size)
    ax.set(xscale="log", xlim=(low, high), ylim=(bottom, 1.02))
    set_log_ticks(ax, "x", 9)
    set_ticks(ax, "y", [0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    labels = [_reference(ax, "a coin", (low, high), (CHANCE, CHANCE), palette.ZERO_LINE, ZERO_DOTS)]
    for guide, dash in zip(_guides(view.facts.ceilings, panel), _CEILING_DASHES, strict=False):
        labels.append(_reference(ax, guide.label, guide.n, guide.value, palette.GUIDE, dash))
    for line in panel.lines:
        shown = [cell for cell in line.cells if math.isfinite(cell.mean(AUC))]
        if not shown:
            continue
        x, y = [cell.epsilon for cell in shown], [cell.mean(AUC) for cell in shown]
        if line.private:
            _draw(ax, line, x, y)
            errors = [1.96 * e if math.isfinite(e := cell.means[AUC][1]) else 0.0 for cell in shown]
            edges = zip(y, errors, strict=True)
            below, above = zip(*((v - e, v + e) for v, e in edges), strict=True)
            ax.fill_between(x, below, above, color=_color(line), alpha=0.13, linewidth=0)
        else:
            ax.axhline(y[0], color=palette.NON_PRIVATE, linewidth=2, zorder=3)
        labels.append(_label(ax, line, x[-1] if line.private else high, y[-1]))
    add_end_labels(ax, size, labels)
    add_words(fig, size, panel.title, "AUC: 1 finds everyone, ½ is a coin", view.page.axis_label)
    other, best = panel.without_privacy, panel.best_private(view.epsilon)
    alt = f"AUC of the attack against ε, {panel.title}."
    alt += f" Without privacy {num(other.mean(AUC))}." if other else ""
    alt += f" At ε = {setting(view.epsilon)} the highest is {num(best[1].mean(AUC))}." if best else ""
    key = name or slug(f"auc-{panel.name}-{panel.n}")
    return picture(fig, key, alt, view.page.dataset.data_source, png=png)


@drawing()
def _roc(view: AttackView, panel: AttackPanel) -> Picture:
    rates = view.facts.rates
    fig, ax = framed(PANEL)
    ax.set(xscale="log", yscale="log", xlim=(_LOWEST_RATE, 1.15), ylim=(_LOWEST_RATE, 1.15))
    for axis in ("x", "y"):
        set_ticks(ax, axis, log_ticks(_LOWEST_RATE, 1.0, 4))
    _reference(ax, "", (_LOWEST_RATE, 1), (_LOWEST_RATE, 1), palette.ZERO_LINE, ZERO_DOTS)
    for guide, dash in zip(_guides(view.facts.roc_ceilings, panel), _CEILING_DASHES, strict=False):
        _reference(ax, guide.label, guide.n, guide.value, palette.GUIDE, dash)
    labels, reached = [], []
    for line in panel.lines:
        cell = line.at(view.epsilon)
        points = [(rates[m], cell.mean(m)) for m in rates if cell.mean(m) > 0] if cell else []
        if points:
            x, y = zip(*points, (1.0, 1.0), strict=True)
            _draw(ax, line, x, y, markers=False)
            middle = len(y) // 2  # the curves meet at the right end
            labels.append(_label(ax, line, 1.15, y[middle]))
            reached.append(f"{line.label} {num(y[0])} at {setting(x[0])}")
    add_end_labels(ax, PANEL, labels)
    add_words(fig, PANEL, panel.title, "true positive rate", "false positive rate")
    alt = f"ROC curves on log axes, {panel.title}. True positive rates: {'; '.join(reached)}."
    key = slug(f"roc-{panel.name}-{panel.n}")
    return picture(fig, key, alt, view.page.dataset.data_source)


def _guides(guides: Sequence[Guide], panel: AttackPanel) -> list[Guide]:
    return [guide for guide in guides if guide.panel == f"{panel.name}:{panel.n}"]


def _draw(
    ax: Axes, line: AttackLine, x: Sequence[float], y: Sequence[float], *, markers: bool = True
) -> None:
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
        zorder=3,
    )


def _reference(
    ax: Axes, text: str, x: Sequence[float], y: Sequence[float], color: str, dash: object
) -> EndLabel:
    """Draw a gray line; return its name."""
    ax.plot(x, y, color=color, linewidth=1.2, linestyle=dash, zorder=1.6)
    end, level = line_end(ax, x[-1], y[-1])
    return EndLabel(text, palette.MUTED, level, end)


def _color(line: AttackLine) -> str:
    return palette.line_color("private" if line.private else "nonprivate", line.info.order)


def _label(ax: Axes, line: AttackLine, x: float, y: float) -> EndLabel:
    color = palette.text_color("private" if line.private else "nonprivate", line.info.order)
    end, level = line_end(ax, x, y)
    return EndLabel(line.brief, color, level, end, not line.private)
