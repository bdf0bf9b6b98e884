"""Tables of a study of attacks."""

from __future__ import annotations

import math
from dataclasses import dataclass

from reports.numbers import num, setting
from reports.words.attack_series import AUC, POOLED_AUC, SUM_RATIO, AttackPanel, AttackView, Line, Measured

SHOWN_RATES = (0.1, 0.01, 0.001)


@dataclass(frozen=True)
class Value:
    """A number with its interval and its bound, as text; empty where there is none."""

    text: str
    interval: str = ""
    allowed: str = ""


@dataclass(frozen=True)
class AttackRow:
    """One cell."""

    name: str
    slot: int | None
    printed: bool
    epsilon: str
    auc: str
    predicted: str
    values: tuple[Value, ...]
    sum_ratio: str


@dataclass(frozen=True)
class AttackTable:
    """The cells of one panel and size; `columns` are those of `AttackRow.values`."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[AttackRow, ...]


@dataclass(frozen=True)
class SumRow:
    """Members' scores, summed over what Stein's identity gives: measured, and claimed where that differs."""

    panel: str
    name: str
    epsilon: str
    measured: str
    claimed: str


def sum_rows(view: AttackView) -> tuple[SumRow, ...]:
    """Return the sums of the panels whose truth is known: without privacy, and at the largest ε."""
    rows = []
    for panel in view.heads:
        if panel.name not in view.facts.claimed_sums:
            continue
        claimed = view.facts.claimed_sums[panel.name]
        for line in panel.lines:
            cell = line.cells[-1]
            rows.append(
                SumRow(
                    panel.title,
                    line.label,
                    setting(cell.epsilon) if line.private else "∞",
                    cell.with_error(SUM_RATIO),
                    num(claimed) if math.isfinite(claimed) else "a constant",
                )
            )
    return tuple(rows)


def attack_tables(view: AttackView) -> tuple[AttackTable, ...]:
    """Return a table per panel and size, the headline's first."""
    return tuple(_table(view, panel) for panel in view.panels)


def _table(view: AttackView, panel: AttackPanel) -> AttackTable:
    rates = {metric: rate for metric, rate in view.facts.rates.items() if rate in SHOWN_RATES}
    metrics = (POOLED_AUC, *sorted(rates, key=lambda metric: -rates[metric]))
    return AttackTable(
        title=panel.title,
        columns=("pooled AUC", *(f"TPR at FPR {setting(rates[metric])}" for metric in metrics[1:])),
        rows=tuple(_row(view, line, cell, metrics) for line in panel.lines for cell in line.cells),
    )


def _row(view: AttackView, line: Line, cell: Measured, metrics: tuple[str, ...]) -> AttackRow:
    predicted = view.facts.predicted.get(cell.cell, math.nan)
    return AttackRow(
        name=line.label,
        slot=line.info.order if line.private else None,
        printed=line.calibration == "paper",
        epsilon=setting(cell.epsilon) if line.private else "∞",
        auc=cell.with_error(AUC),
        predicted=num(predicted) if math.isfinite(predicted) else "",
        values=tuple(_value(view, cell, metric) for metric in metrics),
        sum_ratio=cell.with_error(SUM_RATIO),
    )


def _value(view: AttackView, cell: Measured, metric: str) -> Value:
    mean = cell.mean(metric)
    if not math.isfinite(mean):
        return Value("not resolved")
    low, high = view.facts.intervals.get((cell.cell, metric), (math.nan, math.nan))
    allowed = view.facts.allowed.get((cell.cell, metric), math.nan)
    gaussian = view.facts.allowed_gaussian.get((cell.cell, metric), math.nan)
    parts = [f"≤ {num(allowed)}"] if math.isfinite(allowed) else []
    parts += [f"Gaussian {num(gaussian)}"] if math.isfinite(gaussian) else []
    interval = f"{num(low)} to {num(high)}" if math.isfinite(low) else ""
    return Value(num(mean), interval, ", ".join(parts))
