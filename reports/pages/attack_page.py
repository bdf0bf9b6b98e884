"""The page of a study that measures attacks: its panels and lines, figures, sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from data.results.table import AUC, POOLED_AUC, TRUE_POSITIVE_RATES
from reports.cells import Row, comma, errors_of, lines_of
from reports.charts.drawing import Picture, draw_chart
from reports.charts.lines import Axes, Line, guide, line_chart
from reports.charts.study import Pictures, StudyChart, pictures_of
from reports.new_sample import PageCells
from reports.page import AttackFindings, Guide, Section, StudyPage
from reports.pages.error_page import Layout
from reports.palette import LIMIT_DASH, SOLID, ZERO_DOTS
from reports.ranking import PageHeadline
from reports.render import Bar, PageTable, TableCell
from reports.writing import error_bar, num, render_lines, render_sentence, setting

_SUM_RATIO = "attack_sum_ratio"
_COIN_TOSS = 0.5
_CEILING_DASHES = (SOLID, LIMIT_DASH)
_LOWEST_RATE = 1e-3
_TABLE_RATES = (0.1, 0.01, 0.001)

Attacks = Sequence[Row]  # on a panel at a size; ``mean`` is the AUC


def attacks_by_panel(page: StudyPage, cells: pd.DataFrame) -> list[Attacks]:
    """Return the attacks by panel and size: the headline's panel first, then the nearest size.

    A row has each metric's mean in a column of the metric's name, and its standard error in ``NAME_se``.
    """
    means, errors = (cells.pivot(index="cell", columns="metric", values=each) for each in ("mean", "se"))
    rows = errors_of(cells, page).join(means, on="cell").join(errors.add_suffix("_se"), on="cell")
    panels = rows["panel"].drop_duplicates().sort_values(key=lambda names: names != page.headline["panel"],
                                                         kind="stable").tolist()  # fmt: skip
    rows["place"] = rows["panel"].map(panels.index)
    rows["distance"] = (np.log(rows["n"]) - math.log(page.headline["n"])).abs()
    places = zip(rows["panel"], rows["n"], rows["d"], strict=True)
    rows["title"] = [f"{panel}: n = {n:,}, d = {d:,}" for panel, n, d in places]
    rows = rows.sort_values(["place", "distance", "n", "rank", "epsilon"], kind="stable")
    return [list(attacks.itertuples()) for _, attacks in rows.groupby(["panel", "n"], sort=False)]


def first_sizes(panels: Sequence[Attacks]) -> list[Attacks]:
    """Return every panel at the size nearest to the headline's."""
    return list({attacks[0].panel: attacks for attacks in reversed(panels)}.values())[::-1]


def at_epsilon(attacks: Attacks, epsilon: float) -> list[Row]:
    """Return the attacks at an ε, and those without privacy."""
    return [row for row in attacks if row.calibration == "none" or row.epsilon == epsilon]


def strongest(attacks: Attacks, epsilon: float) -> tuple[Row | None, Row | None]:
    """Return the cells that are attacked best, without privacy and with it at an ε."""
    known = [row for row in at_epsilon(attacks, epsilon) if math.isfinite(row.mean)]
    rows = ([row for row in known if (row.calibration == "none") is bare] for bare in (True, False))
    without, best = (max(each, key=lambda row: row.mean, default=None) for each in rows)
    return without, best


def draw_attacks(
    page: StudyPage, cells: pd.DataFrame, head: PageHeadline, panels: Sequence[Attacks]
) -> Pictures:
    findings, epsilon, title = _findings(page), head.where.epsilon, panels[0][0].title
    ceilings = findings.ceilings
    ends = (ceilings[0].n[0], ceilings[0].n[-1]) if ceilings else ()
    guides = (*ceilings, *([Guide("a coin toss", ends, (_COIN_TOSS,) * 2)] if ends else []))
    without, best = strongest(panels[0], epsilon)
    text = render_sentence("attack_picture", title=title, without=without, epsilon=epsilon, best=best)
    others = [metric for metric, rate in TRUE_POSITIVE_RATES.items() if rate not in _TABLE_RATES]
    drawn, axis = cells[~cells["metric"].isin(others)], replace(page.axis, column="epsilon")
    chart = StudyChart.build(replace(page, guides=guides, axis=axis), drawn, head)
    return pictures_of(chart, head, best.line if best else "", text, title)


