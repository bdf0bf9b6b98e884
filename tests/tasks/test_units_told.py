"""Which columns' units matter: at both sides of the gates, and in what init and advise say."""

import math
from pathlib import Path

import pytest

from dpalgos import get_estimator
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.api import build_params
from flows.cli.advise import _choices
from flows.studies.find_study import find_study
from tasks.advice.forecasts import Forecast
from tasks.advice.releases import risk_of_advice
from tasks.advice.units import columns_in_declared_units, numbers_of, units_sentence
from tests.tasks.analyst_tables import init_study
from tests.tasks.test_advise import people, study

EPSILON, DELTA, D = 0.5, 1e-7, 4
MU = gaussian_mu(EPSILON, DELTA)
NUMBERS = ("age", "visits")


def told(estimator, size, **keywords):
    params = build_params(
        get_estimator(estimator), {"epsilon": EPSILON, "delta": DELTA, "intercept": True, **keywords}
    )
    n_rows = math.ceil(size / MU)
    return columns_in_declared_units(params, n_rows, D, NUMBERS, "cost" if "family" not in keywords else "")


@pytest.mark.parametrize(
    ("size", "keywords", "expected"),
    [
        (120, {}, (*NUMBERS, "cost")),
        (150, {}, NUMBERS),
        (590, {}, NUMBERS),
        (610, {}, ()),
        (610, {"units": "declared"}, (*NUMBERS, "cost")),
        (610, {"clip": (3.0, 2.0)}, (*NUMBERS, "cost")),
        (150, {"units": "private"}, ()),
    ],
)
def test_columns_of_a_linear_regression_matter_below_the_gate_of_the_search(size, keywords, expected):
    assert told("preconditioned_regression", size, **keywords) == expected


@pytest.mark.parametrize(
    ("size", "keywords", "expected"),
    [
        (28, {}, ()),
        (32, {}, NUMBERS),
        (510, {}, NUMBERS),
        (530, {}, ()),
        (530, {"units": "declared"}, NUMBERS),
        (530, {"intercept": False}, NUMBERS),
        (32, {"units": "private"}, ()),
    ],
)
def test_columns_of_a_generalized_linear_model_matter_where_there_are_slopes_but_no_search(
    size, keywords, expected
):
    assert told("preconditioned_glm", size, family="logistic", **keywords) == expected


def test_every_column_matters_where_an_estimator_cuts_to_public_bounds():
    same = {"epsilon": EPSILON, "delta": DELTA}
    for name, expected in (("adassp", (*NUMBERS, "cost")), ("tukey_em", ())):
        entry = get_estimator(name)
        params = build_params(entry, {**entry.example, **same})
        assert columns_in_declared_units(params, 10**9, D, NUMBERS, "cost") == expected


def test_no_columns_have_no_sentence():
    params = build_params(get_estimator("preconditioned_regression"), {"epsilon": EPSILON, "delta": DELTA})
    assert units_sentence(params, 10**6, D, NUMBERS, "cost") == ""
    assert "age, visits, cost" in units_sentence(params, 100, D, NUMBERS, "cost")
    assert "8 columns" in units_sentence(params, 100, D, [f"x{j}" for j in range(8)], "")


def test_advice_names_columns_of_numbers_at_few_rows_alone(tmp_path):
    spec = find_study(str(study(tmp_path, people(400), response="cost")))
    assert numbers_of(spec) == (("age", "visits"), "cost")
    assert numbers_of(spec, ("age", "region")) == (("age",), "cost")
    (item,) = [each for each in spec.estimators if each.name == "preconditioned_regression"]
    same = {"estimator": item.name, "form": item.form, "steps": None, "error": 1.0, "low": 0.5, "high": 2.0}
    few, many = (Forecast(**same, n=n, epsilon=e) for n, e in ((400, 0.5), (400, 1000.0)))
    best = {0.5: few, 1000.0: many}
    risks = {epsilon: risk_of_advice(spec, each) for epsilon, each in best.items()}
    lines = list(_choices(spec, best, risks))
    assert ["units matter of age, visits" in line for line in lines] == [False, False, True, False, False]


@pytest.mark.parametrize(("n", "says"), [(400, True), (40_000, False)])
def test_init_names_columns_at_few_rows_alone(tmp_path, n, says):
    people(n).to_csv(tmp_path / "table.csv", index=False)
    said = init_study("mine", Path("table.csv"), folder=tmp_path, response="cost")
    assert ("units matter of age, visits" in said) == says


def test_init_names_columns_as_they_are_in_the_file(tmp_path):
    columns = {"age": '"q"', "visits": "a\\b"}
    people(400).rename(columns=columns).to_csv(tmp_path / "table.csv", index=False)
    said = init_study("mine", Path("table.csv"), folder=tmp_path, response="cost")
    assert f"units matter of {', '.join(columns.values())}" in said
