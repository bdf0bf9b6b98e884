"""What the page of an analyst's own table adds: coefficients, what is missing and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from reports.analysis.cost_in_rows import enough_epsilon, rows_for_the_same
from reports.analysis.series import View
from reports.charts.picture import ReportSection
from reports.numbers import num, words
from reports.words.sentences import said


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
        same = (coef > 0) == (exact > 0)
        if same and (sure or none_sure):
            surviving.append(column)
        ends = "none" if low is None or high is None else f"{num(low)} to {num(high)}"
        sign = ("same" if same else "other") if none_sure else "not known"
        if sure:
            sign = "survives" if same else "wrong"
        rows.append((column, num(coef), ends, num(exact), sign))
    text = said(
        "own_coefficients",
        name=name,
        n=content["n"],
        units=view.page.population[1],
        epsilon=content["epsilon"],
        surviving=surviving,
    )
    columns = ("", "private", "95 % interval", "without privacy", "sign")
    return ReportSection("The answer, with and without privacy", text, None, columns, tuple(rows), 1)


def _missing(view: View, content: Mapping[str, Any]) -> ReportSection | None:
    reasons = []
    if content["left_out"]:
        reasons.append(
            f"errors leave out {words(content['left_out'])}: constant in these rows, or so rare that the "
            "likelihood has no maximum"
        )
    if not content["rows"]:
        reasons.append(f"no coefficients are shown: {content['missing']}")
    if not enough_epsilon(view):
        reasons.append(
            "from which ε on privacy stops mattering, and how many more rows would make up for it, is not "
            "known: no answer without privacy at these sizes says what chance alone costs"
        )
    elif not rows_for_the_same(view):
        reasons.append(
            "how many more rows would make up for privacy is not said: privacy adds hardly anything, or no "
            "private estimate beats answering zero"
        )
    if not reasons:
        return None
    text = "; ".join(reasons)
    return ReportSection("What is missing here, and why", f"{text[0].upper()}{text[1:]}.")
