"""Errors as for a new sample, the one currency of a page, and how each repetition moves them.

m of N rows, drawn without replacement, miss the estimate from all N rows by e(m). A new sample of m rows
misses its population's value by s(m) = e(m) / √(1 − m/N), which falls with the root of m. Where m is most of
N, e(m) is no measure of that. Therefore s comes from the largest size up to N/4. An estimate with error E on
the same rows has the error √(E² − e² + s²) as for a new sample. Excess risks add as they are.

To first order, each repetition moves a mean error by its *move*, and the squares of the moves add up to the
squared standard error. Cells share their rows, so moves of two cells add repetition by repetition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from reports.cells import Row, cells_of, errors_of
from reports.page import StudyPage

# Errors to this power add; of other metrics a page has no errors as for a new sample.
_POWERS = {"l2_error": 2, "rms_error": 2, "excess_risk": 1}
_SMALL = 0.25  # the maximum share of rows at which the error of a subsample estimates that of a new sample
_DRIFT = (0, 0)  # in place of a size and a repetition: how far sizes up to N/4 disagree

Moves = Mapping[str, pd.Series]  # cell → its moves by size and repetition


@dataclass(frozen=True)
class PageCells:
    """Cells as a page shows them, their moves, and the panels whose errors are as for a new sample."""

    cells: pd.DataFrame
    moves: Moves
    of_new_sample: frozenset[str]


def page_cells(summary: pd.DataFrame, results: pd.DataFrame, page: StudyPage) -> PageCells:
    """Return the cells of a study as its page shows them, from its summary and its results."""
    cells = cells_of(summary, page)
    rows = results[(results["metric"] == page.metric) & (results["status"] == "ok")]
    moves = {str(cell): _moves_of(part) for cell, part in rows.groupby("cell", sort=False)}
    converted = frozenset[str]()
    if page.axis.column == "n" and page.metric in _POWERS:
        errors = errors_of(cells, page)
        for panel, part in errors[errors["answered"]].groupby("panel", sort=False):
            if _convert(cells, list(part.itertuples()), page, moves):
                converted |= {str(panel)}
        cells["error"] = cells["se"].where(np.isfinite(cells["se"]), np.inf)
    return PageCells(cells, moves, converted)


def standard_error(moves: pd.Series) -> float:
    return float(np.sqrt(np.square(moves).sum(skipna=False)))


def _moves_of(rows: pd.DataFrame) -> pd.Series:
    values = rows.set_index(["n", "replicate"])["value"].astype(float)
    n = len(values)
    return (values - values.mean()) / math.sqrt(n * (n - 1)) if n > 1 else values * math.nan


def _convert(cells: pd.DataFrame, rows: list[Row], page: StudyPage, moves: dict[str, pd.Series]) -> bool:
    """Write a panel's errors as for a new sample into its cells; return whether its sizes allow that."""
    population, power = page.population_of(rows[0].panel), _POWERS[page.metric]
    free = sorted((row for row in rows if row.role == "nonprivate"), key=lambda row: row.mean, reverse=True)
    base = {row.x: row for row in free}  # the best one of each size
    sizes = [x for x in sorted({row.x for row in rows}) if x < population]
    if not sizes or not base.keys() >= set(sizes):
        return False
    same = {x: [row for row in free if row.rank == base[x].rank] for x in sizes}
    samples = {x: _new_sample(same[x], x, population, power, moves) for x in sizes}
    known = {x: sample for x, sample in samples.items() if sample is not None}
    if len(known) < len(sizes):
        return False
    place = cells.index[cells["metric"] == page.metric]
    at = pd.Series(place, index=cells.loc[place, "cell"])
    found: dict[str, pd.Series] = {}
    for row in rows:
        if row.role == "zero" or row.x not in known:
            continue
        (sample, moved), e = known[row.x], base[row.x]
        less = sample - e.mean**power
        mean, low, high = (
            max(each**power + less, 0.0) ** (1 / power) for each in (row.mean, row.low, row.high)
        )
        own = moves[row.cell] * row.mean ** (power - 1)
        own = own.sub(moves[e.cell] * e.mean ** (power - 1), fill_value=0).add(moved, fill_value=0)
        found[row.cell] = own / (mean ** (power - 1) or math.nan)
        cells.loc[at[row.cell], ["mean", "se", "low", "high"]] = (
            mean,
            standard_error(found[row.cell]),
            low,
            high,
        )
    moves |= found
    return True


def _new_sample(
    rows: list[Row], m: float, population: int, power: int, moves: Moves
) -> tuple[float, pd.Series] | None:
    """Return s(m) to a power and its moves, over that power; None if no two sizes are small enough.

    Its moves have the drift from the next smaller size beyond sampling error.
    """
    small = sorted(
        (row for row in rows if row.x <= min(m, _SMALL * population) and row.mean > 0), key=lambda r: r.x
    )
    if not small or (len(small) < 2 and small[-1].x < m):
        return None
    scales = [row.x / (1 - row.x / population) / m for row in small[-2:]]
    last, scale = small[-1], scales[-1]
    sample = scale * last.mean**power
    moved = scale * last.mean ** (power - 1) * moves[last.cell]
    if last.x < m:
        logs = [
            math.log(each * row.mean**power) / power for each, row in zip(scales, small[-2:], strict=True)
        ]
        spread = sum((row.error / row.mean) ** 2 for row in small[-2:])
        drift = math.sqrt(max((logs[-1] - logs[0]) ** 2 - spread, 0.0))
        moved = pd.concat([moved, pd.Series([sample * drift], pd.MultiIndex.from_tuples([_DRIFT]))])
    return sample, moved
