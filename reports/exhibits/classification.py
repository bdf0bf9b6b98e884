"""The ROC curves of a classification."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from reports.charts.lines import Line, roc_picture
from reports.page import StudyPage
from reports.ranking import PageHeadline
from reports.render import Section
from reports.results import AUC, TRUE_POSITIVE_RATES
from reports.writing import render_sentence


def draw(
    page: StudyPage, cells: pd.DataFrame, head: PageHeadline, content: Mapping[str, Any]
) -> tuple[Section, ...]:
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
        return ()
    curves.sort(key=lambda curve: -curve[2])
    areas = [(row.label, area) for row, _, area in curves]
    text = render_sentence("roc_curves", page=page, head=head, areas=areas)
    lines = [Line(f"{area:.2f}  {row.line}", points, row.look) for row, points, area in curves]
    picture = roc_picture(lines, "roc", f"ROC curves. {text}", page.data_source)
    return (Section("ROC curves", text, picture),)
