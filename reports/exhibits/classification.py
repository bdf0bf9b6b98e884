"""Exhibits of a classification: a paper's printed numbers next to ours, and ROC curves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from reports.cells import Row, Setting, errors_of, lines_of, rows_at
from reports.charts.lines import Line, roc_picture
from reports.page import StudyPage
from reports.ranking import PageHeadline
from reports.render import PageTable, Section
from reports.results import AUC, TRUE_POSITIVE_RATES
from reports.writing import render_sentence, rule_text, setting


def draw(
    page: StudyPage, cells: pd.DataFrame, head: PageHeadline, content: Mapping[str, Any]
) -> tuple[Section, ...]:
    """Return the paper's table, if any, next to ours, and ROC curves."""
    return tuple(filter(None, (_printed(page, cells, head.where), _roc(page, cells, head))))


def _printed(page: StudyPage, cells: pd.DataFrame, where: Setting) -> Section | None:
    """Return the paper's table with our numbers below each of its lines."""
    sizes = sorted({s for line in page.printed for s in line.s})
    errors, rows = errors_of(cells, page), list[tuple[str, ...]]()
    for line in page.printed:
        copied = {
            s: f"{mean:.2f} ({sd:.2f})" for s, mean, sd in zip(line.s, line.mean, line.spread, strict=True)
        }
        without = math.isinf(line.epsilon)
        epsilon = where.epsilon if without else line.epsilon
        at = (f"δ = {rule_text(line.delta, page.axis.rows_symbol)}", f"ε = {setting(line.epsilon)}")
        rows.append((*at, "the paper, UCI data", *(copied.get(s, "") for s in sizes)))
        for ours in lines_of(rows_at(errors, Setting(epsilon, line.delta, where.panel))):
            if ours[0].role == ("nonprivate" if without else "private"):
                by_size = {row.x: row for row in ours}
                rows.append((*at, f"here: {ours[0].label}", *(_mean(by_size.get(s)) for s in sizes)))
    if not rows:
        return None
    text = render_sentence("printed_table", source=page.source_of(where.panel), panel=where.panel)
    columns = ("δ", "ε", "what", *(f"s = {setting(s)}" for s in sizes))
    heading = "The paper’s table next to ours"
    return Section(heading, text, table=PageTable(columns, rows, heading, 3))


def _mean(row: Row | None) -> str:
    if row is None:
        return "not run"
    if not row.answered:
        return str(row.status)
    return f"{row.mean:.3f} ({row.se:.3f})" if math.isfinite(row.se) else f"{row.mean:.3f}"


def _roc(page: StudyPage, cells: pd.DataFrame, head: PageHeadline) -> Section | None:
    curves = []
    for row in head.at_x:
        if row.role == "zero":
            continue
        means = cells[cells["cell"] == row.cell].set_index("metric")["mean"]
        hits = means.filter(items=TRUE_POSITIVE_RATES)
        if len(hits) and hits.notna().all():
            points = [
                (0.0, 0.0),
                *zip(map(TRUE_POSITIVE_RATES.get, hits.index), hits, strict=True),
                (1.0, 1.0),
            ]
            curves.append((row, points, float(means.get(AUC, math.nan))))
    if not curves:
        return None
    curves.sort(key=lambda curve: -curve[2])
    areas = [(row.label, area) for row, _, area in curves]
    text = render_sentence("roc_curves", page=page, head=head, areas=areas)
    lines = [Line(f"{area:.2f}  {row.line}", points, row.look) for row, points, area in curves]
    return Section("ROC curves", text, roc_picture(lines, "roc", f"ROC curves. {text}", page.data_source))
