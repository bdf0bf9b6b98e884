"""Ranking of estimators at one size, and what privacy costs there: as a factor and as a number of rows.

An answer is *clearly better* than another number where its mean error lies below it by more than two standard
errors.

A subsample of m of N rows, drawn without return, misses their answer by e(m) on average. Rows drawn from a
large population miss its answer by more, s(m) = e(m) / √(1 − m/N). Where m is most of N, that does not hold
for answers that few rows decide, for these rows are hardly ever left out. So beyond N/4, s is taken to fall
with the root of m. A private estimate of error E adds p = √(E² − e²): privacy's part of it, which is compared
with s as an ε and as a number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from reports.results import SIGNS
from reports.series import Point, Series, Setting, View
from reports.writing import error_bar, render_sentence

SHARES = ("misclassification",)  # metrics that are shares of rows, which people compare as they are
LOGARITHMS = {"log_squared_error": 2.0}  # metrics that are logarithms of a power of an error
_BEYOND = 16.0  # how far beyond the largest size errors are followed
_LOST = 0.05  # signs on average, which is next to none
_SAMPLING = 0.5  # errors that chance alone causes fall with the root of the rows, and all others come to that
_STRONGEST_FIRST = ("local", "user", "central")
_FEWEST_SIZES = 3
_BEYOND_EPSILON = 4.0  # how far beyond the largest ε
_OCTAVE = math.log(2) - 1e-9
_STEEPEST = 1.0  # no error falls faster than 1/n, which that of the noise in a mean does
_LEAST_DEVIATION = 1e-6
_SMALL = 0.25  # of the rows: up to which a part tells the error of rows of a large population


@dataclass(frozen=True)
class Ranking:
    """The ranking at one size: private series from best to worst, the best non-private one, the zero vector.

    Where some keep a stronger promise than others, `private` holds the strongest one's only (local, where
    nobody is trusted, before user-level, before central), and `weaker` the best of the others.
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
    def deviation(self) -> float:
        """The standard error of the logarithm of the best error without privacy."""
        return log_deviation(self.non_private[1], self.non_private[1].mean) if self.non_private else 0.0

    @property
    def worse_than_zero(self) -> tuple[Series, ...]:
        return tuple(s for s, p in self.private if p.mean > self.zero)


def rank(series: Sequence[Series], x: float) -> Ranking:
    """Rank the series of a setting by mean error at size `x`."""
    answered = [(s, p) for s in series if (p := s.at(x)) is not None and p.answered]
    ordered = sorted(answered, key=lambda pair: pair[1].mean)
    models = {s.info.privacy_model for s in series if s.role == "private"}
    promise = next((model for model in _STRONGEST_FIRST if model in models), "")
    every = [pair for pair in ordered if pair[0].role == "private"]
    private = tuple(pair for pair in every if pair[0].info.privacy_model == promise)
    weaker = [pair for pair in every if pair[0].info.privacy_model != promise]
    without = [pair for pair in ordered if pair[0].role == "nonprivate"]
    zero = [pair[1].mean for pair in ordered if pair[0].role == "zero"]
    if not zero:
        zero = [p.mean for s in series if s.role == "zero" for p in s.points if p.answered]
    return Ranking(
        private,
        weaker[0] if weaker else None,
        without[0] if without else None,
        zero[0] if zero else math.nan,
    )


MOST_LINES = 5  # of a chart, before its reader asks for more


def first_lines(view: View, where: Setting, x: float) -> tuple[Series, ...]:
    """Return the lines that a chart begins with, in the order of all.

    They are zero, the best answer without privacy, the best private one, the best one with the noise as
    printed, what the study is about, and the next best private ones of other estimators.
    """
    every = view.series(where)
    ranking = rank(every, x)
    printed = [s for s, _ in ranking.private if s.calibration == "paper"]
    about = [s for s, _ in ranking.private if s.info.name == view.page.about]
    best = [pair[0] for pair in (ranking.best, ranking.non_private) if pair]
    wanted = [*[s for s in every if s.role == "zero"], *best, *printed[:1], *about[:1]]
    for s, _ in ranking.private:
        if s.info.name not in {other.info.name for other in wanted}:
            wanted.append(s)
    kept = list(dict.fromkeys(wanted))[:MOST_LINES] or every[:MOST_LINES]
    return tuple(s for s in every if s in kept)


