"""The central ε of the same local reports if they were shuffled or summed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from reports.analysis.series import View
from reports.charts.picture import ReportSection
from reports.writing import num, render_sentence, setting

_DIFFERENT = ["estimator", "calibration", "panel", "form", "epsilon", "metric"]


def draw(view: View, summary: pd.DataFrame, content: Mapping[str, Any]) -> tuple[ReportSection, ...]:
    """Return a table by estimator, ε and number of people; nothing where no reports were sent."""
    rows = summary[summary["metric"].isin(content["metrics"]) & (summary["n"] == content["n"])]
    table = []
    for row in rows.drop_duplicates(_DIFFERENT).itertuples():
        label = f"{view.page.estimator(row.estimator).title} {row.form}".strip()
        how = content["metrics"][row.metric]
        table.append((label, row.calibration, how, setting(row.epsilon), num(row.mean)))
    if not table:
        return ()
    text = render_sentence("central_epsilon", n=content["n"])
    columns = ("", "noise", "reports are", "local ε", "central ε")
    return (
        ReportSection(
            "If a trusted party shuffled the reports", text, None, columns, tuple(sorted(table)), 3
        ),
    )
