"""What a page says first: what privacy costs, and what the answer is good for."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from reports.cost import cost_at, enough_epsilon, first_below
from reports.headline import build_headline
from reports.page import Axis
from reports.results import summarize
from reports.series import View
from reports.writing import num

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
