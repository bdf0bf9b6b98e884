"""The tables of a study's page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from data.results.table import with_form
from reports.cells import CALIBRATION_WORDS, Row, Setting, comma, lines_of, place, size_at
from reports.fairness import is_mostly_bias, sampling_error
from reports.page import StudyPage
from reports.ranking import Ranking, measured, rank
from reports.render import PageTable, TableCell
from reports.writing import count_of, error_bar, num, render_sentence, setting, short, span, words

CERTIFIED_LIMIT = 1.001  # of the certified ε over the target ε; above it the noise is too small
_TOO_MUCH_NOISE = 0.8  # the same; below it the noise is too large
_CERTIFIED, _AUDITED, _NOISE_OFF = "certified ε", "audited ε ≥", "without noise"


def setting_title(page: StudyPage, where: Setting) -> str:
    """Write a setting with its panel: "ε = 0.5, δ = 10/m¹·¹, preparation “public”"."""
    return render_sentence("condition", page=page, where=where)


def error_table(page: StudyPage, rows: Sequence[Row], where: Setting) -> PageTable:
    """Return mean errors by line and size at one setting, with δ times the size and the certified ε."""
    xs = sorted({row.x for row in rows})
    notes: dict[str, str] = {}
    rankings = {x: rank(rows, x) for x in xs}
    audited = any(math.isfinite(row.audited) for row in rows)
    exposed = [_exposed(page, rows, x) for x in xs]
    at = size_at(rows, page) if any(math.isfinite(row.noise_off) for row in rows) else None
    lines: list[list[str | TableCell]] = [["δ·people", *exposed, *[""] * (1 + audited + (at is not None))]]
    for line in lines_of(rows):
        first, by_size = line[0], {row.x: row for row in line}
        name = TableCell(
            first.name,
            CALIBRATION_WORDS.get(first.calibration, ""),
            flags="".join(sorted(_mark(notes, remark) for remark in _remarks(page, where, line))),
            color=first.look.color if first.role == "private" else "",
            hollow=first.calibration == "paper",
        )
        cells = [_cell(by_size.get(x), rankings[x], notes) for x in xs]
        proved = [_epsilon(first, [row.certified for row in line])]
        if audited:
            cell, largest = _epsilon(first, bounds := [row.audited for row in line]), np.nanmax([0, *bounds])
            is_zero = first.role == "private" and cell.kind != "missing" and not largest
            proved.append(replace(cell, flags=_mark(notes, _remark("audit of 0"))) if is_zero else cell)
        silent = [] if at is None else [_noise_off(by_size.get(at), sampling_error(rows, at), notes)]
        lines.append([name, *cells, *silent, *proved])
    without_noise = [] if at is None else [f"{_NOISE_OFF}, {page.axis.symbol} = {setting(at)}"]
    return PageTable(
        ("Estimator", *map(setting, xs), *without_noise, _CERTIFIED, *([_AUDITED] if audited else [])),
        lines,
        f"Error by {page.axis.label}; {setting_title(page, where)}",
        key=tuple((letter, text) for text, letter in notes.items()),
        links={_CERTIFIED: "#certified", _AUDITED: "#certified"},
    )


def _remark(name: str) -> str:
    return render_sentence("remark", name=name)


def _mark(notes: dict[str, str], text: str) -> str:
    """Return the letter of a remark, in the order of first use."""
    return notes.setdefault(text, chr(ord("a") + min(len(notes), 25)))


def _cell(row: Row | None, ranking: Ranking, notes: dict[str, str]) -> TableCell:
    if row is None:
        return TableCell("not run", kind="missing", title=_remark("not run"))
    if not row.answered:
        word = row.status if row.status in {"failed", "refused"} else "no value"
        return TableCell(word, kind="missing", title=row.message)
    is_worse = row.role in {"private", "unprotected"} and ranking.zero.is_below(measured(row))
    kind = "worse" if is_worse else ""
    is_precise = 2 * row.error < abs(row.mean) or not row.error
    if row in ranking.best_or_tied and is_precise and ranking.beats_zero(measured(row)):
        kind = "best"
    se = f"± {error_bar(row.se, row.mean)}" if row.se > 0 else ""
    title = f"{count_of(row.n_ok, 'repetition')}; deciles {num(row.low)} to {num(row.high)}"
    marks = [_mark(notes, row.message)] if row.status == "ok" and row.message else []
    if row.n_failed:
        marks.append(_mark(notes, _remark("some failed")))
    return TableCell(num(row.mean), se, kind, title, "".join(sorted(set(marks))))


def _noise_off(row: Row | None, without: float, notes: dict[str, str]) -> TableCell:
    """Return the error of a private row with its noise switched off."""
    if row is None or not math.isfinite(row.noise_off):
        return TableCell("")
    mark = _mark(notes, _remark("mostly bias")) if is_mostly_bias(row, without) else ""
    return TableCell(num(row.noise_off), flags=mark)


def _epsilon(first: Row, values: list[float]) -> TableCell:
    if first.role != "private":
        return TableCell("sees no data" if first.role == "zero" else "not private", kind="missing")
    if not (finite := [value for value in values if math.isfinite(value)]):
        return TableCell("none", kind="missing", title="no ε was certified for these cells")
    return TableCell(span(finite))


def _remarks(page: StudyPage, where: Setting, line: Sequence[Row]) -> list[str]:
    if line[0].role == "unprotected":
        return [_remark("unprotected")]
    if line[0].role != "private":
        return []
    remarks = [_remark("prepared")] if where.panel in page.unprotected_panels else []
    largest = max((row.certified for row in line if math.isfinite(row.certified)), default=where.epsilon)
    if largest > where.epsilon * CERTIFIED_LIMIT:
        remarks.append(_remark("too small"))
    if largest < where.epsilon * _TOO_MUCH_NOISE:
        remarks.append(_remark("too large"))
    return remarks


def _exposed(page: StudyPage, rows: Sequence[Row], x: float) -> TableCell:
    """Return δ times the people: the number that a mechanism at that δ may expose outright."""
    known = [
        row.delta * people
        for row in rows
        if row.x == x and math.isfinite(row.delta)
        if (people := page.people.get((row.panel, row.n), row.n)) is not None
    ]
    most = max(known, default=None)
    return TableCell("") if most is None else TableCell(short(most), kind="flagged" if most >= 1 else "")


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
