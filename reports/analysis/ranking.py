"""Ranking of estimators at one size; measured error curves; the cost of privacy next to sampling error.

A subsample of m of N rows, drawn without return, misses their answer by e(m) on average. Rows drawn from a
large population miss its answer by more, s(m) = e(m) / √(1 − m/N). A private estimate of error E adds
p = √(E² − e²): privacy's part of it, which is compared with s as an ε and as a number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from reports.analysis.series import Point, Series, Setting, View
from reports.writing import error_bar, render_sentence

_STRONGEST_FIRST = ("local", "user", "central")
_FEWEST_SIZES = 3
_BEYOND = 16.0  # how far beyond the largest size the last slope is followed
_BEYOND_EPSILON = 4.0  # how far beyond the largest ε


@dataclass(frozen=True)
class Ranking:
    """The ranking at one size: private series from best to worst, the best non-private one, the zero vector.

    `public` is the best one that saw public rows alone.

    Where some keep a stronger promise than others, `private` holds the strongest one's only (local, where
    nobody is trusted, before user-level, before central), and `weaker` the best of the others.
    """

    private: tuple[tuple[Series, Point], ...]
    weaker: tuple[Series, Point] | None
    non_private: tuple[Series, Point] | None
    public: tuple[Series, Point] | None
    zero: float

    @property
    def best(self) -> tuple[Series, Point] | None:
        """The private series with the smallest mean error."""
        return self.private[0] if self.private else None

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
    public = [pair for pair in ordered if pair[0].role == "public"]
    zero = [pair[1].mean for pair in ordered if pair[0].role == "zero"]
    if not zero:
        zero = [p.mean for s in series if s.role == "zero" for p in s.points if p.answered]
    return Ranking(
        private,
        weaker[0] if weaker else None,
        without[0] if without else None,
        public[0] if public else None,
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
    best = [pair[0] for pair in (ranking.best, ranking.non_private, ranking.public) if pair]
    wanted = [*[s for s in every if s.role == "zero"], *best, *printed[:1], *about[:1]]
    for s, _ in ranking.private:
        if s.info.name not in {other.info.name for other in wanted}:
            wanted.append(s)
    kept = list(dict.fromkeys(wanted))[:MOST_LINES] or every[:MOST_LINES]
    return tuple(s for s in every if s in kept)


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


def population_error(view: View, m: float) -> float | None:
    """Return the error of the best non-private estimate on m rows of a large population.

    Of m of N rows drawn without return it is e(m) / √(1 − m/N), where e(m) is the error about all N rows.
    None where errors are not distances to the answer of all rows.
    """
    population = view.page.population[0]
    best = rank(view.series(view.headline), m).non_private
    if best is None or not m < population or not best[1].mean > 0:
        return None
    return best[1].mean / math.sqrt(1 - m / population)


def privacy_part(view: View, error: float, m: float) -> float:
    """Return p(m) = √(E² − e²): what privacy adds to the error e(m) of the same rows without it."""
    best = rank(view.series(view.headline), m).non_private
    return math.sqrt(max(error**2 - (best[1].mean if best else 0.0) ** 2, 0.0))


def first_below(wanted: float, points: Sequence[tuple[float, float]], beyond: float = 1.0) -> float:
    """Return the x at which errors (x, error) first fall to a wanted error.

    Between points on log scales; after the last one along the last slope, up to ``beyond`` times as far.
    Infinite if that is not enough.
    """
    known = [(x, error) for x, error in sorted(points) if math.isfinite(error) and error > 0]
    if not known or not wanted > 0:
        return math.inf
    if known[0][1] <= wanted:
        return known[0][0]
    for (x, error), (later, less) in pairwise(known):
        if less <= wanted:
            return float(x * (later / x) ** (math.log(error / wanted) / math.log(error / less)))
    if len(known) < 2:
        return math.inf
    (x, error), (later, less) = known[-2:]
    slope = math.log(error / less) / math.log(later / x)
    needed = math.log(less / wanted) / slope if slope > 0 else math.inf
    return later * math.exp(needed) if needed <= math.log(beyond) else math.inf


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
    enough = [epsilon for epsilon in sorted(parts) if all(parts[e] <= chance for e in parts if e >= epsilon)]
    first, last = enough[0] if enough else None, max(parts)
    added = parts[first or last]
    deviation = deviations[first or last]
    return render_sentence(
        "enough_epsilon",
        m=m,
        units=view.page.population[1],
        chance=chance,
        first=first,
        least=first == min(parts),
        added=added,
        unsure=math.isfinite(deviation) and chance - added <= 2 * deviation,
        deviation=error_bar(deviation, added),
        ratio=added / chance,
        last=last,
        needed=first_below(chance, list(parts.items()), _BEYOND_EPSILON),
    )


def rows_for_the_same(view: View) -> str:
    """Say how many rows a private estimate needs to be as good as the headline's rows are without privacy."""
    where, m = view.headline, view.headline_size
    if where is None or m is None or (chance := population_error(view, m)) is None:
        return ""
    ranking = rank(view.series(where), m)
    best = ranking.best
    if best is None or best[1].mean > ranking.zero:
        return ""
    errors = _population_errors(view, best[0])
    if m not in errors or errors[m] <= chance:
        return ""
    needed = first_below(chance, list(errors.items()), _BEYOND)
    return render_sentence(
        "rows_for_the_same",
        epsilon=where.epsilon,
        m=m,
        units=view.page.population[1],
        name=best[0].full,
        worth=_rounded(m * (chance / errors[m]) ** 2),
        needed=_rounded(needed),
        ratio=needed / m,
        beyond=_BEYOND,
    )


def _population_errors(view: View, series: Series) -> dict[float, float]:
    """Return √(s² + p²) of an estimator by size: its error about a large population."""
    found = {}
    for point in series.points:
        chance = population_error(view, point.x) if point.answered else None
        if chance is not None:
            found[point.x] = math.hypot(chance, privacy_part(view, point.mean, point.x))
    return found


def _rounded(rows: float) -> str:
    """Write a number of rows in two digits."""
    return f"{float(f'{rows:.2g}'):,.0f}"
