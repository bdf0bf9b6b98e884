"""Figures of a study of attacks: AUC against ε below its ceilings, and ROC curves on log axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from reports.analysis.attacks import AUC, CHANCE, AttackCell, AttackLine, AttackPanel, AttackView
from reports.charts.line_chart import Frame, Line, Reference, line_chart
from reports.charts.picture import Drawing, Picture, picture
from reports.charts.study_charts import Pictures, slug
from reports.numbers import num, setting
from reports.page import Guide
from reports.palette import LIMIT_DASH, SOLID, ZERO_DOTS, Look, look

_CEILING_DASHES = (SOLID, LIMIT_DASH)
_LOWEST_RATE = 1e-3


def draw_attacks(view: AttackView, certified: Picture | None) -> Pictures:
    head = view.head
    if head is None:
        return Pictures()
    source, text = view.page.dataset.source_of(head.name), _auc_text(view, head)
    return Pictures(
        picture(_auc(view, head, 640, 400), "main", text, source, title=head.title),
        picture(_auc(view, head, 300, 230), "card", text, source, png=False),
        certified,
        tuple(_roc(view, panel) for panel in view.heads),
    )


def _auc(view: AttackView, panel: AttackPanel, width: int, height: int) -> Drawing:
    epsilons = sorted({cell.epsilon for line in panel.lines if line.private for cell in line.cells})
    ends = (epsilons[0] / 1.15, epsilons[-1] * 1.15) if len(epsilons) > 1 else (0.1, 10.0)
    bottom = min([CHANCE, *(c.mean(AUC) for line in panel.lines for c in line.cells)]) - 0.02
    lines = []
    for line in panel.lines:
        shown = [cell for cell in line.cells if math.isfinite(cell.mean(AUC))]
        points = [(cell.epsilon, cell.mean(AUC)) for cell in shown]
        band = [(v - e, v + e) for v, e in map(_with_margin, shown)]
        if not line.private and points:
            points, band = [(x, points[0][1]) for x in ends], []
        lines.append(Line(line.brief, points, _look(line), band))
    frame = Frame(
        x_title=view.page.axis_label,
        y_title="AUC: 1 finds everyone, ½ is a coin" if width > 400 else "",
        x=ends,
        y=(bottom, 1.02),
        x_ticks=epsilons,
        y_log=False,
        width=width,
        height=height,
    )
    coin = Reference("a coin", [(x, CHANCE) for x in ends], ZERO_DOTS)
    return line_chart(lines, frame, [coin, *_ceilings(view.facts.ceilings, panel)])


def _with_margin(cell: AttackCell) -> tuple[float, float]:
    mean, error = cell.means[AUC]
    return mean, 1.96 * error if math.isfinite(error) else 0.0


def _auc_text(view: AttackView, panel: AttackPanel) -> str:
    other, best = panel.without_privacy, panel.best_private(view.epsilon)
    text = f"AUC of the attack against ε, {panel.title}."
    text += f" Without privacy {num(other.mean(AUC))}." if other else ""
    highest = f" At ε = {setting(view.epsilon)} the highest is {num(best[1].mean(AUC))}." if best else ""
    return text + highest


def _roc(view: AttackView, panel: AttackPanel) -> Picture:
    rates = view.facts.rates
    lines, reached = [], []
    for line in panel.lines:
        cell = line.at(view.epsilon)
        points = [(rates[m], cell.mean(m)) for m in rates if cell.mean(m) > 0] if cell else []
        if points:
            lines.append(Line(line.brief, [*points, (1.0, 1.0)], replace(_look(line), shape="")))
            reached.append(f"{line.label} {num(points[0][1])} at {setting(points[0][0])}")
    ends = (_LOWEST_RATE, 1.15)
    frame = Frame("false positive rate", "true positive rate", ends, ends, width=400, height=280)
    diagonal = Reference("", [(_LOWEST_RATE, _LOWEST_RATE), (1.0, 1.0)], ZERO_DOTS)
    chart = line_chart(lines, frame, [diagonal, *_ceilings(view.facts.roc_ceilings, panel)])
    text = f"ROC curves on log axes, {panel.title}. True positive rates: {'; '.join(reached)}."
    key = slug(f"roc-{panel.name}-{panel.n}")
    return picture(chart, key, text, view.page.dataset.source_of(panel.name), title=panel.title)


def _ceilings(guides: Sequence[Guide], panel: AttackPanel) -> list[Reference]:
    own = [guide for guide in guides if guide.panel == f"{panel.name}:{panel.n}"]
    return [
        Reference(guide.label, list(zip(guide.n, guide.value, strict=True)), dash)
        for guide, dash in zip(own, _CEILING_DASHES, strict=False)
    ]


def _look(line: AttackLine) -> Look:
    role = "private" if line.private else "nonprivate"
    return look(role, line.info.order, calibration=line.calibration)
