"""The headline and the tables of a study of attacks."""

from __future__ import annotations

import math

from reports.analysis.attacks import (
    AUC,
    CHANCE,
    POOLED_AUC,
    SUM_RATIO,
    AttackCell,
    AttackLine,
    AttackPanel,
    AttackView,
)
from reports.numbers import num, rule_text, setting
from reports.sentences import said
from reports.words.headline import PageHeadline, Tile, data_sentence
from reports.words.tables import PlainCell, PlainTable

SHOWN_RATES = (0.1, 0.01, 0.001)


def sum_table(view: AttackView) -> PlainTable:
    """Return the sums of the panels whose truth is known: without privacy, and at the largest ε.

    Members' scores are summed, over what Stein's identity gives: measured, and claimed where that differs.
    """
    rows = []
    for panel in view.heads:
        if panel.name not in view.facts.claimed_sums:
            continue
        claimed = view.facts.claimed_sums[panel.name]
        for line in panel.lines:
            cell = line.cells[-1]
            said = num(claimed) if math.isfinite(claimed) else "a constant"
            rows.append((panel.title, line.label, _epsilon(line, cell), cell.with_error(SUM_RATIO), said))
    columns = ("Panel", "Estimator", "ε", "measured", "claimed, at least a multiple of")
    return PlainTable(columns, tuple(rows))


def attack_tables(view: AttackView) -> tuple[PlainTable, ...]:
    """Return a table per panel and size, the headline's first."""
    return tuple(_table(view, panel) for panel in view.panels)


def _table(view: AttackView, panel: AttackPanel) -> PlainTable:
    rates = {metric: rate for metric, rate in view.facts.rates.items() if rate in SHOWN_RATES}
    metrics = sorted(rates, key=lambda metric: -rates[metric])
    named = (f"TPR at FPR {setting(rates[metric])}" for metric in metrics)
    return PlainTable(
        ("Estimator", "ε", "AUC", "pooled AUC", *named, "sum of scores"),
        tuple(
            (
                PlainCell(
                    line.label, (), line.info.order if line.private else None, line.calibration == "paper"
                ),
                _epsilon(line, cell),
                PlainCell(cell.with_error(AUC), (_predicted(view, cell),)),
                *(_value(view, cell, metric) for metric in (POOLED_AUC, *metrics)),
                cell.with_error(SUM_RATIO),
            )
            for line in panel.lines
            for cell in line.cells
        ),
        panel.title,
    )


def _epsilon(line: AttackLine, cell: AttackCell) -> str:
    return setting(cell.epsilon) if line.private else "∞"


def _predicted(view: AttackView, cell: AttackCell) -> str:
    value = view.facts.predicted.get(cell.cell, math.nan)
    return f"predicted {num(value)}" if math.isfinite(value) else ""


def _value(view: AttackView, cell: AttackCell, metric: str) -> PlainCell:
    """Write a number with its interval and its bounds."""
    mean = cell.mean(metric)
    if not math.isfinite(mean):
        return PlainCell("not resolved")
    low, high = view.facts.intervals.get((cell.cell, metric), (math.nan, math.nan))
    allowed = view.facts.allowed.get((cell.cell, metric), math.nan)
    gaussian = view.facts.allowed_gaussian.get((cell.cell, metric), math.nan)
    parts = [f"≤ {num(allowed)}"] if math.isfinite(allowed) else []
    parts += [f"Gaussian {num(gaussian)}"] if math.isfinite(gaussian) else []
    interval = f"{num(low)} to {num(high)}" if math.isfinite(low) else ""
    return PlainCell(num(mean), (interval, ", ".join(parts)))


def attack_headline(view: AttackView) -> PageHeadline:
    data, panel = data_sentence(view.page), view.head
    if panel is None:
        return PageHeadline("No attack has run in this study yet.", data)
    other, best = panel.without_privacy, panel.best_private(view.epsilon)
    where = f"ε = {setting(view.epsilon)}, δ = {rule_text(view.rule, view.page.rows_symbol)}"
    tiles, limits = [], []
    if other is not None:
        value = other.mean(AUC)
        tiles.append(Tile(num(value), "AUC without privacy", "nonprivate"))
        if other.cell in view.facts.predicted:
            limits.append(
                f"Theory predicts {num(view.facts.predicted[other.cell])} without privacy, from the error "
                f"alone; measured are {num(value)}."
            )
    if best is not None:
        line, cell = best
        tiles.append(
            Tile(
                num(cell.mean(AUC)),
                f"AUC at ε = {setting(view.epsilon)}: {line.label}",
                "best",
                line.info.order,
            )
        )
        allowed = view.facts.allowed.get((cell.cell, AUC), math.nan)
        gaussian = view.facts.allowed_gaussian.get((cell.cell, AUC), math.nan)
        if math.isfinite(gaussian):
            tiles.append(Tile(num(gaussian), "the most that Gaussian noise of this (ε, δ) allows", "cost"))
        limits.append(said("attacks_allowed", cell=cell, allowed=allowed, gaussian=gaussian, coin=CHANCE))
    tiles.append(Tile(num(CHANCE), "a coin", "zero"))
    broken = list(dict.fromkeys(cell for cell, _ in view.facts.exceeding))
    return PageHeadline(
        said("attacks_found", without=other, panel=panel, where=where, best=best),
        data,
        said("attacks_verdict", broken=broken),
        _panels_sentence(view),
        limits=tuple(limits),
        tiles=tuple(tiles),
    )


def _panels_sentence(view: AttackView) -> str:
    parts = []
    for panel in view.heads:
        other, best = panel.without_privacy, panel.best_private(view.epsilon)
        if other is not None and best is not None:
            parts.append(f"{panel.title}: {num(other.mean(AUC))} and {num(best[1].mean(AUC))}")
    if not parts:
        return ""
    return f"AUC without privacy, and the highest at ε = {setting(view.epsilon)}: {'; '.join(parts)}."
