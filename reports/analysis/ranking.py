"""Ranking of estimators at one size, and the error that sampling alone leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from reports.analysis.series import Point, Series, View


@dataclass(frozen=True)
class Ranking:
    """The ranking at one size: private series from best to worst, non-private ones, the zero vector.

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
    def worse_than_zero(self) -> tuple[Series, ...]:
        return tuple(s for s, p in self.private if p.mean > self.zero)


_STRONGEST_FIRST = ("local", "user", "central")


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
