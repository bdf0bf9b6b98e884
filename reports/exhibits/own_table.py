"""What the page of an analyst's own table adds: coefficients, what is missing and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from reports.analysis.ranking import enough_epsilon, rows_for_the_same
from reports.analysis.series import View
from reports.charts.picture import ReportSection
from reports.writing import num, render_sentence


def draw(view: View, summary: pd.DataFrame, content: Mapping[str, Any]) -> tuple[ReportSection, ...]:
    shown = (_coefficients(view, content), _missing(view, content))
    return tuple(item for item in shown if item is not None)


def _coefficients(view: View, content: Mapping[str, Any]) -> ReportSection | None:
    if not content["rows"]:
        return None
    name = view.page.estimator(content["estimator"]).title
    rows, surviving = [], []
    none_sure = all(low is None for _, _, low, _, _ in content["rows"])
    for column, coef, low, high, exact in content["rows"]:
        sure = low is not None and high is not None and (low > 0 or high < 0)
        same = coef * exact > 0  # an answer of zero has no sign
        if same and (sure or none_sure):
            surviving.append(column)
        ends = "none" if low is None or high is None else f"{num(low)} to {num(high)}"
        sign = ("same" if same else "other") if none_sure else "not known"
        if sure:
            sign = "known" if same else "wrong"
        rows.append((column, num(coef), ends, num(exact), sign))
    text = render_sentence(
        "own_coefficients",
        name=name,
        n=content["n"],
        units=view.page.population[1],
        epsilon=content["epsilon"],
        surviving=surviving,
        none_sure=none_sure,
        n_rows=len(rows),
    )
    columns = ("", "private", "95 % interval", "without privacy", "sign")
    return ReportSection("The answer, with and without privacy", text, None, columns, tuple(rows), 1)


def _missing(view: View, content: Mapping[str, Any]) -> ReportSection | None:
    text = render_sentence(
        "own_missing",
        left_out=content["left_out"],
        linear=content.get("linear", False),
        no_rows="" if content["rows"] else content["missing"],
        enough=enough_epsilon(view),
        rows=rows_for_the_same(view),
    )
    return ReportSection("What is missing here, and why", text) if text else None
