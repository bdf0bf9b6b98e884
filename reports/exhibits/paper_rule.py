"""Exhibit: whether a paper's rule "privacy costs at most a factor" holds on these data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from reports.cells import Row, errors_of, rows_at, settings_of
from reports.page import Section, StudyPage
from reports.ranking import Estimate, PageHeadline, measured
from reports.render import PageTable, TableCell
from reports.writing import error_bar, num, render_sentence, rule_text, setting


def draw(
    page: StudyPage, cells: pd.DataFrame, head: PageHeadline, content: Mapping[str, Any]
) -> tuple[Section, ...]:
    """Return the errors of ``estimator`` over those of ``baseline`` in the headline's panel.

    The rule fails at a setting if a ratio exceeds ``factor`` by more than two standard errors. Errors of the
    two count as independent, although they share their rows. There is no ratio to an error of 0.
    """
    errors, factor = errors_of(cells, page), content["factor"]
    found: list[tuple[str, Row, Estimate]] = []
    for where in settings_of(errors, page):
        rows = [row for row in rows_at(errors, where) if row.answered and where.panel == head.where.panel]
        base = {row.x: measured(row) for row in rows if row.estimator == content["baseline"] and row.mean > 0}
        at = f"ε = {setting(where.epsilon)}, δ = {rule_text(where.delta_rule, page.axis.rows_symbol)}"
        ours = (row for row in rows if row.estimator == content["estimator"] and row.x in base)
        found += [(at, row, measured(row).over(base[row.x])) for row in ours]
    if not found:
        return ()
    fails = [each for each in found if each[2].value - 2 * each[2].error > factor]
    holds = [each for each in found if each[2].value + 2 * each[2].error <= factor]
    heading = "Does the paper’s rule hold, that privacy is mild?"
    answer = render_sentence(
        "paper_rule",
        page=page,
        head=head,
        factor=factor,
        names=(page.estimator(content["estimator"]).title, page.estimator(content["baseline"]).title),
        n=len(found),
        fails=len(fails),
        holds=len(holds),
        ratios=[ratio.value for _, _, ratio in found],
    )
    table = PageTable(
        ("Setting", "Estimator", page.axis.symbol, "ratio"),
        [
            [at, row.label, setting(row.x), TableCell(num(ratio.value), _note(ratio))]
            for at, row, ratio in found
        ],
        heading,
        2,
    )
    text = render_sentence("paper_rule_text", factor=factor)
    return (Section("drawing", {"heading": heading, "text": text, "table": table, "answer": answer}),)


def _note(ratio: Estimate) -> str:
    known = math.isfinite(ratio.error) and ratio.error > 0
    return f"± {error_bar(ratio.error, ratio.value)}" if known else ""
