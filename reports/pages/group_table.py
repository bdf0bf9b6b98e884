"""Released tables by group as a paper prints them: survival at cut points, and the baseline table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpalgos.answers.baseline import BaselineTable
from dpalgos.errors import InputError
from dpalgos.survival.curves import SurvivalCurves
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
        texts = [_number(row, "survival"), _limits(row), f"{max(round(row['at_risk']), 0):,}"]
        cells[row["group"], row["time"]] = texts
    head = ["time", *(f"{each}{name}" for each in curves.groups for name in ("", f": {level}", ": at risk"))]
    rows = [
        [setting(time), *(cell for group in curves.groups for cell in cells[group, time])]
        for time in curves.periods
    ]
    return PageTable(head, rows, notes=_notes(curves))


def _notes(curves: SurvivalCurves) -> list[str]:
    notes = ["Numbers at risk have noise. Limits are pointwise. Survival is blank if too few are at risk."]
    if curves.sizes:
        notes[0] += " The first numbers at risk are the sizes of the groups in the baseline table."
    if len(curves.groups) > 1 and not math.isnan((test := curves.logrank()).pvalue):
        p = p_text(test.pvalue) if test.pvalue < 0.001 else f"= {p_text(test.pvalue)}"
        notes.append(f"Logrank test: χ² = {num(test.statistic)}, df = {test.df_num}, p {p}.")
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
    for row in means.dropna(subset="mean").to_dict("records"):
        low, high = row["ci_low"], row["ci_high"]
        texts.append(f"{row['group']} {num_in(row['mean'], low, high)} {interval_text(low, high)}")
    return [*notes, f"Restricted mean up to {setting(curves.shown_until)}: {'; '.join(texts)}."]


def _baseline(table: BaselineTable) -> PageTable:
    """Return a row for each variable or level, and a column for each group."""
    cells: dict[tuple[str, str], list[str]] = {}
    frame = table.frame()
    for group in table.groups:
        for line, text in _of_group(frame[frame["group"] == group].to_dict("records")):
            cells.setdefault(line, []).append(text)
    blank, rows, last = [""] * len(table.groups), list[list[str]](), ""
    for (variable, label), texts in cells.items():
        is_level = label.startswith("– ")
        if is_level and variable != last:
            rows.append([f"{variable}, n (%)", *blank])
        if any(texts) or is_level or label == "n":
            rows.append([label, *texts])
        last = variable
    notes = ["All numbers contain noise; small groups are suppressed."]
    if any(each.may_lack for each in table.variables):
        notes.append("If values are missing, the other numbers of a variable are of persons with a value.")
    notes.append(f"Brackets are {100 * table.level:g}% limits; those of quartiles are of the median.")
    if widths := [f"{each.name} {num(each.cell_width)}" for each in table.variables if not each.levels]:
        notes.append(f"Numbers are read from cells of these widths: {', '.join(widths)}.")
        notes.append("A mean is blank if its limits are farther from it than a standard deviation.")
    notes += table.cautions
    if not math.isnan(table.outside):
        notes.append(
            f"About {max(round(table.outside), 0):,} persons are in no group: their group is missing."
        )
    return PageTable(["", *map(str, table.groups)], rows, notes=[" ".join(notes)])


def _of_group(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the label and the text of each line of a group."""
    by_variable: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        name = row["variable"]
        if row["statistic"] == "size":
            yield (name, "n"), "" if math.isnan(row["estimate"]) else f"{round(row['n']):,}"
        elif row["statistic"] == "share":
            yield (name, f"– {row['level']}"), _share(row)
        elif row["statistic"] == "missing":
            yield (name, f"{name}, missing, n (%)"), _share(row)
        else:
            by_variable.setdefault(name, {})[row["statistic"]] = row
            if row["statistic"] == "upper quartile":
                yield from _of_number(name, by_variable[name])


def _of_number(name: str, of: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield n (%) of a number that is 0 or 1; of another one its mean (SD), and its median (quartiles)."""
    mean, sd, median = of["mean"], of["standard deviation"]["estimate"], of["median"]
    if not math.isnan(mean["n"]):
        yield (name, f"{name}, n (%)"), _share(mean)
        return
    spread = "" if math.isnan(sd) else f" ({num(sd)})"
    yield (name, f"{name}, mean (SD)"), f"{_value(mean)}{spread}{_brackets(mean)}" if _value(mean) else ""
    low, high = (num(of[each]["estimate"]) for each in ("lower quartile", "upper quartile"))
    text = f"{_value(median)} ({low} to {high}){_brackets(median)}" if _value(median) else ""
    yield (name, f"{name}, median (quartiles)"), text


def _share(row: Mapping[str, Any]) -> str:
    if math.isnan(row["estimate"]):
        return ""
    percent = {key: 100 * row[key] for key in ("ci_low", "ci_high")}
    return f"{round(row['n']):,} ({100 * row['estimate']:.1f}){_brackets(percent)}"


def _brackets(row: Mapping[str, Any]) -> str:
    low, high = row["ci_low"], row["ci_high"]
    return "" if math.isnan(low) else f" {interval_text(low, high)}"


def _value(row: Mapping[str, Any]) -> str:
    value, low, high = row["estimate"], row["ci_low"], row["ci_high"]
    return "" if math.isnan(value) else num(value) if math.isnan(low) else num_in(value, low, high)


def _number(row: Mapping[str, Any], name: str) -> str:
    return "" if math.isnan(row[name]) else num_in(row[name], row["ci_low"], row["ci_high"])


def _limits(row: Mapping[str, Any]) -> str:
    return "" if math.isnan(row["survival"]) else interval_text(row["ci_low"], row["ci_high"])
