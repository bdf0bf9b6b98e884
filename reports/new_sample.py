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
_DRIFT = -1  # the place of a move that is no repetition's: how far sizes up to N/4 disagree
_NUMBERS = ["mean", "se", "low", "high"]

Moves = Mapping[str, np.ndarray]  # cell → a move for each size and repetition of the study, and the drift


@dataclass(frozen=True)
class PageCells:
    """Cells as a page shows them, their moves, and the panels whose errors are as for a new sample."""

    cells: pd.DataFrame
    moves: Moves
    of_new_sample: frozenset[str]


def page_cells(summary: pd.DataFrame, results: pd.DataFrame, page: StudyPage) -> PageCells:
    """Return the cells of a study as its page shows them, from its summary and its results."""
    cells = cells_of(summary, page)
    moves = _moves_of(results[(results["metric"] == page.metric) & (results["status"] == "ok")])
    converted = frozenset[str]()
    if page.axis.column == "n" and page.metric in _POWERS:
        errors = errors_of(cells, page)
        for panel, part in errors[errors["answered"]].groupby("panel", sort=False):
            new_numbers = _as_for_new_samples(list(part.itertuples()), page, moves)
            if new_numbers:
                cells.loc[list(new_numbers), _NUMBERS] = np.array(list(new_numbers.values()))
                converted |= {str(panel)}
        cells["error"] = cells["se"].where(np.isfinite(cells["se"]), np.inf)
    return PageCells(cells, moves, converted)


def standard_error(moves: np.ndarray) -> float:
    return float(np.sqrt(np.square(moves).sum()))


def _moves_of(rows: pd.DataFrame) -> dict[str, np.ndarray]:
    cell, names = pd.factorize(rows["cell"])
    size, sizes = pd.factorize(rows["n"])
    n_replicates = int(rows["replicate"].max()) + 1 if len(rows) else 0
    values = rows["value"].to_numpy(float)
    count = np.bincount(cell, minlength=len(names))
    mean = np.bincount(cell, values, len(names)) / count
    moves = np.zeros((len(names), len(sizes) * n_replicates + 1))
    with np.errstate(invalid="ignore", divide="ignore"):  # one repetition has no standard error
        scale = 1 / np.sqrt(count * (count - 1))
        moves[cell, size * n_replicates + rows["replicate"].to_numpy(int)] = (values - mean[cell]) * scale[
            cell
        ]
    return dict(zip(names, moves, strict=True))


def _as_for_new_samples(
    rows: list[Row], page: StudyPage, moves: dict[str, np.ndarray]
) -> dict[int, tuple[float, float, float, float]]:
    """Return mean, standard error and deciles of a panel's rows as for a new sample, by index; update moves.

    Empty where errors are no distances to the estimate from all rows, or a size has no error of a new sample.
    """
    population, power = page.population_of(rows[0].panel), _POWERS[page.metric]
    free = [row for row in rows if row.role == "nonprivate"]
    free = [
        row for row in free if row.estimator not in page.sparse
    ] or free  # whose errors fall with the root
    sizes = [x for x in sorted({row.x for row in rows}) if x < population]
    known: dict[float, tuple[float, np.ndarray]] = {}
    base: dict[float, Row] = {}
    for row in free:
        of_row = _new_sample([r for r in free if r.rank == row.rank], row.x, population, power, moves)
        if of_row is not None and row.x < population and of_row[0] < known.get(row.x, (math.inf,))[0]:
            known[row.x], base[row.x] = of_row, row  # the best one of each size
    if not sizes or len(known) < len(sizes):
        return {}
    by_row: dict[int, tuple[float, float, float, float]] = {}
    moved: dict[str, np.ndarray] = {}
    for row in rows:
        if row.role == "zero" or row.x not in known:
            continue
        (sample, of_sample), e = known[row.x], base[row.x]
        less = sample - e.mean**power
        mean, low, high = (max(v**power + less, 0.0) ** (1 / power) for v in (row.mean, row.low, row.high))
        own = moves[row.cell] * row.mean ** (power - 1) - moves[e.cell] * e.mean ** (power - 1) + of_sample
        moved[row.cell] = own / (mean ** (power - 1) or math.nan)
        by_row[row.Index] = mean, standard_error(moved[row.cell]), low, high
    moves |= moved
    return by_row


def _new_sample(
    rows: list[Row], m: float, population: int, power: int, moves: Moves
) -> tuple[float, np.ndarray] | None:
    """Return s(m) to a power and its moves, over that power; None if no size is small enough.

    Its moves have the drift from the next smaller size, if there is one, beyond sampling error.
    """
    small = [row for row in rows if row.x <= min(m, _SMALL * population) and row.mean > 0]
    small = sorted(small, key=lambda row: row.x)[-2:]
    if not small:
        return None
    last, scales = small[-1], [row.x / (1 - row.x / population) / m for row in small]
    sample = scales[-1] * last.mean**power
    moved = scales[-1] * last.mean ** (power - 1) * moves[last.cell]
    if last.x < m:
        logs = [math.log(each * row.mean**power) / power for each, row in zip(scales, small, strict=True)]
        spread = sum((row.error / row.mean) ** 2 for row in small)
        moved[_DRIFT] = sample * math.sqrt(max((logs[-1] - logs[0]) ** 2 - spread, 0.0))
    return sample, moved
