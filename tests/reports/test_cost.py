"""What a page says first: what privacy costs, and what the answer is good for."""

import math
import re
from dataclasses import replace

import pytest

from dpalgos.accounting.events import Relation
from reports.analysis.cost import cost_at
from reports.analysis.ranking import MOST_LINES, first_lines
from reports.analysis.results import SIGNS, summarize
from reports.analysis.series import View
from reports.charts.study_charts import has_one_size
from reports.page import Axis
from reports.words.headline import build_headline

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
    ("error", "spread", "said", "good_for"),
    [
        (0.9115, 0.01, "no private answer is clearly better than not looking at the data", "nothing"),
        (5.0, 0.0, "no private answer is clearly better than not looking at the data", "nothing"),
        (0.7, 0.0, "less exact", "rough idea"),
        (0.1, 0.0, "less exact", "the coefficients as a whole"),
    ],
)
def test_the_cost_and_the_use_of_the_best_private_answer_are_said(
    results, page, error, spread, said, good_for
):
    view = view_of(results, page, error=error, spread=spread)
    assert said in plain(headline_of(view), page)
    assert good_for in build_headline(view).good_for


def test_another_panel_with_a_useful_answer_is_named(results, page):
    rows = results.copy()
    private = rows["privacy_model"] != "none"
    rows.loc[private, "value"] = 5.0
    assert "one is" not in headline_of(View.build(summarize(rows), page))
    rows.loc[private & rows["panel"].eq("paper"), "value"] = 0.1
    assert "in the panel “paper” one is" in plain(headline_of(View.build(summarize(rows), page)), page)


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
    ("right", "said", "signs"),
    [(5.0, "All 5 coefficients keep their signs.", True), (4.99, "All 5", True), (4.6, "About 4 of 5", False),
     (3.2, "About 3 of 5 coefficients keep their signs.", False)],
)  # fmt: skip
def test_signs_are_counted_where_the_answer_is_better_than_zero(results, page, right, said, signs):
    counted = results[results["metric"] == page.metric].assign(metric=SIGNS, value=right)
    rows = results.copy()
    rows.loc[rows["privacy_model"] != "none", "value"] = 0.1
    import pandas as pd

    view = View.build(summarize(pd.concat([rows, counted])), replace(page, n_coefficients=5))
    assert said in plain(headline_of(view), page)
    assert ("positive or negative" in build_headline(view).good_for) is signs


def test_predictions_are_called_good_only_where_they_were_judged(results, page):
    private = results["privacy_model"] != "none"
    for metric, said in (("misclassification", "predictions"), ("l2_error", "the coefficients as a whole")):
        rows = results.assign(metric=metric, value=results["value"] / 10)
        rows.loc[private, "value"] = 0.01
        view = View.build(summarize(rows), replace(page, metric=metric, kind="linear_regression"))
        assert said in build_headline(view).good_for


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
