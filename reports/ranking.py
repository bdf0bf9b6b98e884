"""Rank estimators at one size, and measure the cost of privacy there: values, no words.

An error is *clearly below* a number if it lies more than two standard errors below it.

m of N rows, drawn without replacement, miss the estimate from all N rows by e(m). A new sample of m rows
misses its population's value by s(m) = e(m) / √(1 − m/N), which falls with the root of m. Where m is most of
N, e(m) is no measure of that, so s is taken from the largest size up to N/4. A private estimate with error E
adds p = √(E² − e²); as for a new sample its error is √(s² + p²).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from reports.results import SIGNS
from reports.series import Point, Series, Setting, View

SHARES = ("misclassification",)  # metrics that are shares of rows, which people compare as they are
LOGARITHMS = {"log_squared_error": 2.0}  # metrics that are logarithms of a power of an error
_LOST_SIGNS = 0.05  # on average, which is next to none
_STRONGEST_FIRST = ("local", "user", "central")
_FEWEST_SIZES = 3
_SMALL = 0.25  # of the rows: up to which the error of a part tells that of a new sample
HALF = 0.5  # of the rows: beyond it, an error without privacy is no measure of sampling error
MOST_LINES = 5  # of a chart, before its reader adds more


@dataclass(frozen=True)
class Ranking:
    """The ranking at one size: private series from best to worst, the best non-private one, the zero vector.

    If some estimators have a stronger guarantee than others, `private` holds only those with the strongest,
    and `weaker` the best of the others. Local is stronger than user-level, and user-level than central.
    """

    private: tuple[tuple[Series, Point], ...]
    weaker: tuple[Series, Point] | None
    non_private: tuple[Series, Point] | None
    zero: float

    @property
    def best(self) -> tuple[Series, Point] | None:
        """The private series with the smallest mean error."""
        return self.private[0] if self.private else None

    @property
    def tied(self) -> tuple[Series, ...]:
        """The private series whose errors lie within two standard errors of the difference from the best.

        Repetitions count as independent. Estimators share their rows, so too many are named, not too few.
        """
        if self.best is None:
            return ()
        best = self.best[1]
        margins = [(s, p.mean - best.mean, 2 * math.hypot(p.error, best.error)) for s, p in self.private[1:]]
        return tuple(s for s, gap, margin in margins if gap <= margin)

    @property
    def n_worse_than_zero(self) -> int:
        return sum(point.mean > self.zero for _, point in self.private)

    @property
    def best_or_tied(self) -> tuple[Series, ...]:
        return (self.best[0], *self.tied) if self.best else ()


def rank(series: Sequence[Series], x: float) -> Ranking:
    """Rank the series of a setting by mean error at size `x`."""
    answered = [(s, p) for s in series if (p := s.at(x)) is not None and p.answered]
    ordered = sorted(answered, key=lambda pair: pair[1].mean)
    models = {s.info.privacy_model for s in series if s.role == "private"}
    strongest = next((model for model in _STRONGEST_FIRST if model in models), "")
    every = [pair for pair in ordered if pair[0].role == "private"]
    weaker = [pair for pair in every if pair[0].info.privacy_model != strongest]
    without = [pair for pair in ordered if pair[0].role == "nonprivate"]
    zero = [p.mean for s, p in ordered if s.role == "zero"]
    zero = zero or [p.mean for s in series if s.role == "zero" for p in s.points if p.answered]
    return Ranking(
        tuple(pair for pair in every if pair[0].info.privacy_model == strongest),
        weaker[0] if weaker else None,
        without[0] if without else None,
        zero[0] if zero else math.nan,
    )


def first_lines(view: View, where: Setting, x: float) -> tuple[Series, ...]:
    """Return the lines that a chart begins with, in the order of all.

    These lines are chosen:

    - Zero.
    - The best estimate without privacy, unless the line of a new sample replaces it.
    - The best private one.
    - The best one with the paper's noise.
    - The study's own subject.
    - The next best private ones.
    """
    every = view.series(where)
    ranking = rank(every, x)
    printed = [s for s, _ in ranking.private if s.calibration == "paper"]
    about = [s for s, _ in ranking.private if s.info.name == view.page.about]
    best = [ranking.best[0]] if ranking.best else []
    without = [ranking.non_private[0]] if ranking.non_private else []
    new_sample = new_sample_error(view, where, x) is not None
    wanted = [s for s in every if s.role == "zero"] + best + ([] if new_sample else without)
    wanted += [*printed[:1], *about[:1]]
    for s, _ in ranking.private:
        if s.info.name not in {other.info.name for other in wanted}:
            wanted.append(s)
    most = MOST_LINES - new_sample
    kept = list(dict.fromkeys(wanted))[:most] or every[:most]
    return tuple(s for s in every if s in kept)


def clearly_below(point: Point, value: float) -> bool:
    """Return whether a mean error lies below a value by more than two standard errors."""
    return point.mean + 2 * point.error < value


def clearly_above(point: Point, value: float) -> bool:
    """Return whether a mean error lies above a value by more than two standard errors."""
    return point.mean - 2 * point.error > value


class Estimate(NamedTuple):
    """A positive number and the standard error of its logarithm."""

    value: float
    deviation: float = 0.0

    @property
    def error(self) -> float:
        return self.value * self.deviation

    @property
    def limits(self) -> tuple[float, float]:
        """About 95% limits."""
        spread = 2 * self.deviation if math.isfinite(self.deviation) else 0.0
        return self.value * math.exp(-spread), self.value * math.exp(spread)

    def over(self, other: Estimate) -> Estimate:
        """Return the ratio to another estimate, as if both were independent."""
        ratio = self.value / other.value if other.value > 0 else math.nan
        return Estimate(ratio, math.hypot(self.deviation, other.deviation))


UNKNOWN = Estimate(math.nan)


def measured(point: Point) -> Estimate:
    return Estimate(point.mean, point.error / point.mean if point.mean > 0 else 0.0)


def new_sample_error(view: View, where: Setting, m: float) -> Estimate | None:
    """Return the error without privacy of a new sample of m rows, about its population.

    Its deviation adds the drift from the next smaller size beyond sampling error. None where errors are not
    distances to the estimate from all rows, or no two sizes are small enough.
    """
    population = view.page.population[0]
    if not m < population:
        return None
    best = rank(view.series(where), m).non_private
    if best is None:
        return None
    points = [p for p in best[0].points if p.answered and p.mean > 0 and p.x <= min(m, _SMALL * population)]
    if not points or (len(points) < 2 and points[-1].x < m):
        return None
    errors = [p.mean * math.sqrt(p.x / (1 - p.x / population) / m) for p in points[-2:]]
    spreads = [measured(p).deviation for p in points[-2:]]
    drift = math.log(errors[-1] / errors[0]) ** 2 - sum(each**2 for each in spreads)
    return Estimate(errors[-1], math.hypot(spreads[-1], math.sqrt(max(drift, 0)) if points[-1].x < m else 0))


def privacy_part(view: View, where: Setting, point: Point) -> Estimate:
    """Return p = √(E² − e²): what privacy adds to the error e of the same rows without it."""
    best = rank(view.series(where), point.x).non_private
    mean, error = (best[1].mean, best[1].error) if best else (0.0, 0.0)
    part = math.sqrt(max(point.mean**2 - mean**2, 0.0))
    spread = math.hypot(point.mean * point.error, mean * error)
    return Estimate(part, spread / part**2 if part > 0 else 0.0)


def first_below(
    wanted: float, points: Sequence[tuple[float, float, float]], deviation: float = 0.0
) -> tuple[float, float]:
    """Return about 95% limits of the x at which errors first fall to a wanted error.

    A point is (x, error, standard error); ``deviation`` is the standard error of the wanted error's
    logarithm. Between points on log scales; infinite beyond the last one.
    """
    known = sorted(
        (math.log(x), math.log(error), se / error if math.isfinite(se) else 0.0)
        for x, error, se in points
        if math.isfinite(error) and error > 0
    )
    if len(known) < 2 or not wanted > 0:
        return math.inf, math.inf
    level = math.log(wanted)
    if known[0][1] <= level:
        return math.exp(known[0][0]), math.exp(known[0][0])
    for (x, error, s), (later, less, t) in pairwise(known):
        if less <= level:
            share = (error - level) / (error - less)
            off = 2 * math.hypot((1 - share) * s, share * t, deviation) * (later - x) / (error - less)
            at = x + share * (later - x)
            return math.exp(at - off), math.exp(at + off)
    return math.inf, math.inf


def fitted_slope(points: Sequence[tuple[float, float, float]]) -> tuple[float, float] | None:
    """Return the slope of log value against log size by least squares, and its standard error.

    Points are (size, value, standard error of the value); None for fewer than three sizes.
    """
    usable = [(x, y, se) for x, y, se in points if x > 0 and y > 0 and math.isfinite(y)]
    if len({x for x, _, _ in usable}) < _FEWEST_SIZES:
        return None
    x, y, se = (np.array(column, dtype=float) for column in zip(*usable, strict=True))
    centered = np.log(x) - np.log(x).mean()
    weights = centered / (centered**2).sum()
    return float(weights @ np.log(y)), float(np.sqrt(((weights * np.nan_to_num(se) / y) ** 2).sum()))


@dataclass(frozen=True)
class CostOfPrivacy:
    """The cost of privacy at a setting and a size; NaN where a number is not known.

    `private` and `without` are the best errors with and without privacy. If `of_new_sample`, both are as for
    a new sample. `worth` rows without privacy are as accurate as `rows` with privacy.
    """

    ranking: Ranking
    private: Estimate
    without: Estimate
    factor: Estimate
    rows: float
    worth: Estimate = UNKNOWN
    of_new_sample: bool = False
    signs: int | None = (
        None  # coefficients that keep the sign that they have without privacy; None: not counted
    )

    @property
    def beats_zero(self) -> bool:
        """Whether the best private estimate is clearly better than zero; true where zero did not run."""
        best, zero = self.ranking.best, self.ranking.zero
        return best is not None and (math.isnan(zero) or clearly_below(best[1], zero))

    @property
    def can_be_learned(self) -> bool:
        """Whether even the estimate without privacy is better than zero."""
        return not self.without.value >= self.ranking.zero


def cost_at(view: View, where: Setting, x: float) -> CostOfPrivacy:
    """Return what privacy costs at a setting and a size."""
    ranking = rank(view.series(where), x)
    if ranking.best is None:
        return CostOfPrivacy(ranking, UNKNOWN, UNKNOWN, UNKNOWN, math.nan)
    point, page = ranking.best[1], view.page
    private = measured(point)
    without = measured(ranking.non_private[1]) if ranking.non_private else UNKNOWN
    sample = new_sample_error(view, where, x)
    if sample is not None:
        error = math.hypot(sample.value, privacy_part(view, where, point).value)
        private, without = Estimate(error, point.error * point.mean / error**2), sample
    elif page.axis.column == "n" and x > HALF * page.population[0] > 0:
        without = UNKNOWN
    factor = private.over(without)
    if power := LOGARITHMS.get(page.metric):
        points = [pair[1].error for pair in (ranking.best, ranking.non_private) if pair]
        factor = Estimate(math.exp((private.value - without.value) / power), math.hypot(*points) / power)
    worth = UNKNOWN
    if _falls_with_the_root(view, ranking) and factor.value > 1:
        worth = Estimate(x / factor.value**2, 2 * factor.deviation)
    if worth.value < 2 * page.n_coefficients:  # with so few rows errors do not fall with the root
        worth = UNKNOWN
    signs = _kept_signs(view, point.cell)
    return CostOfPrivacy(ranking, private, without, factor, x, worth, sample is not None, signs)


def _falls_with_the_root(view: View, ranking: Ranking) -> bool:
    """Return whether errors without privacy fall with the root of the number of rows on the axis."""
    best, page = ranking.best, view.page
    of_rows = page.population[0] > 0 or (best is not None and best[0].info.privacy_model != "user")
    is_dense = best is not None and best[0].info.name not in page.sparse
    return page.metric == "l2_error" and page.axis.column == "n" and of_rows and is_dense


def _kept_signs(view: View, cell: str) -> int | None:
    """Return how many coefficients keep their signs, on average; all only where next to none is lost."""
    rows, of = view.others, view.page.n_coefficients
    right = rows.loc[(rows["metric"] == SIGNS) & (rows["cell"] == cell), "mean"]
    if of < 2 or right.empty:
        return None
    kept = float(right.iloc[0])
    return of if of - kept <= _LOST_SIGNS else min(round(kept), of - 1)


def enough_epsilon(view: View) -> dict[str, Any]:
    """Return from which ε on privacy adds less error than sampling; empty if unknown."""
    where, m = view.headline, view.headline_size
    if where is None or m is None or (sample := new_sample_error(view, where, m)) is None:
        return {}
    parts: Mapping[float, Estimate] = {
        each.epsilon: privacy_part(view, each, best[1])
        for each in view.settings
        if (each.delta_rule, each.panel) == (where.delta_rule, where.panel)
        and (best := rank(view.series(each), m).best) is not None
    }
    if not parts:
        return {}
    # An ε counts only if no larger one adds more.
    largest = {e: max(parts[other].value for other in parts if other >= e) for e in parts}
    points = [(e, value, parts[e].error) for e, value in largest.items()]
    needed = first_below(sample.value, points, sample.deviation)
    if len(parts) == 1 and all(part.value <= sample.value for part in parts.values()):
        needed = (min(parts), min(parts))
    return {"m": m, "units": view.page.population[1], "sample": sample, "needed": needed,
            "first": min(parts), "last": max(parts)}  # fmt: skip


def rows_for_the_same(view: View) -> dict[str, Any]:
    """Return how many rows without privacy are as accurate as the headline's with it; empty if unknown."""
    where, m = view.headline, view.headline_size
    if where is None or m is None:
        return {}
    cost = cost_at(view, where, m)
    if (
        not cost.of_new_sample
        or cost.ranking.best is None
        or not cost.factor.value > 1
        or not cost.beats_zero
    ):
        return {}
    best = cost.ranking.best[0]
    points = []
    for point in best.points:
        sample = new_sample_error(view, where, point.x) if point.answered else None
        if sample is not None:
            error = math.hypot(sample.value, privacy_part(view, where, point).value)
            points.append((point.x, error, point.error * point.mean / error))
    needed = first_below(cost.without.value, points, cost.without.deviation)
    return {"epsilon": where.epsilon, "m": m, "units": view.page.population[1], "worth": cost.worth,
            "needed": needed, "last": max(x for x, _, _ in points)}  # fmt: skip