def _draw_rocs(page: StudyPage, panels: Sequence[Attacks], epsilon: float) -> Picture:
    """Draw a chart for each panel, with the attacks at an ε."""
    lines = [_roc_lines(_findings(page), attacks, epsilon) for attacks in panels]
    ends = (_LOWEST_RATE, 1.0)
    axes = Axes(
        "false positive rate", "true positive rate", x_range=ends, y_range=ends, width=380, height=220
    )
    charts = [line_chart(each, axes) for each in lines]
    styles: dict[str, Any] = {}
    for chart, attacks in zip(charts, panels, strict=True):  # parameters are those of the whole picture
        styles |= chart.pop("params")[0]["value"]
        chart["title"] = {**chart["title"], "text": [attacks[0].title, chart["title"]["text"]]}
        del chart["autosize"]
    params = [{"name": "styles", "value": styles}]
    separate = dict.fromkeys(("stroke", "fill", "shape", "strokeDash"), "independent")
    drawn = {"concat": charts, "columns": 2, "params": params, "resolve": {"scale": separate}, "spacing": 40}
    reached = [(line.label, *line.points[0][::-1]) for line in lines[0] if line.look.width > 1]
    text = render_sentence("attack_roc", title=panels[0][0].title, reached=reached)
    return draw_chart(drawn, "roc", text, page.data_source)


def _roc_lines(findings: AttackFindings, attacks: Attacks, epsilon: float) -> list[Line]:
    first, lines = attacks[0], list[Line]()
    for row in at_epsilon(attacks, epsilon):
        rates = [(rate, _mean(row, metric)) for metric, rate in TRUE_POSITIVE_RATES.items()]
        if points := [(rate, hits) for rate, hits in rates if hits > 0]:
            lines.append(Line(row.line, [*points, (1.0, 1.0)], replace(row.look, shape="")))
    of_panel = [each for each in findings.roc_ceilings if each.panel == f"{first.panel}:{first.n}"]
    lines += [
        guide(each.label, list(zip(each.n, each.value, strict=True)), dash)
        for each, dash in zip(of_panel, _CEILING_DASHES, strict=False)
    ]
    return [*lines, guide("a coin toss", [(end, end) for end in (_LOWEST_RATE, 1.0)], ZERO_DOTS)]


def _findings(page: StudyPage) -> AttackFindings:
    assert isinstance(page.beyond_errors, AttackFindings)
    return page.beyond_errors


def _mean(row: Row, metric: str) -> float:
    """Return a metric's mean; NaN where it was not measured or not resolved."""
    return float(getattr(row, metric, math.nan))


def _with_error(row: Row, metric: str) -> str:
    mean, error = _mean(row, metric), _mean(row, f"{metric}_se")
    return f"{num(mean)} ± {error_bar(error, mean)}" if error > 0 else num(mean)


