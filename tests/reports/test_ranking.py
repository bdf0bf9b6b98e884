"""What a page says first: the values that its sentences get, and no contradiction with the table."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dpalgos.accounting.events import Relation
from reports import headline
from reports.charts.study import NEW_SAMPLE, StudyChart, draw_study
from reports.headline import build_headline
from reports.page import Axis
from reports.ranking import (
    cost_at,
    enough_epsilon,
    first_below,
    measured,
    new_sample_error,
    rank,
    rows_for_the_same,
)
from reports.results import summarize
from reports.series import View
from reports.table import error_table
from reports.writing import num, times

NORM_OR_SYMBOL = re.compile(r"ℓ|δ|‖|σ|[²√±]|norm|z-score|error bar")


@pytest.fixture
def told(monkeypatch):
    """What the sentences of a headline are made of: macro → its values."""
    values, render = {}, headline.render_sentence

    def recorded(macro, **found):
        values[macro] = found
        return render(macro, **found)

    monkeypatch.setattr(headline, "render_sentence", recorded)
    return values


def view_of(results, page, *, error=None, spread=0.0, **changes):
    """Return a view in which every private answer at ε = 0.5 has an error, with a spread over repetitions."""
    rows = results.copy()
    private = rows["privacy_model"] != "none"
    if error is not None:
        rows.loc[private, "value"] = error + spread * (rows.loc[private, "replicate"] % 2)
    return View.build(summarize(rows), replace(page, **changes))


def plain(sentence, page):
    assert len(sentence.split()) <= 30, sentence
    assert not NORM_OR_SYMBOL.search(sentence), sentence
    assert not any(info.title in sentence for info in page.estimators), sentence
    return sentence


def test_rows_without_privacy_of_the_same_accuracy_follow_from_the_factor(results, page):
    view = view_of(results, page, error=0.1)
    cost = cost_at(view, view.headline, 20_000)
    assert cost.worth.value == pytest.approx(20_000 / cost.factor.value**2)
    low, high = cost.worth.limits
    assert low < cost.worth.value < high
    assert "instead of 20,000" in plain(build_headline(view).sentence, page)
    of_steps = view_of(results, page, error=0.1, metric_label="", axis=Axis("T", "steps"))
    assert math.isnan(cost_at(of_steps, of_steps.headline, 20_000).worth.value)


def test_the_wanted_error_is_found_between_points_and_never_beyond():
    points = [(1.0, 4.0, 0.0), (4.0, 2.0, 0.0), (16.0, 1.0, 0.0)]
    assert first_below(2.0, points) == pytest.approx((4, 4))
    assert first_below(1.5, points) == pytest.approx((4 * (2 / 1.5) ** 2,) * 2)
    low, high = first_below(1.5, [(x, error, 0.1 * error) for x, error, _ in points])
    assert low < 4 * (2 / 1.5) ** 2 < high
    assert first_below(8.0, points) == (1.0, 1.0)
    assert first_below(0.5, points) == (math.inf, math.inf)
    assert first_below(0.5, [(1.0, math.nan, 0.0)]) == (math.inf, math.inf)


POPULATION = 40_000
SIZES = (100, 1000, 10_000, 20_000, 30_000)


def chance(m):
    return 3 / math.sqrt(m)


@pytest.fixture
def view_of_chance(results, page):
    """A function that returns a view of answers to which privacy adds an error, on rows of a population."""

    def build(privacy, sizes=SIZES):
        rows = results[results["panel"].eq("public") & results["n"].isin([100, 1000, 10_000, 20_000])].copy()
        rows = rows[rows["estimator"].isin(["ols", "zero", "preconditioned_regression"])]
        copy = rows[rows["n"].eq(20_000)].assign(n=30_000)
        copy["cell"] += "+"
        rows = pd.concat([rows, copy], ignore_index=True)
        rows = rows[rows["n"].isin(sizes)].reset_index(drop=True)
        within = rows["n"].map(lambda m: chance(m) * math.sqrt(1 - m / POPULATION))
        beside = [privacy(m, e) for m, e in zip(rows["n"], rows["epsilon"], strict=True)]
        error = (within**2 + [p * p if math.isfinite(p) else 0.0 for p in beside]) ** 0.5
        rows["value"] = error.where(rows["estimator"] != "zero", 9.0)
        changes = {"population": (POPULATION, "rows"), "headline": {**page.headline, "n": max(sizes)}}
        return View.build(summarize(rows), replace(page, **changes))

    return build


def test_the_error_of_a_new_sample_falls_with_the_root_where_the_table_ends(view_of_chance):
    view = view_of_chance(lambda m, e: 1.2 * chance(m) / e)
    for m in SIZES:
        assert new_sample_error(view, view.headline, m).value == pytest.approx(chance(m), rel=1e-6)


def test_a_page_has_one_reference(view_of_chance, told):
    """The number to quote is the quotient of two numbers next to it; picture and its words have the same."""
    view = view_of_chance(lambda m, e: 2 * chance(m) + 0 * e)
    head, cost = build_headline(view), cost_at(view, view.headline, 30_000)
    assert cost.of_new_sample
    assert cost.without.value == pytest.approx(chance(30_000))
    assert cost.factor.value == pytest.approx(cost.private.value / cost.without.value)
    assert cost.factor.value == pytest.approx(math.sqrt(5))
    assert head.number.value == times(cost.factor.value)
    for value in (cost.private.value, cost.without.value):
        assert num(value) in head.number.caption
    assert num(cost.without.value) in draw_study(view, view.table).main.alt
    assert head.errors["without"][0] == cost.without.value


def test_a_sample_of_most_rows_is_no_reference(view_of_chance):
    """Beyond half of the table only private lines and that of a new sample are drawn."""
    view = view_of_chance(lambda m, e: 2 * chance(m) + 0 * e)
    rows = StudyChart.build(view, view.table).rows
    largest = rows[rows["metric"].eq("l2_error")].groupby("line")["n"].max()
    assert largest["Ordinary least squares"] == POPULATION / 2
    assert largest["Preconditioned regression, tight"] == largest[NEW_SAMPLE] == 30_000
    drawn = StudyChart.build(view, view.table).chosen([NEW_SAMPLE])
    assert drawn["mean"].tolist() == pytest.approx([chance(m) for m in SIZES])


def test_privacy_stops_to_matter_where_it_adds_less_than_sampling(view_of_chance):
    def needed(factor):
        found = enough_epsilon(view_of_chance(lambda m, e: factor * chance(m) / e))
        assert found["sample"].value == pytest.approx(chance(30_000))
        return found["needed"]

    assert needed(1.2) == pytest.approx((1.2, 1.2), rel=0.02)
    assert needed(1e-6) == pytest.approx((0.2, 0.2))  # the smallest ε
    assert needed(6) == (math.inf, math.inf)  # above the largest ε


def test_rows_that_make_up_for_privacy_are_counted_between_sizes(view_of_chance):
    found = rows_for_the_same(view_of_chance(lambda m, e: chance(m) + 0 * e, sizes=(100, 1000, 10_000)))
    assert found["worth"].value == pytest.approx(10_000 / 2)
    assert found["needed"] == (math.inf, math.inf)
    assert found["last"] == 10_000


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
        near = max(best.mean + rng.uniform(-3, 3) * best.error, best.mean / 2)
        rows.loc[rows["estimator"] == "zero", "value"] = near
        view = View.build(summarize(rows), page)
    return view


def points_of(view, x):
    """Return the mean and standard error of each private series at a size, and zero's error."""
    series = view.series(view.headline)
    private = {s.label: p for s in series if s.role == "private" and (p := s.at(x)) and p.answered}
    at_zero = next((p for s in series if s.info.name == "zero" and (p := s.at(x)) and p.answered), None)
    return private, at_zero.mean if at_zero else math.nan


