"""An error in three steps: of sampling, of the method without noise, and with the noise of privacy.

The method at ε = 1,000 has next to no noise; L is its error, E that at the headline's ε, e the best one without
privacy on the same rows, and s that of a new sample. Squares of distances add, and so do shares and excess
losses themselves: s^k, then s^k + L^k − e^k, then s^k + E^k − e^k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from reports.cells import LIMIT, Row, errors_of
from reports.page import StudyPage
from reports.ranking import LOGARITHMS, Estimate, PageHeadline, measured, new_sample_error

_ADDED = {"misclassification": 1, "excess_risk": 1, "excess_loss": 1}  # errors that add as they are; else 2


@dataclass(frozen=True)
class Parts:
    """Errors after each step; ``method`` is None without a cell at ε = 1,000, ``sampling`` without a rival.

    ``factor`` is what privacy multiplies the method's error by; without such a cell, noise and method together.
    """

    private: Estimate
    method: Estimate | None
    sampling: Estimate | None
    factor: Estimate

    @property
    def steps(self) -> list[tuple[str, Estimate, float]]:
        """The name of each known step, the error after it, and what it adds."""
        named = (("sampling", self.sampling), ("method", self.method), ("privacy", self.private))
        known = [(name, each) for name, each in named if each is not None]
        before = [0.0, *(each.value for _, each in known)]
        return [(name, each, each.value - less) for (name, each), less in zip(known, before, strict=False)]

    @property
    def may_be_none(self) -> bool:
        return self.factor.limits[0] <= 1


def parts_of(head: PageHeadline, page: StudyPage, cells: pd.DataFrame) -> Parts | None:
    """Return the steps of the best private error at a headline; None where there is nothing to compare."""
    ranking = head.cost.ranking
    if ranking.best is None or not math.isfinite(ranking.best.se):
        return None
    k = _ADDED.get(page.metric, 2)
    rival = _plain(measured(ranking.non_private), page) if ranking.non_private else None
    sample = new_sample_error(head.rows, head.x, page)
    known = math.isfinite(head.cost.without.value)
    sampling = sample or (rival if known else None)
    private = _plain(measured(ranking.best), page)
    at_limit = limit_row(cells, page, ranking.best)
    method = _plain(measured(at_limit), page) if at_limit is not None else None
    if sampling is None and method is None:
        return None
    ends = [_after(sampling, rival, each, k) if each is not None else None for each in (private, method)]
    below = ends[1] or sampling
    assert ends[0] is not None and below is not None
    # What two ends share, sampling, moves them together: its error counts where they differ.
    share = 1 - (below.value / ends[0].value) ** k if ends[0].value else 0.0
    own = [private.error * private.value ** (k - 1) / ends[0].value ** k if ends[0].value else 0.0]
    own += [method.error * method.value ** (k - 1) / below.value**k] if method and below.value else []
    common = (sampling.deviation if sampling else 0.0) * (abs(share) if method else 1.0)
    factor = Estimate(ends[0].value / below.value if below.value else math.nan, math.hypot(*own, common))
    return Parts(ends[0], ends[1], sampling, factor)


def limit_row(cells: pd.DataFrame, page: StudyPage, row: Row) -> Row | None:
    """Return the cell of the same method, panel, size and rule for δ at ε = 1,000."""
    rows = errors_of(cells, page)
    same = (rows["epsilon"] == LIMIT) & rows["answered"] & (rows["rank"] == row.rank) & (rows["x"] == row.x)
    same &= (rows["panel"] == row.panel) & (rows["delta_rule"] == row.delta_rule) & (rows["n"] == row.n)
    return next(rows[same].itertuples(), None)


def _plain(error: Estimate, page: StudyPage) -> Estimate:
    """Return an error of which a metric is the logarithm of a power."""
    power = LOGARITHMS.get(page.metric)
    return Estimate(math.exp(error.value / power), error.error / power) if power else error


def _after(sampling: Estimate | None, rival: Estimate | None, error: Estimate, k: int) -> Estimate:
    """Return an error as for a new sample: that of the same rows is taken out, and a new sample's put in."""
    if sampling is None or rival is None or sampling == rival:
        return error
    total = max(sampling.value**k + error.value**k - rival.value**k, 0.0)
    spread = math.hypot(*(each.error * each.value ** (k - 1) for each in (sampling, error, rival)))
    return Estimate(total ** (1 / k), spread / total if total else 0.0)
