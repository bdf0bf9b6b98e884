"""What a page says first: what privacy costs, what the answer is good for; no contradiction."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from dpalgos.accounting.events import Relation
from reports.cost import cost_at, enough_epsilon, first_below, population_error, rank
from reports.headline import build_headline
from reports.page import Axis
from reports.results import summarize
from reports.series import View
from reports.table import error_table
from reports.writing import error_bar, num, setting, times

NORM_OR_SYMBOL = re.compile(r"ℓ|δ|‖|σ|[²√±]|norm|z-score|error bar")


def view_of(results, page, *, error=None, spread=0.0, **changes):
    """Return a view in which every private answer at ε = 0.5 has an error, with a spread over repetitions."""
    rows = results.copy()
    private = rows["privacy_model"] != "none"
    if error is not None:
        rows.loc[private, "value"] = error + spread * (rows.loc[private, "replicate"] % 2)
    return View.build(summarize(rows), replace(page, **changes))


def headline_of(view):
    return build_headline(view).sentence


def plain(sentence, page):
    assert len(sentence.split()) <= 30, sentence
    assert not NORM_OR_SYMBOL.search(sentence), sentence
    assert not any(info.title in sentence for info in page.estimators), sentence
    return sentence


def test_rows_that_tell_the_same_without_privacy_follow_from_the_factor(results, page):
    view = view_of(results, page, error=0.1)
    cost = cost_at(view, view.headline, 20_000)
    assert cost.worth == pytest.approx(20_000 / cost.factor**2)
    low, high = cost.worths
    assert low < cost.worth < high
    worth = f"{float(f'{low:.2g}'):,.0f} to {float(f'{high:.2g}'):,.0f} rows instead of 20,000"
    assert worth in plain(headline_of(view), page)
    of_steps = view_of(results, page, error=0.1, metric_label="", axis=Axis("T", "steps"))
    assert "instead of" not in headline_of(of_steps)


def test_the_wanted_error_is_found_between_points_and_a_little_beyond():
    points = [(1.0, 4.0, 0.0), (4.0, 2.0, 0.0), (16.0, 1.0, 0.0)]
    assert first_below(2.0, points) == pytest.approx((4, 4))
    assert first_below(1.5, points) == pytest.approx((4 * (2 / 1.5) ** 2,) * 2)
    assert first_below(8.0, points) == (1.0, 1.0)
    assert first_below(0.5, points) == (math.inf, math.inf)
    low, high = first_below(0.5, points, 16.0)
    assert 60 < low <= 64 <= high < 68
    assert first_below(0.1, points, 16.0) == (math.inf, math.inf)
    assert first_below(0.1, [(1.0, math.nan, 0.0)], 16.0) == (math.inf, math.inf)


@pytest.mark.parametrize("sizes", [(100, 1000, 10_000, 20_000, 20_600), (2000, 4000, 8000), (500, 1000)])
@pytest.mark.parametrize("noise_at", [300.0, 5000.0, 80_000.0])  # rows where noise is as large as chance
@pytest.mark.parametrize("deviation", [0.02, 0.08])
def test_limits_cover_where_errors_really_fall_to_what_is_wanted(sizes, noise_at, deviation):
    rng, covered = np.random.default_rng(0), 0
    x = np.array(sizes, dtype=float)
    error = np.sqrt(1 / x + noise_at / x**2)
    for ratio in (wanted := rng.uniform(1.3, 30, 200)):
        level = error[-1] / np.sqrt(ratio)
        # level² x² = x + c, c the rows above
        truth = (1 + math.sqrt(1 + 4 * level**2 * noise_at)) / (2 * level**2)
        seen = error * np.exp(deviation * rng.standard_normal(len(x)))
        low, high = first_below(level, list(zip(x, seen, deviation * seen, strict=True)), 16.0, fades_to=0.5)
        covered += low <= truth <= high or (low == math.inf and truth > 14 * x[-1])
    assert covered >= 0.9 * len(wanted)


POPULATION = 40_000
SIZES = (100, 1000, 10_000, 20_000)


def chance(m):
    return 3 / math.sqrt(m)


def view_of_chance(results, page, privacy):
    rows = results[results["panel"].eq("public") & results["n"].isin(SIZES)].copy()
    rows = rows[rows["estimator"].isin(["ols", "zero", "preconditioned_regression"])]
    within = rows["n"].map(lambda m: chance(m) * math.sqrt(1 - m / POPULATION))
    beside = [privacy(m, e) for m, e in zip(rows["n"], rows["epsilon"], strict=True)]
    error = (within**2 + [p * p if math.isfinite(p) else 0.0 for p in beside]) ** 0.5
    rows["value"] = error.where(rows["estimator"] != "zero", 9.0)
    return View.build(summarize(rows), replace(page, population=(POPULATION, "rows")))


def test_privacy_stops_to_matter_where_it_adds_less_than_chance(results, page):
    view = view_of_chance(results, page, lambda m, e: 1.2 * chance(m) / e)
    told = enough_epsilon(view)
    missed = num(chance(20_000))
    assert told.startswith(f"20,000 rows drawn from a large population miss its answer by {missed} ")
    assert f"From ε = 2 on, privacy adds less than that ({num(0.6 * chance(20_000))})." in told
    assert "the smallest that was tried" in enough_epsilon(view_of_chance(results, page, lambda m, e: 0.001))
    never = enough_epsilon(view_of_chance(results, page, lambda m, e: 6 * chance(m) / e))
    assert "at ε = 2 the error is 3.2 times the one without it" in never
    assert "as much at about ε = 6" in never
    far = enough_epsilon(view_of_chance(results, page, lambda m, e: 12 * chance(m) / e))
    assert far.endswith("at ε = 2 the error is 6.1 times the one without it.")


NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")


def random_view(results, page, seed):
    """Return a view of curves that fall, cross, tie or stand still, with noise of any size."""
    rng = np.random.default_rng(seed)
    rows = results.copy()
    keys = ["panel", "estimator", "form", "calibration", "epsilon", "delta_rule"]
    groups = rows.fillna({"epsilon": -1.0, "form": "", "delta_rule": ""}).groupby(keys).ngroup()
    level = rng.lognormal(-1, 0.7, groups.max() + 1)
    if rng.random() < 0.3:  # alike, so that they tie
        level[:] = level[0]
    slope = -rng.choice([0.0, 0.2, 0.5, 1.0], groups.max() + 1)
    curve = level[groups] * (rows["n"] / rows["n"].min()) ** slope[groups]
    rows["value"] = curve * rng.lognormal(0, rng.choice([0.01, 0.1, 0.5]), len(rows))
    rows.loc[rows["estimator"] == "zero", "value"] = rng.lognormal(-1, 1)
    view = View.build(summarize(rows), page)
    if seed % 2:  # zero about as near as the best private answer
        private, _ = points_of(view, view.headline_size)
        best = min(private.values(), key=lambda point: point.mean)
        near = max(best.mean + rng.uniform(-3, 3) * error(best), best.mean / 2)
        rows.loc[rows["estimator"] == "zero", "value"] = near
        view = View.build(summarize(rows), page)
    return view


def points_of(view, x):
    """Return the mean and standard error of each private series at a size, and zero's error."""
    series = view.series(view.headline)
    private = {s.label: p for s in series if s.role == "private" and (p := s.at(x)) and p.answered}
    at_zero = next((p for s in series if s.info.name == "zero" and (p := s.at(x)) and p.answered), None)
    return private, at_zero.mean if at_zero else math.nan


