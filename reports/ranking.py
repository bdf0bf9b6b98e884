"""Rank estimators at one size, and measure the cost of privacy there: values, no words.

An error is *clearly below* another if it lies more than two standard errors of the difference below it. An
unknown standard error, that of a single repetition, is infinite: nothing is clearly below or above.

m of N rows, drawn without replacement, miss the estimate from all N rows by e(m). A new sample of m rows
misses its population's value by s(m) = e(m) / √(1 − m/N), which falls with the root of m. Where m is most of
N, e(m) is no measure of that, so s is taken from the largest size up to N/4. A private estimate with error E
adds p = √(E² − e²); as for a new sample its error is √(s² + p²).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from reports.cells import ROUNDING, Row, Setting, errors_of, rows_at, settings_of, size_at
from reports.page import StudyPage

SHARES = ("misclassification",)  # metrics that are shares of rows, which people compare as they are
LOGARITHMS = {"log_squared_error": 2.0}  # metrics that are logarithms of a power of an error
_NOTHING = 1.15  # a factor surely below it is said to cost next to nothing
_LOST_SIGNS = 0.05  # on average, which is next to none
_FEW_FAILED = 0.1  # of the repetitions: with more, the mean over the others is not compared
_STRONGEST_FIRST = ("local", "user", "central")
_SMALL = 0.25  # the maximum share of rows at which the error of a subsample estimates that of a new sample
_LEAST_PART = 1e-3  # of the sampling error: what privacy adds is not told from nothing below it
HALF = 0.5  # of the rows: beyond it, an error without privacy is no measure of sampling error
MOST_LINES = 5  # of a chart, before its reader adds more


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


def first_lines(rows: Sequence[Row], x: float, page: StudyPage) -> list[str]:
    """Return the names of the lines that a chart begins with: zero, the best ones, and the page's subject.

    The subject is shown with its paper's calibration and with the tight one, in the same form. Without a
    subject, the best estimate with a paper's calibration is shown.
    """
    ranking, every = rank(rows, x), list(dict.fromkeys(row.line for row in rows))
    new_sample = new_sample_error(rows, x, page) is not None
    about = [row for row in ranking.private if row.estimator == page.about]
    printed = [row for row in (*about, *ranking.private) if row.calibration == "paper"][:1]
    same_form = [row for row in about if row.form in {each.form for each in printed}]
    tight = [row for row in (*same_form, *about) if row.calibration == "tight"][:1] or about[:1]
    preferred = [row.line for row in rows if row.role == "zero"][:1]
    preferred += [ranking.best.line] if ranking.best else []
    preferred += [ranking.non_private.line] if ranking.non_private and not new_sample else []
    preferred += [row.line for row in (*printed, *tight)]
    known = {row.estimator for row in rows if row.line in preferred}
    for row in ranking.private:
        if row.estimator not in known:
            preferred.append(row.line)
            known.add(row.estimator)
    most = MOST_LINES - new_sample
    lines = list(dict.fromkeys(preferred))[:most] or every[:most]
    return [line for line in every if line in lines]


def new_sample_error(rows: Sequence[Row], m: float, page: StudyPage) -> Estimate | None:
    """Return the error without privacy of a new sample of m rows, about its population.

    Its deviation adds the drift from the next smaller size beyond sampling error. None where errors are not
    distances to the estimate from all rows, or no two sizes are small enough.
    """
    population = page.population_of(rows[0].panel) if rows else 0
    best = rank(rows, m).non_private if m < population else None
    if best is None:
        return None
    known = [row for row in rows if row.rank == best.rank and row.answered and row.mean > 0]
    known = [row for row in known if row.x <= min(m, _SMALL * population)]
    if not known or (len(known) < 2 and known[-1].x < m):
        return None
    errors = [row.mean * math.sqrt(row.x / (1 - row.x / population) / m) for row in known[-2:]]
    spreads = [measured(row).deviation for row in known[-2:]]
    drift = math.log(errors[-1] / errors[0]) ** 2 - sum(each**2 for each in spreads)
    return Estimate(errors[-1], math.hypot(spreads[-1], math.sqrt(max(drift, 0)) if known[-1].x < m else 0))


def privacy_part(rows: Sequence[Row], row: Row) -> Estimate:
    """Return p = √(E² − e²): what privacy adds to the error e of the same rows without it."""
    best = rank(rows, row.x).non_private
    mean, error = (best.mean, best.error) if best else (0.0, 0.0)
    part = math.sqrt(max(row.mean**2 - mean**2, 0.0))
    spread = math.hypot(row.mean * row.error, mean * error)
    return Estimate(part, spread / part**2 if part > 0 else 0.0)


@dataclass(frozen=True)
class CostOfPrivacy:
    """The cost of privacy at a setting and a size; NaN where a number is not known.

    `private` and `without` are the best errors with and without privacy, `factor` their ratio, and `of_zero`
    that of zero's error to the private one. If `of_new_sample`, both errors are as for a new sample.
    """

    ranking: Ranking
    private: Estimate
    without: Estimate
    factor: Estimate
    of_zero: Estimate
    rows: float
    of_new_sample: bool = False

    @property
    def is_useful(self) -> bool:
        """Whether an estimate is clearly better than zero, with privacy and without it."""
        return self.ranking.any_beats_zero and self.can_be_learned

    @property
    def can_be_learned(self) -> bool:
        """Whether even the estimate without privacy is clearly better than zero."""
        return math.isnan(self.without.value) or self.ranking.beats_zero(self.without)


@dataclass(frozen=True)
class PageHeadline:
    """The setting and the size that a page is about, the rows of the setting, and the cost of privacy."""

    where: Setting
    x: float
    rows: Sequence[Row]
    cost: CostOfPrivacy

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
    return PageHeadline(where, x, rows, cost_at(rows, x, page, cells))


def cost_at(rows: Sequence[Row], x: float, page: StudyPage, cells: pd.DataFrame) -> CostOfPrivacy:
    """Return what privacy costs at a size of a setting's rows; ``cells`` count the signs."""
    ranking = rank(rows, x)
    best, other = ranking.best, ranking.non_private
    if best is None:
        return CostOfPrivacy(ranking, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, math.nan)
    private, without = measured(best), measured(other) if other else UNKNOWN
    sample = new_sample_error(rows, x, page)
    if sample is not None:
        error = math.hypot(sample.value, privacy_part(rows, best).value)
        private, without = Estimate(error, best.error * best.mean / error**2), sample
    elif page.axis.column == "n" and x > HALF * page.population_of(best.panel) > 0:
        without = UNKNOWN
    factor, of_zero = private.over(without), ranking.zero.over(private)
    if power := LOGARITHMS.get(page.metric):
        factor, of_zero = (
            Estimate(math.exp((one.value - other.value) / power), math.hypot(one.error, other.error) / power)
            for one, other in ((private, without), (ranking.zero, private))
        )
    return CostOfPrivacy(ranking, private, without, factor, of_zero, x, sample is not None)


def index_errors(head: PageHeadline, page: StudyPage) -> dict[str, tuple[float, float]]:
    """Return the errors that the index compares, each with its standard error: those that are known."""
    cost, ranking = head.cost, head.cost.ranking
    errors = {"private": cost.private, "without": cost.without, "zero": ranking.zero}
    if power := LOGARITHMS.get(page.metric):
        errors = {k: Estimate(math.exp(e.value / power), e.error / power) for k, e in errors.items()}
    known = {key: each for key, each in errors.items() if 0 < each.value < math.inf}
    return {key: (each.value, each.error) for key, each in known.items()}
