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
    if not page.printed:
        return None
    sizes, errors = sorted({row.s for row in page.printed}), errors_of(cells, page)
    rows: list[tuple[str, ...]] = []
    for rule, epsilon in dict.fromkeys((row.delta_rule, row.epsilon) for row in page.printed):
        copied = {row.s: row for row in page.printed if (row.delta_rule, row.epsilon) == (rule, epsilon)}
        without = math.isinf(epsilon)
        at = (
            f"δ = {rule_text(rule, page.axis.rows_symbol)}",
            "ε = ∞" if without else f"ε = {setting(epsilon)}",
        )
        printed = [f"{copied[s].mean:.2f} ({copied[s].spread:.2f})" if s in copied else "" for s in sizes]
        rows.append((*at, "the paper, UCI data", *printed))
        setting_here = Setting(where.epsilon if without else epsilon, rule, where.panel)
        for line in lines_of(rows_at(errors, setting_here)):
            if line[0].role == ("nonprivate" if without else "private"):
                by_size = {row.x: row for row in line}
                rows.append((*at, f"here: {line[0].label}", *(_mean(by_size.get(s)) for s in sizes)))
    source = page.source_of(where.panel)
    text = render_sentence("printed_table", source=source, panel=where.panel)
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
        found = {
            rate: float(means[name]) for name, rate in TRUE_POSITIVE_RATES.items() if name in means.index
        }
        if found and all(map(math.isfinite, found.values())):
            points = [(0.0, 0.0), *sorted(found.items()), (1.0, 1.0)]
            curves.append((row, points, float(means.get(AUC, math.nan))))
    if not curves:
        return None
    curves.sort(key=lambda curve: -curve[2])
    areas = [(row.label, area) for row, _, area in curves]
    text = render_sentence("roc_curves", page=page, head=head, areas=areas)
    lines = [Line(f"{area:.2f}  {row.line}", points, row.look) for row, points, area in curves]
    return Section("ROC curves", text, roc_picture(lines, "roc", f"ROC curves. {text}", page.data_source))
