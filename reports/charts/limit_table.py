"""A table of the data's own limits, where a study reads several data sets."""

from __future__ import annotations

import math

from reports.charts.picture import Shown
from reports.numbers import num, setting
from reports.page import StudyPage


def limit_table(page: StudyPage) -> tuple[Shown, ...]:
    """Return one row per panel of the study; nothing where the limits are of one data set."""
    findings = [finding for finding in page.findings if finding.panel]
    if not findings:
        return ()
    labels = list(dict.fromkeys(finding.label for finding in findings))
    rows = []
    for panel in dict.fromkeys(finding.panel for finding in findings):
        own = {finding.label: finding for finding in findings if finding.panel == panel}
        moved = (num(own[label].value) if label in own else "" for label in labels)
        floor = next((each.floor for each in own.values() if math.isfinite(each.floor)), math.nan)
        rows.append((panel, *moved, num(floor) if math.isfinite(floor) else ""))
    text = (
        "How far deleting the most influential rows moves the answer from all rows. For one row also the "
        f"mean error below which no private answer at ε = {setting(page.headline['epsilon'])} (and δ = 0) "
        "can go both on these data and without that row. Computed from the data for research; not private."
    )
    columns = ("Panel", *labels, "no private answer below")
    return (Shown("The data's own limits", text, None, columns, tuple(rows), 1),)