@pytest.mark.parametrize("seed", range(12))
def test_no_sentence_is_contradicted_by_the_table(results, page, seed, told):
    view = random_view(results, page, seed)
    head, x = build_headline(view), view.headline_size
    plain(head.sentence, page)
    private, zero = points_of(view, x)
    best = min(private.values(), key=lambda point: point.mean)
    cost = told["plain_headline"]["cost"]
    assert cost.beats_zero is (best.mean + 2 * best.error < zero)
    found = told["best_by_size"]
    for series, where in found["runs"]:
        for size in sizes_of(where, view):
            at, _ = points_of(view, size)
            claimed = at.pop(series.label)
            for other in at.values():
                assert claimed.mean + 2 * math.hypot(claimed.error, other.error) < other.mean
    for size in [*found["zero_wins"], *found["zero_ties"]]:
        at, at_zero = points_of(view, size)
        least = min(at.values(), key=lambda point: point.mean)
        assert least.mean + 2 * least.error >= at_zero
        assert size in found["zero_ties"] or least.mean - 2 * least.error > at_zero


def sizes_of(text, view):
    sizes = sorted({p.x for s in view.series(view.headline) for p in s.points})
    found = [float(each.replace(",", "")) for each in re.findall(r"\d[\d,]*(?<!,)", text)]
    return [x for x in sizes if found[0] <= x <= found[-1]] if " to " in text else found


