"""Rank estimators at one size: values, no words.

An error is *clearly below* another if it lies more than two standard errors of the difference below it. An
unknown standard error, that of a single repetition, is infinite: nothing is clearly below or above.

The best private error has three parts: sampling, the method, and the noise of privacy. At ε = 1,000 there is
next to no noise. All three errors are in the page's currency, see `new_sample`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from data.results.table import LIMIT
from reports.cells import ROUNDING, Row, Setting, errors_of, rows_at, settings_of, size_at
from reports.new_sample import Moves, PageCells, standard_error
from reports.page import StudyPage

SHARES = ("misclassification",)  # metrics that are shares of rows, which people compare as they are
LOGARITHMS = {"log_squared_error": 2.0}  # metrics that are logarithms of a power of an error
_FEW_FAILED = 0.1  # of the repetitions: with more, the mean over the others is not compared
_STRONGEST_FIRST = ("local", "user", "central")
_HALF = 0.5  # of the rows: with more, an error is no sampling error


class Estimate(NamedTuple):
    """A number and its relative standard error, that of its logarithm where it is positive."""

    value: float
    deviation: float = 0.0

    @property
    def error(self) -> float:
        return abs(self.value) * self.deviation

    @property
    def limits(self) -> tuple[float, float]:
        """About 95% limits."""
        spread = 2 * self.deviation if math.isfinite(self.deviation) else 0.0
        return self.value * math.exp(-spread), self.value * math.exp(spread)

    def over(self, other: Estimate) -> Estimate:
        """Return the ratio to another estimate, as if both were independent."""
        ratio = self.value / other.value if other.value > 0 else math.nan
        return Estimate(ratio, math.hypot(self.deviation, other.deviation))

    def is_below(self, other: Estimate) -> bool:
        """Return whether it is clearly below another estimate."""
        least = 2 * math.hypot(self.error, other.error) + ROUNDING * abs(other.value)
        return other.value - self.value > least


UNKNOWN = Estimate(math.nan)


def measured(row: Row) -> Estimate:
    return Estimate(row.mean, row.error / abs(row.mean) if row.mean else 0.0)


@dataclass(frozen=True)
class Ranking:
    """The ranking at one size: private rows from best to worst, the best non-private one, the zero vector.

    If some estimates have a stronger guarantee than others, `private` holds only those with the strongest.
    Local is stronger than user-level, and user-level than central. An estimator that fails in more than a
    tenth of the repetitions is ranked only if all do.
    """

    private: tuple[Row, ...]
    non_private: Row | None
    zero: Estimate

    @property
    def best(self) -> Row | None:
        """The private row with the smallest mean error."""
        return self.private[0] if self.private else None

    @property
    def tied(self) -> tuple[Row, ...]:
        """The private rows whose errors lie within two standard errors of the difference from the best.

        Repetitions count as independent. Estimators share their rows, so too many are named, not too few.
        """
        if self.best is None:
            return ()
        best = self.best
        return tuple(row for row in self.private[1:] if not measured(best).is_below(measured(row)))

    @property
    def best_or_tied(self) -> tuple[Row, ...]:
        return (self.best, *self.tied) if self.best else ()

    def beats_zero(self, estimate: Estimate) -> bool:
        """Return whether an error is clearly below that of zero; true where zero did not run."""
        return math.isnan(self.zero.value) or estimate.is_below(self.zero)

    @property
    def any_beats_zero(self) -> bool:
        return any(self.beats_zero(measured(row)) for row in self.private)


def rank(rows: Sequence[Row], x: float) -> Ranking:
    """Rank the rows of a setting by mean error at size `x`."""
    ordered = sorted(
        (row for row in rows if row.x == x and row.answered), key=lambda row: float(f"{row.mean:.9g}")
    )
    models = {row.privacy_model for row in ordered if row.role == "private"}
    strongest = next((model for model in _STRONGEST_FIRST if model in models), "")
    private = [row for row in ordered if row.role == "private" and row.privacy_model == strongest]
    without = _seldom_failed([row for row in ordered if row.role == "nonprivate"])
    zero = [row for row in ordered if row.role == "zero"]
    zero = zero or [row for row in rows if row.role == "zero" and row.answered]
    return Ranking(
        tuple(_seldom_failed(private)),
        without[0] if without else None,
        measured(zero[0]) if zero else UNKNOWN,
    )


def _seldom_failed(rows: list[Row]) -> list[Row]:
    """Return the rows with few failures, or all if there are none."""
    return [row for row in rows if row.n_failed <= _FEW_FAILED * (row.n_ok + row.n_failed)] or rows


@dataclass(frozen=True)
class PageHeadline:
    """The setting and the size that a page is about, the rows of the setting, and their ranking there."""

    where: Setting
    x: float
    rows: Sequence[Row]
    ranking: Ranking

    @property
    def can_be_learned(self) -> bool:
        """Whether even the estimate without privacy is clearly better than zero."""
        other = self.ranking.non_private
        return other is None or self.ranking.beats_zero(measured(other))

    @property
    def at_x(self) -> list[Row]:
        """The rows at the headline's size, in the order of their lines."""
        return [row for row in self.rows if row.x == self.x]


def headline_of(cells: pd.DataFrame, page: StudyPage) -> PageHeadline | None:
    """Return the headline of a page; None without private rows."""
    errors = errors_of(cells, page)
    where = next(iter(settings_of(errors, page)), None)
    rows = [] if where is None else rows_at(errors, where)
    x = size_at(rows, page)
    if where is None or x is None:
        return None
    return PageHeadline(where, x, rows, rank(rows, x))


def index_errors(head: PageHeadline, page: StudyPage) -> dict[str, tuple[float, float]]:
    """Return the errors that the index compares, each with its standard error: those that are known."""
    ranking = head.ranking
    rows = {"private": ranking.best, "without": ranking.non_private}
    errors = {key: measured(row) for key, row in rows.items() if row is not None} | {"zero": ranking.zero}
    if power := LOGARITHMS.get(page.metric):
        errors = {k: Estimate(math.exp(e.value / power), e.error / power) for k, e in errors.items()}
    known = {key: each for key, each in errors.items() if 0 < each.value < math.inf}
    return {key: (each.value, each.error) for key, each in known.items()}


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