def sizes_of(text, sizes):
    found = [float(each.replace(",", "")) for each in NUMBER.findall(text)]
    if " to " in text:
        return [x for x in sizes if found[0] <= x <= found[-1]]
    return found


def error(point):
    return point.se if math.isfinite(point.se) else 0.0


@pytest.mark.parametrize("seed", range(12))
def test_no_sentence_is_contradicted_by_the_table(results, page, seed):
    view = random_view(results, page, seed)
    head, x = build_headline(view), view.headline_size
    private, zero = points_of(view, x)
    sizes = sorted({p.x for s in view.series(view.headline) for p in s.points})
    best = min(private.values(), key=lambda point: point.mean)
    clearly_useful = best.mean + 2 * error(best) < zero
    none_useful = "no private answer is clearly better" in head.sentence
    learned = "too few to learn anything" in head.sentence
    assert none_useful is not clearly_useful or learned
    full = {s.label: s.full for s in view.series(view.headline)}
    claims = re.findall(r"([^:;.]+?) at m = ([\d, to and]+)", head.choice.split(" At m = ")[0])
    everywhere = [label for label in private if f"comes from {full[label]} at every m" in head.choice]
    claims += [(label, setting(size)) for label in everywhere for size in sizes]
    for label, where in claims:
        for size in sizes_of(where, sizes) if label.strip() in private else ():
            at, _ = points_of(view, size)
            claimed = at.pop(label.strip())
            for other in at.values():
                assert claimed.mean + 2 * math.hypot(error(claimed), error(other)) < other.mean
    of_zero = r"At m = ([\d, to and]+?) (the zero vector beats|none is clearly)"
    for where, beaten in re.findall(of_zero, head.choice):
        for size in sizes_of(where, sizes):
            at, at_zero = points_of(view, size)
            least = min(at.values(), key=lambda point: point.mean)
            assert least.mean + 2 * error(least) >= at_zero
            assert beaten.startswith("none") or least.mean - 2 * error(least) > at_zero