@pytest.mark.parametrize("seed", range(0, 12, 3))
def test_every_number_of_the_details_is_one_of_the_table(results, page, seed, told):
    view = random_view(results, page, seed)
    build_headline(view)
    x, values = view.headline_size, told["details"]
    private, zero = points_of(view, x)
    best = values["ranking"].best
    assert best[1] is private[best[0].label]
    assert measured(best[1]).value == min(point.mean for point in private.values())
    assert values["ranking"].zero == zero
    assert values["ranking"].non_private[1].mean in [
        p.mean for s in view.series(view.headline) for p in s.points
    ]


def with_adassp_near_the_best(results, more):
    near = results.copy()
    at = (near["n"] == 20_000) & (near["epsilon"] == 0.5) & (near["panel"] == "public")
    at &= near["calibration"] == "tight"
    best = near.loc[at & (near["estimator"] == "preconditioned_regression"), "value"].to_numpy()
    near.loc[at & (near["estimator"] == "adassp"), "value"] = best + more
    return near


def test_the_best_private_estimate_has_the_strongest_guarantee(results, page, told):
    view = View.build(summarize(results), page)
    ranked = rank(view.series(view.headline), 20_000)
    assert ranked.weaker is None
    weak = ranked.best[0].info
    local = [replace(info, relation=info.relation and Relation.LOCAL) for info in page.estimators]
    others = (info if info == weak else other for info, other in zip(page.estimators, local, strict=True))
    view = View.build(summarize(results), replace(page, estimators=tuple(others)))
    build_headline(view)
    ranking = told["details"]["ranking"]
    assert ranking.best[0].info.privacy_model == "local"
    assert ranking.weaker[0].info == weak
    bold = [row[0].text for row in error_table(view, view.headline).cells for c in row if c.kind == "best"]
    assert bold
    assert ranking.weaker[0].name not in bold


def test_no_estimator_is_called_best_where_repetitions_cannot_tell(results, page, told):
    """Bold and the sentence on sizes name those that tie, and nothing not clearly better than zero."""
    near = with_adassp_near_the_best(results, 0.001)
    view = View.build(summarize(near), page)
    bold = [row[0].text for row in error_table(view, view.headline).cells if row[-3].kind == "best"]
    assert {"AdaSSP", "Preconditioned regression"} <= set(bold)
    build_headline(view)
    assert told["best_by_size"]["ties"]
    unsure = results.copy()
    private = unsure["privacy_model"] != "none"
    zero = unsure.loc[unsure["estimator"] == "zero", "value"].mean()
    spread = np.where(unsure["replicate"] % 2 == 0, 0.7, 1.2)
    unsure.loc[private, "value"] = zero * spread[private]
    view = View.build(summarize(unsure), page)
    cells = [cell.kind for row in error_table(view, view.headline).cells for cell in row]
    assert "best" not in cells
    build_headline(view)
    assert told["best_by_size"]["zero_ties"]