def best_or_tied(ranking: Ranking) -> tuple[Series, ...]:
    """Return the best private series and those that these repetitions cannot tell from it."""
    return (ranking.best[0], *tied_with_best(ranking)) if ranking.best else ()


def clearly_below(point: Point, value: float) -> bool:
    """Return whether a mean error lies below a value by more than two standard errors."""
    return point.mean + 2 * (point.se if math.isfinite(point.se) else 0.0) < value


def clearly_above(point: Point, value: float) -> bool:
    """Return whether a mean error lies above a value by more than two standard errors."""
    return point.mean - 2 * (point.se if math.isfinite(point.se) else 0.0) > value


def tied_with_best(ranking: Ranking) -> tuple[Series, ...]:
    """Return the private series that these repetitions cannot tell from the best one.

    Their mean errors lie within two standard errors of the difference, as if repetitions were independent:
    estimators that answer on the same rows differ by less than that, so that too many are named, not too few.
    """
    if ranking.best is None:
        return ()
    best = ranking.best[1]

    def margin(point: Point) -> float:
        return 2 * math.hypot(*(se if math.isfinite(se) else 0.0 for se in (point.se, best.se)))

    return tuple(s for s, point in ranking.private[1:] if point.mean - best.mean <= margin(point))


@dataclass(frozen=True)
class PopulationError:
    """An error without privacy about a large population, and the standard error of its logarithm."""

    mean: float
    deviation: float

    @property
    def se(self) -> float:
        return self.mean * self.deviation


def population_error(view: View, m: float) -> PopulationError | None:
    """Return the error of the best non-private estimate on m rows of a large population.

    It is e(k) / √(1 − k/N) √(k/m) at the largest size k below m and N/4. Its standard error counts
    repetitions, and what is off by more than these from the next smaller size. None where errors are not
    distances to the answer of all rows, or no two sizes are small enough.
    """
    population = view.page.population[0]
    best = rank(view.series(view.headline), m).non_private
    if best is None or not m < population:
        return None
    points = [p for p in best[0].points if p.answered and p.mean > 0 and p.x <= min(m, _SMALL * population)]
    if not points or (len(points) < 2 and points[-1].x < m):
        return None
    errors = [p.mean * math.sqrt(p.x / (1 - p.x / population) / m) for p in points[-2:]]
    chance = [log_deviation(p, p.mean) for p in points[-2:]]
    drift = math.log(errors[-1] / errors[0]) ** 2 - sum(each**2 for each in chance)
    return PopulationError(
        errors[-1], math.hypot(chance[-1], math.sqrt(max(drift, 0)) if points[-1].x < m else 0)
    )


def log_deviation(point: Point, error: float) -> float:
    """Return the standard error of the logarithm of an error, √(s² + p²) where it is about a population."""
    return point.se * point.mean / error**2 if math.isfinite(point.se) and error > 0 else 0.0


def privacy_part(view: View, error: float, m: float) -> float:
    """Return p(m) = √(E² − e²): what privacy adds to the error e(m) of the same rows without it."""
    best = rank(view.series(view.headline), m).non_private
    return math.sqrt(max(error**2 - (best[1].mean if best else 0.0) ** 2, 0.0))


Point3 = tuple[float, float, float]  # x, error, and the error's standard error