@pytest.mark.parametrize("seed", range(0, 12, 3))
def test_every_number_of_the_details_is_one_of_the_table(results, page, seed):
    view = random_view(results, page, seed)
    head, x = build_headline(view), view.headline_size
    points = [p for s in view.series(view.headline) if (p := s.at(x)) is not None]
    known = {text for p in points for text in (num(p.mean), error_bar(p.se, p.mean))}
    known |= {setting(view.headline.epsilon), setting(x), f"{page.population[0]:,}"}
    chance = population_error(view, x)
    known |= {num(points_of(view, x)[1])}
    known |= {num(chance.mean), error_bar(chance.se, chance.mean)} if chance else set()
    condition = head.details.split(", the best private")[0]
    stated = NUMBER.findall(head.details.removeprefix(condition))
    assert stated
    assert set(stated) <= set(NUMBER.findall(" ".join(known)))
    factors = [tile.value for tile in head.tiles if "times" in tile.caption]
    means = [p.mean for p in points] + [getattr(population_error(view, x), "mean", math.nan)]
    ratios = {times(a / b) for a in means for b in means}
    assert set(factors) <= ratios


def with_adassp_near_the_best(results, more):
    near = results.copy()
    at = (near["n"] == 20_000) & (near["epsilon"] == 0.5) & (near["panel"] == "public")
    at &= near["calibration"] == "tight"
    best = near.loc[at & (near["estimator"] == "preconditioned_regression"), "value"].to_numpy()
    near.loc[at & (near["estimator"] == "adassp"), "value"] = best + more
    return near


def test_the_best_private_estimate_keeps_the_strongest_promise(results, page):
    ranked = rank(View.build(summarize(results), page).series(None) or (), 20000)
    assert ranked.weaker is None
    weak = build_headline(View.build(summarize(results), page)).tiles[0].caption
    best = next(info for info in page.estimators if info.title in weak)
    weaker = [replace(info, relation=info.relation and Relation.LOCAL) for info in page.estimators]
    others = (info if info == best else other for info, other in zip(page.estimators, weaker, strict=True))
    view = View.build(summarize(results), replace(page, estimators=tuple(others)))
    head = build_headline(view)
    assert best.title not in head.tiles[0].caption
    assert f"With a weaker promise ({best.title}" in head.details
    bold = [row[0].text for row in error_table(view, view.headline).cells for c in row if c.kind == "best"]
    assert bold
    assert best.label not in bold


def test_no_estimator_is_called_best_where_repetitions_cannot_tell(results, page):
    """Bold and the sentence on sizes name those that tie, and nothing not clearly better than zero."""
    near = with_adassp_near_the_best(results, 0.001)
    view = View.build(summarize(near), page)
    bold = [row[0].text for row in error_table(view, view.headline).cells if row[-3].kind == "best"]
    assert {"AdaSSP", "Preconditioned regression"} <= set(bold)
    assert "share" in build_headline(view).choice
    unsure = results.copy()
    private = unsure["privacy_model"] != "none"
    zero = unsure.loc[unsure["estimator"] == "zero", "value"].mean()
    spread = np.where(unsure["replicate"] % 2 == 0, 0.7, 1.2)
    unsure.loc[private, "value"] = zero * spread[private]
    view = View.build(summarize(unsure), page)
    cells = [cell.kind for row in error_table(view, view.headline).cells for cell in row]
    assert "best" not in cells
    assert "none is clearly better" in build_headline(view).choice
