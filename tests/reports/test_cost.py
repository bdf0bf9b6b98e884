"""What a page says first: what privacy costs, and what the answer is good for."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from data.datasets.housing import parse_cal_housing_tgz
from data.fetch.raw import EMBEDDED
from dpalgos.accounting.events import Relation
from reports.charts.study import has_one_size
from reports.cost import MOST_LINES, cost_at, enough_epsilon, first_lines, population_error
from reports.headline import build_headline
from reports.page import Axis
from reports.pages.index import relative_errors
from reports.results import SIGNS, summarize
from reports.series import View
from reports.writing import num, times

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


@pytest.mark.parametrize(
    ("error", "spread", "said"),
    [
        (0.9115, 0.01, "no private answer is clearly better than not looking at the data"),
        (5.0, 0.0, "no private answer is clearly better than not looking at the data"),
        (0.1, 0.0, "less exact"),
    ],
)
def test_the_cost_of_the_best_private_answer_is_said(results, page, error, spread, said):
    view = view_of(results, page, error=error, spread=spread)
    assert said in plain(headline_of(view), page)


@pytest.mark.parametrize(("error", "factor"), [(5.0, False), (0.1, True)])
def test_the_number_to_quote_is_the_factor_of_the_sentence_or_the_error_of_a_useless_answer(
    results, page, error, factor
):
    view = view_of(results, page, error=error)
    cost, number = cost_at(view, view.headline, 20_000), build_headline(view).number
    assert number.value == (times(cost.factor) if factor else num(error))
    assert (number.value in headline_of(view)) is factor
    assert ("no better than answering zero" in number.caption) is not factor


def test_an_answer_as_good_as_without_privacy_costs_next_to_nothing(results, page):
    at_head = results["n"].eq(20_000) & results["estimator"].eq("ols") & results["panel"].eq("public")
    without = results.loc[at_head, "value"].mean()
    view = view_of(results, page, error=without)
    assert "costs next to nothing" in plain(headline_of(view), page)


def test_rows_that_tell_the_same_without_privacy_follow_from_the_factor(results, page):
    view = view_of(results, page, error=0.1)
    cost = cost_at(view, view.headline, 20_000)
    assert cost.worth == pytest.approx(20_000 / cost.factor**2)
    low, high = cost.worths
    assert low < cost.worth < high
    worth = f"{float(f'{low:.2g}'):,.0f} to {float(f'{high:.2g}'):,.0f} rows instead of 20,000"
    assert worth in plain(headline_of(view), page)
    assert "instead of" not in headline_of(
        view_of(results, page, error=0.1, metric_label="", axis=Axis("T", "steps"))
    )


def test_data_that_teach_nothing_even_without_privacy_are_named(results, page):
    rows = results.copy()
    rows.loc[rows["estimator"] == "ols", "value"] = 3.0
    said = plain(headline_of(View.build(summarize(rows), page)), page)
    assert "too few to learn anything" in said


def test_shares_are_compared_as_they_are(results, page):
    rows = results.assign(metric="misclassification", value=results["value"] / 10)
    said = plain(headline_of(View.build(summarize(rows), replace(page, metric="misclassification"))), page)
    assert re.search(r"raises the share of wrong answers from [\d.]+ % to [\d.]+ %; not looking", said)


@pytest.mark.parametrize(
    ("right", "said"),
    [(5.0, "All 5 coefficients keep their signs."), (4.99, "All 5"), (4.6, "About 4 of 5"),
     (3.2, "About 3 of 5 coefficients keep their signs.")],
)  # fmt: skip
def test_signs_are_counted_where_the_answer_is_better_than_zero(results, page, right, said):
    counted = results[results["metric"] == page.metric].assign(metric=SIGNS, value=right)
    rows = results.copy()
    rows.loc[rows["privacy_model"] != "none", "value"] = 0.1
    view = View.build(summarize(pd.concat([rows, counted])), replace(page, n_coefficients=5))
    assert said in plain(headline_of(view), page)
    own = replace(view.page, exhibits={"own_table": {}})  # which says of its own answer which signs are known
    assert "signs" not in headline_of(View.build(summarize(pd.concat([rows, counted])), own))


def test_protecting_users_and_reports_is_called_so(results, page):
    for relation, said in (
        (Relation.LOCAL, "Local privacy at ε"),
        (Relation.USER, "Protecting whole users at ε"),
    ):
        infos = tuple(replace(info, relation=info.relation and relation) for info in page.estimators)
        assert said in plain(headline_of(view_of(results, page, error=0.1, estimators=infos)), page)


def test_a_chart_begins_with_five_lines_and_the_pages_subject(results, page):
    view = view_of(results, page)
    shown = first_lines(view, view.headline, 20_000)
    assert len(shown) <= MOST_LINES
    assert {"zero", "nonprivate", "private"} <= {series.role for series in shown}
    assert any(series.calibration == "paper" for series in shown)
    others = [s.info.name for s in view.series(view.headline) if s not in shown and s.role == "private"]
    subject = others[0]
    about = replace(view.page, about=subject)
    again = first_lines(replace(view, page=about), view.headline, 20_000)
    assert subject in {series.info.name for series in again}


def test_epsilon_is_the_axis_where_there_is_one_size(results, page):
    one = results[results["n"] == 20_000]
    assert has_one_size(View.build(summarize(one), page))
    assert not has_one_size(View.build(summarize(results), page))
    one_epsilon = one[one["epsilon"].isna() | one["epsilon"].eq(0.5)]
    assert not has_one_size(View.build(summarize(one_epsilon), page))


def test_a_factor_of_logarithms_is_that_of_errors(results, page):
    rows = results.assign(metric="log_squared_error", value=2 * results["value"].map(math.log))
    logs = View.build(summarize(rows), replace(page, metric="log_squared_error"))
    assert cost_at(logs, logs.headline, 20_000).factor > 1


def housing_in_standard_deviations():
    columns = ["median_income", "housing_median_age", "population", "households", "total_rooms"]
    table = parse_cal_housing_tgz(EMBEDDED / "housing" / "cal_housing.tgz")[
        [*columns, "median_house_value"]
    ].astype(float)
    values = ((table - table.mean()) / table.std(ddof=0)).to_numpy()
    return np.column_stack([values[:, :-1], np.ones(len(values))]), values[:, -1]


def population_view(results, page, errors, n_rows):
    """Return a view whose least squares have the errors ``{size: errors of repetitions}``."""
    own = results[results["estimator"].eq("ols") & results["panel"].eq("public")].head(1)
    found = [
        own.assign(n=m, cell=f"ols/{m}", replicate=r, value=value)
        for m, values in errors.items()
        for r, value in enumerate(values)
    ]
    rows = pd.concat([results[results["estimator"] != "ols"], *found], ignore_index=True)
    rows.loc[rows["privacy_model"] != "none", "value"] = 0.11
    return View.build(summarize(rows), replace(page, population=(n_rows, "rows")))


def test_rows_of_a_large_population_err_as_a_bootstrap_says(results, page):
    """California housing: 20,000 rows drawn with replacement err by .0507 ± .0018."""
    (X, y), rng = housing_in_standard_deviations(), np.random.default_rng(4)
    full = np.linalg.lstsq(X, y, rcond=None)[0]

    def error(rows):
        return np.linalg.norm((np.linalg.lstsq(X[rows], y[rows], rcond=None)[0] - full)[:-1])

    sizes = (1000, 2000, 5000, 10_000, 20_000)
    errors = {m: [error(rng.choice(len(y), m, replace=False)) for _ in range(60)] for m in sizes}
    view = population_view(results, page, errors, len(y))
    chance = population_error(view, 20_000)
    assert chance.mean == pytest.approx(0.0507, abs=2 * math.hypot(chance.se, 0.0018))
    assert 0.04 < chance.mean < 0.062
    assert cost_at(view, view.headline, 20_000).factor == pytest.approx(2.4, rel=0.25)


@pytest.mark.parametrize("sizes", [(6000, 9000), (2000, 9000), (9000,)])
def test_an_error_about_a_population_that_no_two_small_sizes_tell_is_not_stated(results, page, sizes):
    view = population_view(results, page, {m: [0.1, 0.2] for m in sizes}, 10_000)
    assert population_error(view, 9000) is None


def test_no_factor_is_said_over_the_error_of_next_to_all_rows(results, page):
    view = population_view(results, page, {100: [0.5, 0.6], 20_000: [0.0007, 0.0008]}, 20_640)
    assert math.isnan(cost_at(view, view.headline, 20_000).factor)
    assert "times less exact" not in headline_of(view)
    assert math.isfinite(cost_at(view, view.headline, 100).factor)


def test_the_error_of_the_extrapolation_counts_what_the_root_of_the_rows_misses(results, page):
    exact = {m: [0.1 * math.sqrt((1 - m / 10_000) / m)] * 3 for m in (500, 1000, 2500, 9000)}
    chance = population_error(population_view(results, page, exact, 10_000), 9000)
    assert (chance.mean, chance.deviation) == pytest.approx((0.1 / math.sqrt(9000), 0), abs=1e-9)
    slower = {m: [error * m**0.2 for error in errors] for m, errors in exact.items()}
    chance = population_error(population_view(results, page, slower, 10_000), 9000)
    assert chance.deviation == pytest.approx(0.2 * math.log(2.5))


@pytest.mark.parametrize(("error", "useless"), [(0.9115, True), (5.0, True), (0.1, False)])
def test_tiles_of_a_useless_answer_say_so(results, page, error, useless):
    view = view_of(results, page, error=error, spread=0.01)
    best, *others = build_headline(view).tiles
    assert ("no better than answering zero" in best.caption) == useless
    assert any("times the error" in tile.caption for tile in others) != useless


def test_the_factor_at_the_largest_epsilon_is_the_same_on_every_page(results, page):
    view = population_view(results, page, {m: [1 / m**0.5] for m in (1000, 2000, 5000, 20_000)}, 20_640)
    factors = {epsilon: factor for epsilon, factor, _ in relative_errors(view)}
    said = re.search(r"at ε = (\S+) the error is (\S+) times", enough_epsilon(view))
    assert said[2] == times(factors[float(said[1])])
