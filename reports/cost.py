"""What privacy costs at a page's headline: as a factor, as a number of rows, and what the answer is good for.

An answer is *clearly better* than another number where its mean error lies below it by more than two standard
errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from reports.ranking import (
    Point3,
    Ranking,
    clearly_below,
    first_below,
    limits_of,
    log_deviation,
    population_error,
    privacy_part,
    rank,
)
from reports.results import SIGNS
from reports.series import Point, Series, Setting, View
from reports.writing import render_sentence

SHARES = ("misclassification",)  # metrics that are shares of rows, which people compare as they are
LOGARITHMS = {"log_squared_error": 2.0}  # metrics that are logarithms of a power of an error
_BEYOND = 16.0  # how far beyond the largest size errors are followed
_LOST = 0.05  # signs on average, which is next to none
_SAMPLING = 0.5  # errors that chance alone causes fall with the root of the rows, and all others come to that


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