def first_below(
    wanted: float,
    points: Sequence[Point3],
    beyond: float = 1.0,
    *,
    deviation: float = 0.0,
    fades_to: float = math.inf,
) -> tuple[float, float]:
    """Return about 95 % limits of the x at which errors first fall to a wanted error.

    ``deviation`` is the standard error of the wanted error's logarithm.

    Between points on log scales. After the last one along the weighted fit of a power law to the last factor
    of two in x at least, never steeper than 1/x; the larger limit follows the power ``fades_to``, to which
    errors are known to come, if that is flatter. A limit is infinite beyond ``beyond`` times the last x.
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
    return _followed(level, known, math.log(beyond), fades_to, deviation)


def _followed(
    level: float, known: Sequence[Point3], most: float, fades_to: float, level_deviation: float
) -> tuple[float, float]:
    """Return the limits beyond the last of points (log x, log error, deviation)."""
    last = known[-1][0]
    near = max((x for x, _, _ in known if x <= last - _OCTAVE), default=-math.inf)
    x, error, deviation = np.array([point for point in known if point[0] >= near]).T
    weights = 1 / (deviation**2 + _LEAST_DEVIATION**2)
    design = np.column_stack([np.ones_like(x), x - last])
    covariance = np.linalg.inv(design.T * weights @ design)
    end, slope = covariance @ (design.T * weights @ error)
    misfit = float(weights @ (error - design @ [end, slope]) ** 2) / max(len(x) - 2, 1)
    off_end, off_slope = 2 * np.sqrt(np.diag(covariance) * max(1.0, misfit))
    off_end = math.hypot(off_end, 2 * level_deviation)
    steep, flat = min(off_slope - slope, _STEEPEST), min(-slope - off_slope, fades_to)
    low = max((end - off_end - level) / steep, 0.0) if steep > 0 else math.inf
    high = max((end + off_end - level) / flat, 0.0) if flat > 0 else math.inf
    low, high = (math.exp(last + way) if way <= most else math.inf for way in (low, high))
    return low, high


def fitted_slope(points: Sequence[tuple[float, float, float]]) -> tuple[float, float] | None:
    """Return the least-squares slope of log value against log size, and its standard error.

    Points are (size, value, standard error of the value); the error is what theirs amount to.
    """
    usable = [(x, y, se) for x, y, se in points if x > 0 and y > 0 and math.isfinite(y)]
    if len({x for x, _, _ in usable}) < _FEWEST_SIZES:
        return None
    x, y, se = (np.array(column, dtype=float) for column in zip(*usable, strict=True))
    centered = np.log(x) - np.log(x).mean()
    weights = centered / (centered**2).sum()
    return float(weights @ np.log(y)), float(np.sqrt(((weights * np.nan_to_num(se) / y) ** 2).sum()))


def enough_epsilon(view: View) -> str:
    """Say from which ε on privacy adds less error than sampling; empty where that is unknown."""
    where, m = view.headline, view.headline_size
    if where is None or m is None or (chance := population_error(view, m)) is None:
        return ""
    parts, deviations = {}, {}
    for each in view.settings:
        best = rank(view.series(each), m).best
        if (each.delta_rule, each.panel) == (where.delta_rule, where.panel) and best is not None:
            parts[each.epsilon] = part = privacy_part(view, best[1].mean, m)
            # p = √(E² − e²) moves by E/p where E moves by one; e hardly moves.
            deviations[each.epsilon] = best[1].mean * best[1].se / part if part > 0 else 0.0
    if not parts:
        return ""
    enough = [
        epsilon for epsilon in sorted(parts) if all(parts[e] <= chance.mean for e in parts if e >= epsilon)
    ]
    first, last = enough[0] if enough else None, max(parts)
    added = parts[first or last]
    deviation = deviations[first or last]
    return render_sentence(
        "enough_epsilon",
        m=m,
        units=view.page.population[1],
        chance=chance,
        chance_error=error_bar(chance.se, chance.mean),
        first=first,
        least=first == min(parts),
        added=added,
        unsure=math.isfinite(deviation) and chance.mean - added <= 2 * math.hypot(deviation, chance.se),
        deviation=error_bar(deviation, added),
        ratio=math.hypot(added, chance.mean) / chance.mean,
        last=last,
        needed=first_below(
            chance.mean,
            [(each, part, deviations[each]) for each, part in parts.items()],
            _BEYOND_EPSILON,
            deviation=chance.deviation,
        ),
    )


def limits_of(value: float, deviation: float) -> tuple[float, float]:
    """Return about 95 % limits of a positive number whose logarithm has a standard error."""
    deviation = deviation if math.isfinite(deviation) else 0.0
    return value * math.exp(-2 * deviation), value * math.exp(2 * deviation)


@dataclass(frozen=True)
class CostOfPrivacy:
    """The cost of privacy at a setting and a size.

    `factor` is the private error over that without privacy, about a large population where it is known;
    `worth` the number of rows that tell without privacy what `rows` tell with it. NaN where a number is not
    known. `deviation` is the standard error of the factor's logarithm, as if repetitions with and without
    privacy were independent.
    """

    ranking: Ranking
    error: float
    without: float  # the error without privacy, about a large population where it is known
    factor: float
    rows: float
    worth: float
    signs: int | None = (
        None  # coefficients that keep the sign that they have without privacy; None: not counted
    )
    deviation: float = 0.0

    @property
    def factors(self) -> tuple[float, float]:
        """About 95 % limits of the factor."""
        return limits_of(self.factor, self.deviation)

    @property
    def worths(self) -> tuple[float, float]:
        """About 95 % limits of the number of rows without privacy."""
        return limits_of(self.worth, 2 * self.deviation)

    @property
    def beats_zero(self) -> bool:
        """Whether the best private answer is clearly better than zero; true where zero did not run."""
        best = self.ranking.best
        return best is not None and (
            math.isnan(self.ranking.zero) or clearly_below(best[1], self.ranking.zero)
        )

    @property
    def can_be_learned(self) -> bool:
        """Whether even the answer without privacy is better than zero."""
        return not self.without >= self.ranking.zero


def cost_at(view: View, where: Setting, x: float) -> CostOfPrivacy:
    """Return what privacy costs at a setting and a size."""
    ranking = rank(view.series(where), x)
    if ranking.best is None:
        none = math.nan
        return CostOfPrivacy(ranking, none, none, none, none, none)
    point, metric = ranking.best[1], view.page.metric
    error, without = point.mean, ranking.non_private[1].mean if ranking.non_private else math.nan
    chance = population_error(view, x)
    if chance is not None:
        error, without = _about_population(view, point, chance.mean), chance.mean
    elif view.page.axis.column == "n" and x > view.page.population[0] / 2 > 0:
        without = math.nan  # most of the rows miss the answer of all by less than the truth
    if metric in LOGARITHMS:
        factor = math.exp((error - without) / LOGARITHMS[metric])
        deviation = _deviation_of_logarithms(ranking) / LOGARITHMS[metric]
    else:
        factor = error / without if without > 0 else math.nan
        deviation = math.hypot(log_deviation(point, error), chance.deviation if chance else ranking.deviation)
    worth = x / factor**2 if _falls_with_the_root(view, ranking) and factor > 1 else math.nan
    if worth < 2 * view.page.n_coefficients:  # of so few rows errors do not fall with the root
        worth = math.nan
    return CostOfPrivacy(ranking, error, without, factor, x, worth, _kept_signs(view, point.cell), deviation)


def _kept_signs(view: View, cell: str) -> int | None:
    """Return how many coefficients keep their signs, on average; all only where next to none is lost."""
    rows, of = view.others, view.page.n_coefficients
    right = rows.loc[(rows["metric"] == SIGNS) & (rows["cell"] == cell), "mean"]
    if of < 2 or right.empty:
        return None
    return of if of - float(right.iloc[0]) <= _LOST else min(round(float(right.iloc[0])), of - 1)


def _deviation_of_logarithms(ranking: Ranking) -> float:
    pairs = [pair for pair in (ranking.best, ranking.non_private) if pair]
    return math.hypot(*(point.se for _, point in pairs if math.isfinite(point.se)))


def rows_for_the_same(view: View) -> str:
    """Say how many rows a private estimate needs to be as good as the headline's rows are without privacy."""
    where, m = view.headline, view.headline_size
    if where is None or m is None or (chance := population_error(view, m)) is None:
        return ""
    cost = cost_at(view, where, m)
    if cost.ranking.best is None or not cost.factor > 1:
        return ""
    best, point = cost.ranking.best
    if point.mean > cost.ranking.zero:
        return ""
    needed = first_below(
        cost.without,
        _population_errors(view, best),
        _BEYOND,
        deviation=chance.deviation,
        fades_to=_SAMPLING,
    )
    return render_sentence(
        "rows_for_the_same",
        epsilon=where.epsilon,
        m=m,
        units=view.page.population[1],
        name=best.full,
        worth=cost.worths,
        needed=needed,
        ratio=tuple(each / m for each in needed),
        beyond=_BEYOND,
    )


def _falls_with_the_root(view: View, ranking: Ranking) -> bool:
    """Return whether errors without privacy fall with the root of the number of rows on the axis."""
    best, page = ranking.best, view.page
    of_rows = page.population[0] > 0 or (best is not None and best[0].info.privacy_model != "user")
    is_dense = best is not None and best[0].info.name not in page.sparse
    return page.metric == "l2_error" and page.axis.column == "n" and of_rows and is_dense


def _about_population(view: View, point: Point, chance: float) -> float:
    """Return √(s² + p²): the error about a large population whose rows alone cause the error s."""
    return math.hypot(chance, privacy_part(view, point.mean, point.x))


def _population_errors(view: View, series: Series) -> list[Point3]:
    """Return (size, error about a large population, its standard error) of an estimator."""
    found = []
    for point in series.points:
        chance = population_error(view, point.x) if point.answered else None
        if chance is not None:
            error = _about_population(view, point, chance.mean)
            found.append((point.x, error, error * log_deviation(point, error)))
    return found
