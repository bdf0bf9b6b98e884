"""Exhibit of a comparison of groups: in which panels, at which ε and from how many people on it works."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from reports.cells import Row, errors_of, nearest_value, panels_of, rows_at, settings_of
from reports.page import Section, StudyPage
from reports.ranking import PageHeadline, measured, rank
from reports.render import PageTable, TableCell
from reports.writing import error_bar, num, render_sentence, setting

_LIMITS = {"chance": "two random groups", "sparse_floor": "smallest with s entries"}


def draw(
    page: StudyPage, cells: pd.DataFrame, head: PageHeadline, content: Mapping[str, Any]
) -> tuple[Section, ...]:
    """Return a table of the best private errors by panel and ε, at the headline's δ and each largest size."""
    errors = errors_of(cells, page)
    at = [each for each in settings_of(errors, page) if each.delta_rule == head.where.delta_rule]
    epsilons = sorted({each.epsilon for each in at})
    lines: list[list[str | TableCell]] = []
    first: list[tuple[str, float, float]] = []  # panel, the ε nearest to the headline's, size
    for panel in panels_of(errors, page):
        rows = {each.epsilon: rows_at(errors, each) for each in at if each.panel == panel}
        if not rows:
            continue
        m = max(row.x for each in rows.values() for row in each)
        zero = rank(next(iter(rows.values())), m).zero
        of_panel = cells[(cells["panel"] == panel) & cells["metric"].isin(_LIMITS)]
        limits = of_panel.groupby("metric")["mean"].first()
        known = [num(limits[name]) if name in limits else "" for name in _LIMITS]
        best = [_best(rows[epsilon], m) if epsilon in rows else TableCell("not run", kind="missing")
                for epsilon in epsilons]  # fmt: skip
        lines.append([page.panel_title(panel), setting(m), num(zero.value), *known, *best])
        if math.isnan(zero.value):
            continue
        epsilon = nearest_value(rows, head.where.epsilon)
        first += [(page.panel_title(panel), e, _first_size(rows[e])) for e in rows if e == epsilon]
    if not lines:
        return ()
    heading = "In which panels does it work?"
    columns = ("Panel", page.axis.symbol, "zero", *_LIMITS.values(), *(f"ε = {setting(e)}" for e in epsilons))
    works = [each for each in first if math.isfinite(each[-1])]
    fails = [each for each in first if not math.isfinite(each[-1])]
    answer = render_sentence("group_panels_answer", page=page, head=head, works=works, fails=fails)
    text = render_sentence("group_panels", page=page, head=head)
    context = {"heading": heading, "text": f"{text} {answer}", "table": PageTable(columns, lines, heading)}
    return (Section("drawing", context),)


def _best(rows: Sequence[Row], m: float) -> TableCell:
    """Return the best private error, bold if clearly below the zero baseline."""
    ranking = rank(rows, m)
    if ranking.best is None:
        return TableCell("none" if any(row.x == m for row in rows) else "not run", kind="missing")
    note = f"± {error_bar(ranking.best.se, ranking.best.mean)}" if ranking.best.se > 0 else ""
    kind = "best" if measured(ranking.best).is_below(ranking.zero) else ""
    return TableCell(num(ranking.best.mean), note, kind, ranking.best.label)


def _first_size(rows: Sequence[Row]) -> float:
    """Return the size from which on the best private error is clearly below zero; infinite if none is."""
    first = math.inf
    for x in sorted({row.x for row in rows}, reverse=True):
        ranking = rank(rows, x)
        if not ranking.any_beats_zero:
            break
        first = x
    return first
