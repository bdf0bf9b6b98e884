"""The sentences and key numbers on top of a page, computed from the results table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reports.cost import (
    SHARES,
    CostOfPrivacy,
    PopulationError,
    Ranking,
    clearly_above,
    clearly_below,
    cost_at,
    population_error,
    rank,
    tied_with_best,
)
from reports.page import Guide, StudyPage
from reports.series import Point, Series, Setting, View
from reports.writing import (
    between,
    count_of,
    error_bar,
    num,
    render_sentence,
    rule_text,
    setting,
    times,
    words,
)

_MOST_NAMES = 4  # of estimators in a sentence
_NOTHING = 1.15  # a factor below it is said to cost next to nothing
NOISE_LIMITS = {"too small": 1.001, "too large": 0.8}  # of the certified ε over the ε asked


@dataclass(frozen=True)
class Tile:
    """One big number with its caption; `slot` (an estimator's order) decides its color."""

    value: str
    caption: str
    slot: int | None = None


@dataclass(frozen=True)
class PageHeadline:
    """The top of a page."""

    sentence: str  # what privacy costs, for anyone
    data: str  # real or not
    details: str = ""  # the best private error, the one without privacy, the zero vector's
    verdict: str = ""  # of attacks: whether one finds more than is allowed
    choice: str = ""  # which one is best at which size
    noise: str = ""  # what the printed noise does
    limits: tuple[str, ...] = ()  # what theory and the data themselves allow
    tiles: tuple[Tile, ...] = ()
    number: Tile | None = None  # the one to quote
    value: float | None = None  # the number that the sentence is about, with its standard error
    value_error: float | None = None


def condition(view: View, where: Setting) -> str:
    """Write a setting: "ε = 0.5, δ = 10/m¹·¹"."""
    return f"ε = {setting(where.epsilon)}, δ = {rule_text(where.delta_rule, view.page.axis.rows_symbol)}"


def build_headline(view: View) -> PageHeadline:
    page, where, x = view.page, view.headline, view.headline_size
    data = data_sentence(page)
    if where is None or x is None:
        return PageHeadline("No private estimator has run in this study yet.", data)
    series, cost = view.series(where), cost_at(view, where, x)
    ranking = cost.ranking
    return PageHeadline(
        sentence=plain_sentence(view, where, cost),
        details=_details(view, where, x, ranking),
        choice=best_by_size(view, series) + _ties(view, x, ranking) + _dense(ranking, view.page.sparse),
        data=data,
        noise=noise_sentence(noise_comparisons(series, x), where.epsilon),
        limits=_limits(view, where, x, ranking),
        tiles=_tiles(view, cost),
        number=_number(view, cost),
        value=ranking.best[1].mean if ranking.best else None,
        value_error=ranking.best[1].se if ranking.best and math.isfinite(ranking.best[1].se) else None,
    )


def plain_sentence(view: View, where: Setting, cost: CostOfPrivacy) -> str:
    """Say what privacy costs in at most 30 words, without a norm, an estimator, or a symbol but ε."""
    best = cost.ranking.best
    return render_sentence(
        "plain_headline",
        epsilon=where.epsilon,
        cost=cost,
        model=best[0].info.privacy_model if best else "",
        is_share=view.page.metric in SHARES,
        is_stand_in=view.page.source_of(where.panel) == "stand-in",
        units=view.page.population[1],
        n_coefficients=0 if "own_table" in view.page.exhibits else view.page.n_coefficients,
        nothing=_NOTHING,
    )


def _with_error(point: Point | PopulationError) -> str:
    if not (math.isfinite(point.se) and point.se > 0):
        return num(point.mean)
    return f"{num(point.mean)} (standard error {error_bar(point.se, point.mean)})"


def _details(view: View, where: Setting, x: float, ranking: Ranking) -> str:
    start = f"At {condition(view, where)} and {view.page.axis.symbol} = {setting(x)}"
    if view.page.source_of(where.panel) == "stand-in":
        start = f"On a stand-in, not the real data: {start[0].lower()}{start[1:]}"
    error = _with_error(ranking.best[1]) if ranking.best else ""
    chance, population = _chance_of_most(view, x), view.page.population
    measured = view.page.metric_label
    return render_sentence(
        "details",
        start=start,
        ranking=ranking,
        error=error,
        measured=measured,
        x=x,
        population=population,
        chance=chance,
    )


def _chance_of_most(view: View, m: float) -> str:
    """Write the error without privacy about a large population, where m rows are most of all; else ""."""
    chance = population_error(view, m) if m >= view.page.population[0] / 2 else None
    return _with_error(chance) if chance else ""


def best_by_size(view: View, series: Sequence[Series]) -> str:
    """Say which private estimator has the smallest mean error at which sizes, and where zero wins."""
    sizes, symbol = sorted({p.x for s in series for p in s.points}), view.page.axis.symbol
    found = {x: ranking for x in sizes if (ranking := rank(series, x)).best is not None}
    if not found:
        return ""
    runs: dict[Series, list[float]] = {}
    unsure = [x for x, ranking in found.items() if tied_with_best(ranking)]
    for x, ranking in found.items():
        if x not in unsure:
            runs.setdefault(ranking.private[0][0], []).append(x)
    best = {x: ranking.private[0][1] for x, ranking in found.items()}
    return render_sentence(
        "best_by_size",
        symbol=symbol,
        runs=[(one, _sizes(xs, sizes)) for one, xs in runs.items()],
        unsure=_sizes(unsure, sizes) if unsure else "",
        n_sizes=len(found),
        zero_wins=(zero_wins := [x for x in found if clearly_above(best[x], found[x].zero)]),
        zero_ties=[
            x
            for x in found
            if x not in zero_wins
            and math.isfinite(found[x].zero)
            and not clearly_below(best[x], found[x].zero)
        ],
    )


def _ties(view: View, x: float, ranking: Ranking) -> str:
    """Say which estimators these repetitions cannot tell from the best one, at the headline's size."""
    names = [series.label for series in tied_with_best(ranking)]
    if not names:
        return ""
    if len(names) > _MOST_NAMES:
        names[_MOST_NAMES:] = [count_of(len(names) - _MOST_NAMES, "other")]
    return (
        f" At {view.page.axis.symbol} = {setting(x)} these repetitions cannot tell the best from "
        f"{words(names)}: the errors differ by less than two standard errors."
    )


def _dense(ranking: Ranking, names: frozenset[str]) -> str:
    """Say where all private estimators that keep few columns are clearly further off than a dense one."""
    sparse = {series for series, _ in ranking.private if series.info.name in names}
    if not sparse or not sparse.isdisjoint({ranking.private[0][0], *tied_with_best(ranking)}):
        return ""
    return (
        " Dense is better here: the errors of private estimators that keep few columns are larger by more "
        "than two standard errors."
    )


def _sizes(xs: Sequence[float], sizes: Sequence[float]) -> str:
    first = sizes.index(xs[0])
    if len(xs) > 2 and list(xs) == list(sizes[first : first + len(xs)]):
        return f"{setting(xs[0])} to {setting(xs[-1])}"
    return words([setting(x) for x in xs])


def data_sentence(page: StudyPage) -> str:
    """Say whether the data are real, how many rows they have, and what was left out or changed."""
    cards = page.data_cards
    text = render_sentence(
        "about_data",
        data_source=page.data_source,
        title=words(dict.fromkeys(card.dataset.title for card in cards)),
        n_rows=sum(card.read["n_rows"] for card in cards),
        repairs=[each for card in cards for each in card.repairs],
        reasons=list(dict.fromkeys(each for card in cards for each in card.read["reasons"])),
        simulated=page.simulated,
    )
    if not page.simulated or not cards:
        return text
    others = text[:1].lower() + text[1:]
    some = f"Some panels have simulated data, anew in every repetition: {page.simulated}."
    return f"{some} In the others, {others}"


def guides_of(page: StudyPage, where: Setting) -> tuple[Guide, ...]:
    return tuple(
        guide
        for guide in page.guides
        if guide.panel in ("", where.panel)
        and guide.epsilon in (0.0, where.epsilon)
        and guide.delta_rule in ("", where.delta_rule)
    )


def guide_at(guide: Guide, x: float) -> float:
    """Interpolate a theory line at a size, on log scales; NaN outside its range."""
    if len(guide.n) < 2 or not min(guide.n) <= x <= max(guide.n):
        return math.nan
    order = np.argsort(guide.n)
    return math.exp(np.interp(math.log(x), np.log(guide.n)[order], np.log(guide.value)[order]))


def _limits(view: View, where: Setting, x: float, ranking: Ranking) -> tuple[str, ...]:
    out = []
    for guide in guides_of(view.page, where):
        value = guide_at(guide, x)
        if math.isfinite(value):
            best, symbol = ranking.best, view.page.axis.symbol
            out.append(
                render_sentence("theory_line", label=guide.label, value=value, symbol=symbol, x=x, best=best)
            )
    out += [
        f"{finding.about} (computed from the data for research; not private). {finding.text}"
        for finding in view.page.findings
    ]
    return tuple(out)


def _tiles(view: View, cost: CostOfPrivacy) -> tuple[Tile, ...]:
    tiles, ranking, where = [], cost.ranking, ""
    best, other = ranking.best, ranking.non_private
    if best is not None:
        useless = "" if cost.beats_zero else ", no better than answering zero"
        caption = f"best private error{useless}: {best[0].full}"
        tiles.append(Tile(num(best[1].mean), caption, best[0].info.order))
    if other is not None:
        if not math.isclose(cost.without, other[1].mean):
            where = ", about a large population"
        tiles.append(Tile(num(cost.without), f"without privacy{where}: {other[0].full}"))
    if math.isfinite(cost.factor) and cost.beats_zero:
        limits = between(cost.factors, times)
        unsure = "" if limits == times(cost.factor) else f" ({limits})"
        tiles.append(Tile(times(cost.factor), f"times the error without privacy{where}{unsure}"))
    if math.isfinite(ranking.zero):
        tiles.append(Tile(num(ranking.zero), "error of answering zero"))
    return tuple(tiles)


def _number(view: View, cost: CostOfPrivacy) -> Tile | None:
    """Return the number to quote: the factor where the sentence has it, else the best private error."""
    best, where = cost.ranking.best, view.headline
    if best is None or where is None:
        return None
    says_factor = cost.beats_zero and cost.can_be_learned and cost.factor >= _NOTHING
    if math.isfinite(cost.factor) and says_factor and view.page.metric not in SHARES:
        limits = between(cost.factors, times)
        unsure = "" if limits == times(cost.factor) else f", about 95 % limits {limits}"
        caption = f"times the error without privacy at {condition(view, where)}{unsure}"
        return Tile(times(cost.factor), caption, best[0].info.order)
    value = num(best[1].mean)
    value += f" ± {error_bar(best[1].se, best[1].mean)}" if best[1].se > 0 else ""
    useless = "" if cost.beats_zero else ", no better than answering zero"
    caption = f"best private error at {condition(view, where)}{useless}: {view.page.metric_label}"
    return Tile(value, caption, best[0].info.order)


@dataclass(frozen=True)
class NoiseComparison:
    """Printed against tight noise, one estimator, one size; NaN where a side gave no answer.

    ``deviation`` is the standard error of the logarithm of their ratio.
    """

    name: str
    slot: int
    printed: float
    tight: float
    certified: float
    deviation: float = math.nan

    @property
    def ratio(self) -> float:
        """How many times larger the error is with the printed noise."""
        return self.printed / self.tight if self.tight > 0 else math.nan

    @property
    def differs(self) -> bool:
        """Whether the errors differ by more than two standard errors."""
        return self.printed > 0 and abs(math.log(self.ratio)) > 2 * self.deviation


def noise_comparisons(series: Sequence[Series], x: float) -> tuple[NoiseComparison, ...]:
    tight = {(s.info.name, s.form): s.at(x) for s in series if s.calibration == "tight"}
    out = []
    for s in series:
        point = s.at(x)
        if s.calibration == "paper" and point is not None and point.answered:
            other = tight.get((s.info.name, s.form))
            mean = other.mean if other is not None and other.answered else math.nan
            deviation = math.hypot(*(p.se / p.mean if p.mean else math.nan for p in (point, other) if p))
            out.append(NoiseComparison(s.name, s.info.order, point.mean, mean, point.certified, deviation))
    return tuple(out)


def noise_sentence(rows: Sequence[NoiseComparison], asked: float) -> str:
    """Describe the effect of the printed noise in one or two sentences; empty without such runs."""
    proved = [r for r in rows if math.isfinite(r.certified)]
    if not rows:
        return ""
    if not proved:
        return "No ε could be certified for the noise as printed."
    too_small = [r for r in proved if r.certified > asked * NOISE_LIMITS["too small"]]
    too_large = [r for r in proved if r.certified < asked * NOISE_LIMITS["too large"]]
    compared = [r for r in rows if math.isfinite(r.ratio) and math.isfinite(r.deviation)]
    unproved = [r for r in rows if not math.isfinite(r.certified)]
    top = max((r for r in compared if r.differs), key=lambda r: abs(math.log(r.ratio)), default=None)
    return render_sentence(
        "noise",
        rows=rows,
        asked=asked,
        too_small=too_small,
        too_large=too_large,
        proved=proved,
        unproved=unproved,
        top=top,
        compared=compared,
    )
