"""Additions to the page of an analyst's own table: coefficients, what is missing and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from reports.cells import ROUNDING
from reports.page import Section, StudyPage
from reports.ranking import PageHeadline
from reports.writing import num, num_in


def draw(
    page: StudyPage, cells: pd.DataFrame, head: PageHeadline, content: Mapping[str, Any]
) -> tuple[Section | None, ...]:
    missing = {
        "left_out": content["left_out"],
        "linear": content.get("linear", False),
        "no_rows": "" if content["rows"] else content["missing"],
    }
    return _coefficients(page, content), Section("own_missing", missing)


def _coefficients(page: StudyPage, content: Mapping[str, Any]) -> Section | None:
    if not content["rows"]:
        return None
    has_limits, rows, same = any(row[2] is not None for row in content["rows"]), [], 0
    for column, coef, low, high, exact in content["rows"]:
        coef = coef if low is not None or abs(coef) > ROUNDING * abs(exact) else 0.0
        exact = exact if abs(exact) > ROUNDING * max(map(abs, (coef, low or 0.0, high or 0.0))) else 0.0
        is_sure, is_same = low is not None and low * high > 0, coef * exact > 0  # zero has no sign
        same += is_same
        limits = "none" if low is None else f"{num_in(low, low, high)} to {num_in(high, low, high)}"
        sign = "not known" if has_limits else "same" if is_same else "other" if coef else "none"
        if is_sure:
            sign = "known" if low * exact > 0 else "wrong"
        row = column, num(coef) if low is None else num_in(coef, low, high), limits, num(exact)
        rows.append(row if content["numbers"] == "means" else (*row, sign))
    context = {
        "name": page.estimator(content["estimator"]).title,
        "n": content["n"],
        "epsilon": content["epsilon"],
        "numbers": content["numbers"],
        "has_limits": has_limits,
        "pays_interval": content.get("pays_interval", False),
        "covers": content.get("covers", ""),
        "same": same,
        "rows": rows,
    }
    return Section("own_coefficients", context)
