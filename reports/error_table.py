"""The tables of a study's page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from data.results.table import LIMIT, with_form
from reports.cells import CALIBRATION_WORDS, Row, Setting, comma, place, rows_at
from reports.page import StudyPage
from reports.ranking import Ranking, measured, rank
from reports.render import PageTable, TableCell
from reports.writing import count_of, error_bar, num, render_sentence, setting, span, words

CERTIFIED_LIMIT = 1.001  # of the certified ε over the target ε; above it the noise is too small


def method_table(page: StudyPage, errors: pd.DataFrame, where: Setting, x: float) -> PageTable:
    """Return mean errors at a size by method and ε, with the certified and the audited ε of one setting.

    The errors of methods without privacy stand where there is next to no noise.
    """
    same = errors[(errors["panel"] == where.panel) & (errors["delta_rule"] == where.delta_rule)]
    epsilons = sorted({*same.loc[same["x"] == x, "epsilon"].dropna(), LIMIT})
    at = {epsilon: rows_at(errors, where._replace(epsilon=epsilon)) for epsilon in epsilons}
    cells = {(_key(row), epsilon): row for epsilon, rows in at.items() for row in rows if row.x == x}
    rankings = {epsilon: rank(rows, x) for epsilon, rows in at.items()}
    audited = any(math.isfinite(row.audited) for row in at[where.epsilon])
    firsts: dict[Any, Row] = {}
    for row in sorted((each for rows in at.values() for each in rows), key=lambda each: each.rank):
        firsts.setdefault(_key(row), row)
    lines: list[list[str | TableCell]] = []
    for key, first in firsts.items():
        is_private = first.role in ("private", "unprotected")
        is_paper = first.calibration == "paper"
        color = first.look.color if first.role == "private" else ""
        name = TableCell(
            first.name, CALIBRATION_WORDS["paper"] if is_paper else "", color=color, hollow=is_paper
        )
        numbers = [_cell(cells.get((key, e)), rankings[e]) if is_private or e == LIMIT else TableCell("")
                   for e in epsilons]  # fmt: skip
        here = [row for row in at[where.epsilon] if _key(row) == key]
        proved = [_certified(first, here, where)]
        if audited:
            bounds = [row.audited for row in here if math.isfinite(row.audited)]
            proved.append(TableCell(num(max(bounds)) if is_private and bounds else ""))
        lines.append([name, *numbers, *proved])
    heads = [f"ε = {setting(e)}" if e != LIMIT else "no noise" for e in epsilons]
    at_epsilon = f"at ε = {setting(where.epsilon)}"
    more = [f"certified {at_epsilon}", *([f"audited {at_epsilon}, ≥"] if audited else [])]
    caption = render_sentence("table_caption", page=page, where=where, x=x)
    return PageTable(("Method", *heads, *more), lines, caption)


def _key(row: Row) -> tuple[str, str, str]:
    return row.estimator, row.form, row.calibration


def _cell(row: Row | None, ranking: Ranking) -> TableCell:
    if row is None:
        return TableCell("", title="not part of what ran")
    if not row.answered:
        word = row.status if row.status in {"failed", "refused"} else "no value"
        return TableCell(word, kind="missing", title=row.message)
    is_worse = row.role in {"private", "unprotected"} and not ranking.beats_zero(measured(row))
    is_precise = 2 * row.error < abs(row.mean) or not row.error
    is_best = row in ranking.best_or_tied and is_precise and ranking.beats_zero(measured(row))
    se = f"± {error_bar(row.se, row.mean)}" if row.se > 0 else ""
    failed = f", {row.n_failed} failed" if row.n_failed else ""
    title = (
        f"{count_of(row.n_ok, 'repetition')}; deciles {num(row.low)} to {num(row.high)}. {row.message}".strip(
            " ."
        )
    )
    return TableCell(num(row.mean), se + failed, "best" if is_best else "worse" if is_worse else "", title)


def _certified(first: Row, rows: Sequence[Row], where: Setting) -> TableCell:
    """Return the ε that the recorded releases prove, flagged where it is above the target."""
    if first.role == "unprotected":
        return TableCell("none: not private", kind="flagged")
    if first.role != "private" or not rows:
        return TableCell("")
    known = [row.certified for row in rows if math.isfinite(row.certified)]
    too_much = bool(known) and max(known) > where.epsilon * CERTIFIED_LIMIT
    return TableCell(span(known) or "none", kind="flagged" if too_much or not known else "")


def failures_of(results: pd.DataFrame, page: StudyPage) -> dict[str, Any]:
    """Group failures and refusals by estimator, noise, form and reason, and count repetitions."""
    of_metric = results[results["metric"] == page.metric]
    bad = place(of_metric[of_metric["status"] != "ok"], page)
    failures = []
    keys = ["estimator", "calibration", "form", "status", "message"]
    for key, group in bad.groupby(keys, sort=False):
        name, noise, form, status, message = map(str, key)
        places = [f"{page.axis.symbol} = {words(setting(x) for x in sorted(set(group['x'])))}"]
        if epsilons := sorted({float(e) for e in group["epsilon"].dropna()}):
            places.append(f"ε = {words(setting(e) for e in epsilons)}")
        if panels := [f"“{panel}”" for panel in dict.fromkeys(group["panel"]) if panel]:
            places.append(f"{page.panel_word} {words(panels)}")
        n = len(group.drop_duplicates(["cell", "replicate"]))
        label = comma(with_form(page.estimator(name).title, form), CALIBRATION_WORDS.get(noise))
        failures.append((n, (label, status, message, "; ".join(places), f"{n:,}")))
    failures.sort(key=lambda pair: (-pair[0], pair[1][0]))
    columns = ("What", "Outcome", "Why", "Where", "Repetitions")
    table = PageTable(columns, [row for _, row in failures], "Failures and refusals", 4, stacked=True)
    return {"table": table, "n_estimates": len(of_metric)}
