"""What a page says first: what privacy costs, and what the answer is good for."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from data.datasets.housing import parse_cal_housing_tgz
from data.fetch.raw import EMBEDDED
from reports.cost import cost_at, population_error
from reports.headline import build_headline
from reports.page import Axis
from reports.results import summarize
from reports.series import View

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
    assert "instead of" not in headline_of(
        view_of(results, page, error=0.1, metric_label="", axis=Axis("T", "steps"))
    )


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
