"""Released tables by group as a paper prints them: survival at cut points, and the baseline table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpalgos.answers.baseline import BaselineTable
from dpalgos.survival.curves import SurvivalCurves
from dpalgos.errors import InputError
from reports.pages.coefficient_table import p_text
from reports.render import PageTable
from reports.writing import interval_text, num, num_in, setting


def group_table(result: SurvivalCurves | BaselineTable) -> PageTable:
    """Return a released table by group."""
    return _curves(result) if isinstance(result, SurvivalCurves) else _baseline(result)


def _curves(curves: SurvivalCurves) -> PageTable:
    """Return a row for each cut point; survival is blank where too few persons are at risk."""
    level, cells = f"{100 * curves.level:g}% limits", {}
    for row in curves.curves().to_dict("records"):
        shown = [_number(row, "survival"), _limits(row), f"{max(round(row['at_risk']), 0):,}"]
        cells[row["group"], row["time"]] = shown
    head = ["time", *(f"{each}{name}" for each in curves.groups for name in ("", f": {level}", ": at risk"))]
    rows = [
        [setting(time), *(cell for group in curves.groups for cell in cells[group, time])]
        for time in curves.periods
    ]
    return PageTable(head, rows, notes=_notes(curves))


def _notes(curves: SurvivalCurves) -> list[str]:
    notes = ["Numbers at risk have noise. Limits are pointwise. Survival is blank if too few are at risk."]
    if len(curves.groups) > 1 and not math.isnan((test := curves.logrank()).pvalue):
        p = p_text(test.pvalue) if test.pvalue < 0.001 else f"= {p_text(test.pvalue)}"
        notes.append(f"Logrank test: χ² = {num(test.statistic)}, df = {test.df}, p {p}.")
    ratios = [
        f"{row['group']} {num_in(row['hazard_ratio'], row['ci_low'], row['ci_high'])} "
        f"{interval_text(row['ci_low'], row['ci_high'])}"
        for row in curves.hazard_ratios().to_dict("records")
        if not math.isnan(row["hazard_ratio"])
    ]
    notes += [f"Hazard ratio to {curves.groups[0]}: {'; '.join(ratios)}."] if ratios else []
    try:
        means = curves.restricted_means()
    except InputError:  # nothing is shown of some group
        return notes
    texts = []
    for row in means.to_dict("records"):
        low, high = row["ci_low"], row["ci_high"]
        texts.append(f"{row['group']} {num_in(row['mean'], low, high)} {interval_text(low, high)}")
    return [*notes, f"Restricted mean up to {setting(curves.shown_until)}: {'; '.join(texts)}."]


def _baseline(table: BaselineTable) -> PageTable:
    """Return a row for each variable or level, and a column for each group."""
    cells: dict[tuple[str, str], list[str]] = {}
    for row in table.frame().to_dict("records"):
        cells.setdefault((row["variable"], row["level"]), []).append(_of_baseline(row))
    blank, rows = [""] * len(table.groups), list[list[str]]()
    for (variable, level), texts in cells.items():
        if level and f"{variable}, n (%)" not in [each[0] for each in rows]:
            rows.append([f"{variable}, n (%)", *blank])
        plain = "n" if variable == "n" else f"{variable}, mean (SD)"
        rows.append([f"– {level}" if level else plain, *texts])
    limits = f" Brackets are {100 * table.level:g}% limits." if table.level else ""
    note = f"All numbers have noise. Groups that are too small for it are blank.{limits}"
    return PageTable(["", *map(str, table.groups)], rows, notes=[note])


def _of_baseline(row: Mapping[str, Any]) -> str:
    size, is_mean = row["n"], not math.isnan(row["sd"])
    if math.isnan(row["estimate"]):
        return ""
    if row["variable"] == "n":
        return f"{round(size):,}"
    scale = 1 if is_mean else 100
    low, high = scale * row["ci_low"], scale * row["ci_high"]
    limits = "" if math.isnan(low) else f" {interval_text(low, high)}"
    if not is_mean:
        return f"{round(size):,} ({100 * row['estimate']:.1f}){limits}"
    value, sd = row["estimate"], row["sd"]
    shown = num(value) if math.isnan(low) else num_in(value, low, high)
    return f"{shown} ({num(sd)}){limits}"


def _number(row: Mapping[str, Any], name: str) -> str:
    return "" if math.isnan(row[name]) else num_in(row[name], row["ci_low"], row["ci_high"])


def _limits(row: Mapping[str, Any]) -> str:
    return "" if math.isnan(row["survival"]) else interval_text(row["ci_low"], row["ci_high"])