def attack_table(page: StudyPage, attacks: Attacks, epsilon: float) -> PageTable:
    """Return the attacks on a panel: a row for each method, its AUC by ε, and all else at one ε."""
    findings = _findings(page)
    rates = {metric: rate for metric, rate in TRUE_POSITIVE_RATES.items() if rate in _TABLE_RATES}
    metrics = sorted(rates, key=lambda metric: -rates[metric])
    claimed = findings.claimed_sums.get(attacks[0].panel)  # where the truth is known
    claim = "" if claimed is None else render_sentence("attack_claim", claimed=claimed)
    epsilons = sorted({row.epsilon for row in attacks if row.calibration != "none"})
    rows: list[list[str | TableCell]] = []
    for line in lines_of(attacks):
        first, is_private = line[0], line[0].calibration != "none"
        at = {row.epsilon if is_private else math.inf: row for row in line}
        color = first.look.color if is_private else ""
        row = at.get(epsilon if is_private else math.inf)
        details = ["" for _ in (POOLED_AUC, *metrics, _SUM_RATIO)] if row is None else [
            *(_value(findings, row, metric) for metric in (POOLED_AUC, *metrics)),
            TableCell(_with_error(row, _SUM_RATIO), claim),
        ]  # fmt: skip
        rows.append([
            TableCell(first.label, color=color, hollow=first.calibration == "paper"),
            *(_auc(findings, at.get(each)) for each in (*epsilons, math.inf)),
            *details,
        ])  # fmt: skip
    names = [f"AUC at ε = {setting(each)}" for each in epsilons]
    headings = (f"TPR at FPR {setting(rates[metric])}" for metric in metrics)
    columns = ("Method", *names, "no privacy", "pooled AUC", *headings, "sum of scores")
    return PageTable(columns, rows, f"{attacks[0].title}; from pooled AUC on, ε = {setting(epsilon)}")


def _auc(findings: AttackFindings, row: Row | None) -> str | TableCell:
    if row is None:
        return ""
    return TableCell(_with_error(row, AUC), _with_bounds("predicted {}", findings.predicted.get(row.cell)))


def _with_bounds(words: str, *bounds: float | None) -> str:
    """Write numbers in words; empty where one is not known."""
    known = [num(bound) for bound in bounds if bound is not None and math.isfinite(bound)]
    return words.format(*known) if len(known) == len(bounds) else ""


def _value(findings: AttackFindings, row: Row, metric: str) -> TableCell:
    """Write a number with its interval and its bounds."""
    if not math.isfinite(_mean(row, metric)):
        return TableCell("not resolved", kind="missing")
    key = (row.cell, metric)
    parts = [
        _with_bounds("{} to {}", *findings.intervals.get(key, (None, None))),
        _with_bounds("≤ {}", findings.allowed.get(key)),
        _with_bounds("Gaussian {}", findings.allowed_gaussian.get(key)),
    ]
    return TableCell(num(_mean(row, metric)), ", ".join(filter(None, parts)))


def _bar(label: str, kind: str, row: Row) -> Bar:
    note = f"± {error_bar(row.se, row.mean)}" if row.se > 0 else ""
    return Bar(label, [(kind, row.mean)], num(row.mean), comma(note, row.label))


def content(page: StudyPage, measured: PageCells, head: PageHeadline | None, raw: pd.DataFrame) -> Layout:
    cells = measured.cells
    panels = attacks_by_panel(page, cells)
    if not panels or head is None:
        return Layout("No attack has run in this study yet.")
    findings, epsilon, title = _findings(page), head.where.epsilon, panels[0][0].title
    other, best = strongest(panels[0], epsilon)
    key = (best.cell, AUC) if best else ("", "")
    numbers = {
        "best": best,
        "broken": list(dict.fromkeys(cell for cell, _ in findings.exceeding)),
        "allowed": findings.allowed.get(key, math.nan),
        "gaussian": findings.allowed_gaussian.get(key, math.nan),
    }
    bars = [
        Bar("a coin toss", [("sampling", _COIN_TOSS)], num(_COIN_TOSS)),
        *(_bar("with privacy", "privacy", row) for row in [best] if row),
        *(_bar("without privacy", "method", row) for row in [other] if row),
    ]
    return Layout(
        render_sentence("attack_headline", title=title, without=other, epsilon=epsilon, best=best),
        draw_attacks(page, cells, head, panels),
        render_sentence("attack_subtitle", title=title, best=best, repetitions=best.n_ok) if best else "",
        bars,
        caption=render_sentence("attack_caption"),
        tables=[attack_table(page, attacks, epsilon) for attacks in panels],
        notes=render_lines("attack_notes"),
        sections=[
            Section("attack_numbers", numbers),
            Section(
                "drawing",
                {
                    "heading": "The whole ROC curves",
                    "text": render_sentence("about_roc"),
                    "picture": _draw_rocs(page, first_sizes(panels), epsilon),
                },
            ),
        ],
    )
