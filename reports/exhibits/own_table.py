"""Additions to the page of an analyst's own table: coefficients, what is missing and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from reports.page import StudyPage
from reports.ranking import PageHeadline
from reports.render import PageTable, Section
from reports.writing import num, num_in, render_sentence


def draw(
    page: StudyPage, cells: pd.DataFrame, head: PageHeadline, content: Mapping[str, Any]
) -> tuple[Section, ...]:
    return tuple(filter(None, (_coefficients(page, content), _missing(content))))


def _coefficients(page: StudyPage, content: Mapping[str, Any]) -> Section | None:
    if not content["rows"]:
        return None
    has_limits, rows, same = any(row[2] is not None for row in content["rows"]), [], 0
    for column, coef, low, high, exact in content["rows"]:
        is_sure, is_same = low is not None and low * high > 0, coef * exact > 0  # zero has no sign
        same += is_same
        limits = "none" if low is None else f"{num_in(low, low, high)} to {num_in(high, low, high)}"
        sign = "not known" if has_limits else "same" if is_same else "other"
        if is_sure:
            sign = "known" if low * exact > 0 else "wrong"
        rows.append((column, num(coef) if low is None else num_in(coef, low, high), limits, num(exact), sign))
    text = render_sentence(
        "own_coefficients",
        name=page.estimator(content["estimator"]).title,
        n=content["n"],
        units=page.population[1],
        epsilon=content["epsilon"],
        of_terms=content.get("of_terms", False),
        has_limits=has_limits,
        covers=content.get("covers", ""),
        same=same,
        n_rows=len(rows),
    )
    columns = ("Term", "private", "95% interval", "without privacy", "sign")
    heading = "The estimate, with and without privacy"
    return Section(heading, text, table=PageTable(columns, rows, heading, stacked=True))


def _missing(content: Mapping[str, Any]) -> Section | None:
    no_rows = "" if content["rows"] else content["missing"]
    facts = {"left_out": content["left_out"], "linear": content.get("linear", False), "no_rows": no_rows}
    text = render_sentence("own_missing", **facts)
    return Section("What is missing here, and why", text) if text else None
