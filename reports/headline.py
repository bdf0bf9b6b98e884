"""The top of a page: sentences and key numbers, of values that `reports.ranking` computes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reports.page import Guide, StudyPage
from reports.ranking import (
    HALF,
    LOGARITHMS,
    SHARES,
    CostOfPrivacy,
    Estimate,
    Ranking,
    clearly_above,
    clearly_below,
    cost_at,
    measured,
    new_sample_error,
    rank,
)
from reports.series import Series, Setting, View
from reports.writing import between, error_bar, num, render_sentence, rule_text, setting, times, words

_MOST_NAMES = 4  # of estimators in a sentence
_NOTHING = 1.15  # a factor below it is said to cost next to nothing
NOISE_LIMITS = {"too small": 1.001, "too large": 0.8}  # of the certified ε over the target ε


@dataclass(frozen=True)
class Tile:
    """One big number with its caption."""

    value: str
    caption: str


@dataclass(frozen=True)
class PageHeadline:
    """The top of a page."""

    sentence: str  # what privacy costs, for anyone
    data: str  # real or not
    details: str = ""  # the best private error, the one without privacy, the zero vector's
    verdict: str = ""  # of attacks: whether one finds more than is allowed
    choice: str = ""  # which one is best at which size
    noise: str = ""  # what the paper's noise does
    limits: tuple[str, ...] = ()  # what theory and the data themselves allow
    number: Tile | None = None  # the one to quote
    errors: dict[str, tuple[float, float]] | None = (
        None  # private, without, zero: each with its standard error
    )


def condition(view: View, where: Setting) -> str:
    """Write a setting: "ε = 0.5, δ = 10/m¹·¹"."""
    return f"ε = {setting(where.epsilon)}, δ = {rule_text(where.delta_rule, view.page.axis.rows_symbol)}"


def build_headline(view: View) -> PageHeadline:
    page, where, x = view.page, view.headline, view.headline_size
    data = data_sentence(page)
    if where is None or x is None:
        return PageHeadline(render_sentence("no_headline"), data)
    series, cost = view.series(where), cost_at(view, where, x)
    ranking = cost.ranking
    return PageHeadline(
        sentence=plain_sentence(view, where, cost),
        details=_details(view, where, x, ranking),
        choice=best_by_size(view, series, x, ranking),
        data=data,
        noise=noise_sentence(series, x, where.epsilon),
        limits=_limits(view, where, x, ranking),
        number=_number(view, where, cost),
        errors=_errors(view, cost),
    )


def plain_sentence(view: View, where: Setting, cost: CostOfPrivacy) -> str:
    """Say what privacy costs in at most 30 words, without a norm, an estimator, or a symbol except ε."""
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


def _errors(view: View, cost: CostOfPrivacy) -> dict[str, tuple[float, float]] | None:
    """Return the errors that the index compares, each with its standard error; None unless all are known."""
    zero = [point for s in view.series(view.headline) if s.role == "zero" for point in s.points]
    found = {"private": cost.private, "without": cost.without, "zero": Estimate(cost.ranking.zero)}
    if power := LOGARITHMS.get(view.page.metric):
        best, without = cost.ranking.best, cost.ranking.non_private
        points = {
            "private": best and best[1],
            "without": without and without[1],
            "zero": zero[0] if zero else None,
        }
        if not all(points.values()):
            return None
        found = {key: Estimate(math.exp(p.mean / power), p.error / power) for key, p in points.items() if p}
    is_known = all(math.isfinite(each.value) and each.value > 0 for each in found.values())
    return {key: (each.value, each.error) for key, each in found.items()} if is_known else None


def with_error(found: Estimate) -> str:
    """Write "0.125 (standard error 0.010)"."""
    if not found.error > 0:
        return num(found.value)
    return f"{num(found.value)} (standard error {error_bar(found.error, found.value)})"


def _details(view: View, where: Setting, x: float, ranking: Ranking) -> str:
    population = view.page.population
    is_most = view.page.axis.column == "n" and x > HALF * population[0] > 0
    sample = new_sample_error(view, where, x) if is_most else None
    return render_sentence(
        "details",
        start=f"At {condition(view, where)} and {view.page.axis.symbol} = {setting(x)}",
        is_stand_in=view.page.source_of(where.panel) == "stand-in",
        ranking=ranking,
        error=with_error(measured(ranking.best[1])) if ranking.best else "",
        measured=view.page.metric_label,
        x=x,
        population=population,
        is_most=is_most,
        sample=with_error(sample) if sample else "",
    )


def best_by_size(view: View, series: Sequence[Series], x: float, ranking: Ranking) -> str:
    """Say which private estimator has the smallest mean error at which sizes, and which tie."""
    sizes = sorted({p.x for s in series for p in s.points})
    found = {size: at for size in sizes if (at := rank(series, size)).best is not None}
    runs: dict[Series, list[float]] = {}
    unsure = [size for size, at in found.items() if at.tied]
    for size, at in found.items():
        if size not in unsure:
            runs.setdefault(at.private[0][0], []).append(size)
    best = {size: at.private[0][1] for size, at in found.items()}
    zero_wins = [size for size in found if clearly_above(best[size], found[size].zero)]
    ties = [one.label for one in ranking.tied]
    sparse = {one for one, _ in ranking.private if one.info.name in view.page.sparse}
    return render_sentence(
        "best_by_size",
        symbol=view.page.axis.symbol,
        runs=[(one, _sizes(xs, sizes)) for one, xs in runs.items()],
        unsure=_sizes(unsure, sizes) if unsure else "",
        n_sizes=len(found),
        zero_wins=zero_wins,
        zero_ties=[
            size
            for size in found
            if size not in zero_wins
            and math.isfinite(found[size].zero)
            and not clearly_below(best[size], found[size].zero)
        ],
        x=x,
        ties=ties[:_MOST_NAMES],
        more_ties=max(0, len(ties) - _MOST_NAMES),
        dense=bool(sparse) and sparse.isdisjoint(ranking.best_or_tied),
    )


def _sizes(xs: Sequence[float], sizes: Sequence[float]) -> str:
    first = sizes.index(xs[0])
    if len(xs) > 2 and list(xs) == list(sizes[first : first + len(xs)]):
        return f"{setting(xs[0])} to {setting(xs[-1])}"
    return words([setting(x) for x in xs])


def data_sentence(page: StudyPage) -> str:
    """Say whether the data are real, how many rows they have, and what was left out or changed."""
    cards = page.data_cards
    return render_sentence(
        "about_data",
        data_source=page.data_source,
        title=words(dict.fromkeys(card.dataset.title for card in cards)),
        n_rows=sum(card.read["n_rows"] for card in cards),
        repairs=[each for card in cards for each in card.repairs],
        reasons=list(dict.fromkeys(each for card in cards for each in card.read["reasons"])),
        simulated=page.simulated,
    )


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
    values = {guide.label: guide_at(guide, x) for guide in guides_of(view.page, where)}
    at = {"symbol": view.page.axis.symbol, "x": x, "best": ranking.best}
    theory = [
        render_sentence("theory_line", label=label, value=value, **at)
        for label, value in values.items()
        if math.isfinite(value)
    ]
    found = [render_sentence("finding", about=each.about, text=each.text) for each in view.page.findings]
    return (*theory, *found)


def _factor_limits(cost: CostOfPrivacy) -> str:
    limits = between(cost.factor.limits, times)
    return "" if limits == times(cost.factor.value) else limits


def _number(view: View, where: Setting, cost: CostOfPrivacy) -> Tile | None:
    """Return the number to quote: the factor where the sentence has it, else the best private error."""
    best, at = cost.ranking.best, condition(view, where)
    if best is None:
        return None
    factor = cost.factor.value
    has_factor = cost.beats_zero and cost.can_be_learned and math.isfinite(factor) and factor >= _NOTHING
    if has_factor and view.page.metric not in SHARES:
        caption = render_sentence("quoted_factor", cost=cost, condition=at, limits=_factor_limits(cost))
        return Tile(times(factor), caption)
    value = num(best[1].mean)
    value += f" ± {error_bar(best[1].se, best[1].mean)}" if best[1].error > 0 else ""
    useless, label = not cost.beats_zero, view.page.metric_label
    caption = render_sentence("quoted_error", metric_label=label, condition=at, useless=useless)
    return Tile(value, caption)


def noise_sentence(series: Sequence[Series], x: float, epsilon: float) -> str:
    """Describe the effect of the paper's calibration at a size; empty without such runs."""
    points = {(s.info.name, s.form, s.calibration): (s, p) for s in series if (p := s.at(x)) and p.answered}
    rows, compared = list[dict[str, Any]](), list[dict[str, Any]]()
    for (name, form, calibration), (s, p) in points.items():
        if calibration != "paper":
            continue
        rows.append(row := {"name": s.name, "certified": p.certified, "printed": p.mean})
        if (other := points.get((name, form, "tight"))) and p.mean > 0:
            compared.append({**row, "tight": other[1].mean, "factor": measured(p).over(measured(other[1]))})
    differing = [r for r in compared if abs(math.log(r["factor"].value)) > 2 * r["factor"].deviation]
    return render_sentence(
        "noise",
        rows=rows,
        epsilon=epsilon,
        too_small=[r for r in rows if math.inf > r["certified"] > epsilon * NOISE_LIMITS["too small"]],
        too_large=[r for r in rows if r["certified"] < epsilon * NOISE_LIMITS["too large"]],
        proved=[r for r in rows if math.isfinite(r["certified"])],
        unproved=[r for r in rows if not math.isfinite(r["certified"])],
        top=max(differing, key=lambda r: abs(math.log(r["factor"].value)), default=None),
        compared=compared,
    )
