"""Tables that a study's file declares: groups and columns of the results table, or rows of an exhibit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from data.results.summary import fitted_slope
from reports.cells import CALIBRATION_WORDS, comma
from reports.page import Section, StudyPage
from reports.ranking import PageHeadline
from reports.render import PageTable, TableCell
from reports.writing import error_bar, num, setting, slope_text

_NUMBERS = ("d", "n", "s", "epsilon", "steps")
_COMPETING = ("form", "estimator")  # columns whose errors are compared in each row


def draw(
    page: StudyPage, cells: pd.DataFrame, head: PageHeadline, content: Mapping[str, Any]
) -> tuple[Section, ...]:
    """Return the tables of ``content``, those whose rows were run."""
    tables = []
    for about in content["tables"]:
        table = _of_results(cells, about) if about["metric"] else _of_lines(about)
        if table is not None:
            context = {"heading": about["title"], "text": about["text"], "table": table}
            tables.append(Section("drawing", context))
    return tuple(tables)


def _of_lines(about: Mapping[str, Any]) -> PageTable | None:
    rows = [[_text(each) for each in row] for row in about["content"] if len(row) == len(about["rows"])]
    return PageTable(about["rows"], rows, about["title"]) if rows else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else setting(value) if isinstance(value, int) else num(value)


def _of_results(cells: pd.DataFrame, about: Mapping[str, Any]) -> PageTable | None:
    metrics = about["names"] if about["columns"] == "metric" else [about["metric"]]
    rows = cells[cells["metric"].isin(metrics) & cells["mean"].notna()]
    if about["panels"]:
        rows = rows[rows["panel"].isin(about["panels"])]
    if about["without_privacy"]:
        rows = rows[rows["role"] != "zero"].fillna({"epsilon": np.inf})
    else:
        rows = rows[rows["calibration"] != "none"]
    if about["columns"] == "form":  # forms are compared with the same calibration
        rows = rows[rows["calibration"] != "paper"]
    if rows.empty:
        return None
    if about["columns"] != "form":
        pairs = zip(rows["name"], rows["calibration"], strict=True)
        names = [comma(name, CALIBRATION_WORDS["paper"] * (noise == "paper")) for name, noise in pairs]
        rows = rows.assign(code=rows["estimator"], estimator=names)
    groups = rows.groupby([*about["rows"], about["columns"]], dropna=False)
    mean, se = (groups[name].mean().unstack() for name in ("mean", "se"))
    columns = list(mean.columns)
    is_bold = about["columns"] in _COMPETING and len(columns) > 1
    lines: list[list[str | TableCell]] = []
    for (place, means), (_, errors) in zip(mean.iterrows(), se.iterrows(), strict=True):
        places = place if isinstance(place, tuple) else (place,)
        labels = [_label(key, value) for key, value in zip(about["rows"], places, strict=True)]
        numbers = [_cell(means, errors, each, bold=is_bold) for each in columns]
        lines.append([*labels, *numbers, *(_summary(each, means, errors) for each in about["summaries"])])
    headings = [_name(about, about["columns"], value) for value in columns]
    heads = [about["names"].get(key, key) for key in about["rows"]]
    return PageTable((*heads, *headings, *about["summaries"]), lines, about["title"], len(heads))


def _label(key: str, value: Any) -> str:
    return setting(float(value)) if key in _NUMBERS else str(value)


def _name(about: Mapping[str, Any], key: str, value: Any) -> str:
    text = _label(key, value)
    names = about["names"]
    return f"{names.get(key, key)} = {text}" if key in _NUMBERS else names.get(text, text)


def _cell(means: pd.Series, errors: pd.Series, at: Any, *, bold: bool) -> TableCell:
    """Write a mean; bold where it is below all others of its row by more than two standard errors."""
    if np.isnan(means[at]):
        return TableCell("none", kind="missing")
    margins = 2 * np.hypot(errors.drop(at), errors[at])
    best = bold and bool((means[at] + margins < means.drop(at)).all())
    note = f"± {error_bar(errors[at], means[at])}" if errors[at] > 0 else ""
    return TableCell(num(means[at]), note, "best" if best else "")


def _summary(name: str, means: pd.Series, errors: pd.Series) -> str:
    if name == "slope":
        fit = fitted_slope(list(zip(means.index.astype(float), means, errors, strict=True)))
        return slope_text(fit) if fit else ""
    if name == "at most 1":
        return f"{int((means <= 1).sum())} of {len(means)}"
    positive = means[means > 0]
    left_out = f" ({len(means) - len(positive)} left out)" if len(positive) < len(means) else ""
    return num(float(np.exp(np.log(positive).mean()))) + left_out  # the geometric mean
