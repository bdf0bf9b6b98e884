"""An error in three steps: of sampling, of the method with next to no noise, and with the noise of privacy.

The method at ε = 1,000 has next to no noise. All three errors are in the page's currency, see `new_sample`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from data.results.table import LIMIT
from reports.cells import Row, errors_of
from reports.new_sample import Moves, PageCells, standard_error
from reports.page import StudyPage
from reports.ranking import LOGARITHMS, Estimate, PageHeadline, measured

_HALF = 0.5  # of the rows


@dataclass(frozen=True)
class Parts:
    """Errors after each step; ``method`` is None without a cell at ε = 1,000, ``sampling`` without a rival.

    ``factor`` is what privacy multiplies the method's error by. Without such a cell, that is noise and method
    together. If not ``is_proved``, the method certifies no finite ε at ε = 1,000.
    """

    private: Estimate
    method: Estimate | None
    sampling: Estimate | None
    factor: Estimate
    is_proved: bool = True

    @property
    def steps(self) -> list[tuple[str, Estimate, float]]:
        """The name of each known step, the error after it, and what it adds."""
        named = (("sampling", self.sampling), ("method", self.method), ("privacy", self.private))
        known = [(name, each) for name, each in named if each is not None]
        before = [0.0, *(each.value for _, each in known)]
        return [(name, each, each.value - less) for (name, each), less in zip(known, before, strict=False)]

    @property
    def may_be_none(self) -> bool:
        """Whether the noise of privacy cannot be distinguished from no noise."""
        return not self.factor.limits[0] > 1


def parts_of(head: PageHeadline, page: StudyPage, measured_cells: PageCells) -> Parts | None:
    """Return the steps of the best private error at a headline; None where there is nothing to compare."""
    best, rival, moves = head.ranking.best, head.ranking.non_private, measured_cells.moves
    if best is None or not math.isfinite(best.se):
        return None
    population = page.population_of(best.panel)
    if best.panel not in measured_cells.of_new_sample and head.x > _HALF * population > 0:
        rival = None  # on nearly the rows that it is compared with, its error is no sampling error
    limit = limit_row(measured_cells.cells, page, best)
    below = limit or rival
    if below is None:
        return None
    private, other = _plain(measured(best), page), _plain(measured(below), page)
    ratio = private.over(other).value
    # Both have the same rows, so what these do to both counts once.
    spread = _relative(best, moves, page) - _relative(below, moves, page)
    return Parts(
        private,
        other if limit else None,
        _plain(measured(rival), page) if rival else None,
        Estimate(ratio, standard_error(spread)),
        limit is None or math.isfinite(limit.certified),
    )


def limit_row(cells: pd.DataFrame, page: StudyPage, row: Row) -> Row | None:
    """Return the cell of the same method, panel and size at ε = 1,000."""
    rows = errors_of(cells, page)
    same = (rows["epsilon"] == LIMIT) & rows["answered"] & (rows["x"] == row.x)
    for name in ("estimator", "form", "calibration", "panel", "n"):
        same &= rows[name] == getattr(row, name)
    return next(rows[same].itertuples(), None)


def _plain(error: Estimate, page: StudyPage) -> Estimate:
    """Return an error of which a metric is the logarithm of a power."""
    power = LOGARITHMS.get(page.metric)
    return Estimate(math.exp(error.value / power), error.error / power) if power else error


def _relative(row: Row, moves: Moves, page: StudyPage) -> np.ndarray:
    """Return the moves of the logarithm of an error."""
    return np.asarray(moves[row.cell] / (LOGARITHMS.get(page.metric) or row.mean or math.nan))
