"""Nested models by formula are coded as if they were fitted alone."""

import json
import pickle
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import dpalgos.formula as private
from dpalgos import InputError
from dpalgos.answers.stored import model_of, plain_model
from dpalgos.formula.nested import submodel_by_formula
from tests.builders import refused

BOUNDS = {"x": (-2, 2), "z": (0, 3), "y": (-20, 20)}
LEVELS = {"g": ["a", "b"], "h": ["p", "q", "r"]}
TERMS = ["x", "z", "g", "h", "x:z", "x:g", "z:h", "g:h", "x:g:h"]
FORMULAS = tomllib.loads(Path(__file__).with_name("hypotheses.toml").read_text())
WHOLE = "y ~ x*g*h + z*h + x:z"
BUDGET = {"epsilon": 1e6, "delta": 1e-6, "random_state": 0}


@pytest.fixture(scope="module")
def table():
    rng, n = np.random.default_rng(3), 6_000
    frame = pd.DataFrame({"x": rng.uniform(-1.8, 1.8, n), "z": rng.uniform(0.1, 2.9, n)})
    frame["g"] = rng.choice(LEVELS["g"], n, p=[0.6, 0.4])
    frame["h"] = rng.choice(LEVELS["h"], n, p=[0.5, 0.2, 0.3])
    g, h = frame.g == "b", frame.h.map({"p": 0.0, "q": 1.0, "r": -1.5})
    frame["y"] = 2 + frame.x - frame.z * h + 1.5 * g + h * g + frame.x * g * h + 0.3 * rng.standard_normal(n)
    frame["event"] = (rng.random(n) < 1 / (1 + np.exp(-frame.y / 4))).astype(float)
    frame["count"] = rng.poisson(np.exp(frame.y / 12)).astype(float)
    return frame


@pytest.fixture(scope="module")
def whole(table):
    return private.ols(WHOLE, table, bounds=BOUNDS, levels=LEVELS, **BUDGET)


def formulas():
    rng = np.random.default_rng(7)
    kept = [[name for name in TERMS if rng.random() < rng.choice([0.2, 0.5])] for _ in range(60)]
    some = FORMULAS["nested"]
    return [
        f"y ~ {start}{right}"
        for start, right in [
            *(("", each) for each in some),
            *(("0 + ", each) for each in some if each not in ("1", "I(x - 1)", "center(z)")),
            *((rng.choice(["", "0 + "]), " + ".join(each)) for each in kept if each),
        ]
    ]


@pytest.mark.parametrize("formula", formulas())
def test_every_nested_form_is_the_model_that_statsmodels_fits(formula, whole, table):
    own, found = smf.ols(formula, table).fit(), whole.submodel(formula)
    if "center" not in formula:  # which mean is subtracted is public here
        assert set(found.params.index) == set(own.params.index)
        np.testing.assert_allclose(found.params[own.params.index], own.params, atol=0.02)
    np.testing.assert_allclose(found.predict(table.head(50)), own.predict(table.head(50)), atol=0.03)


def test_splines_of_a_nested_model_have_the_knots_of_the_release(table):
    whole = private.ols("y ~ z + h + bs(x, df=5):g", table, bounds=BOUNDS, levels=LEVELS, **BUDGET)
    few, formula = table.head(30), "y ~ bs(x, df=5)"
    own = smf.ols(formula, table).fit().predict(few)  # with knots at other quantiles
    np.testing.assert_allclose(whole.submodel(formula).predict(few), own, atol=0.1)
    refused(lambda: whole.submodel("y ~ x + g:h"), InputError, "g[T.b]:h[p]")


def test_a_list_of_terms_is_coded_as_the_formula_of_these_terms(whole):
    pairs = [(["x:g"], "y ~ x:g"), (["h", "z"], "y ~ h + z"), (["g:h"], "y ~ g:h"), (["Intercept"], "~ 1")]
    for terms, formula in pairs:
        found = whole.submodel(terms)
        assert found.terms == whole.submodel(formula).terms
        np.testing.assert_allclose(found.params, whole.submodel(formula).params)
    assert whole.submodel(["g[T.b]", "x"]).terms == ("Intercept", "g[T.b]", "x")


@pytest.mark.parametrize(("formula", "named"), FORMULAS["outside"].items())
def test_a_model_that_the_release_does_not_span_is_refused_by_name(formula, named, whole):
    refused(lambda: whole.submodel(formula), InputError, named)


def test_an_intercept_that_the_release_lacks_is_refused(table):
    whole = private.ols("y ~ 0 + x + z", table, bounds=BOUNDS, **BUDGET)
    refused(lambda: whole.submodel("y ~ x"), InputError, "Intercept")
    coded = private.ols("y ~ 0 + g + x", table, bounds=BOUNDS, levels=LEVELS, **BUDGET)
    own = smf.ols("y ~ x", table).fit().params
    np.testing.assert_allclose(coded.submodel("y ~ x").params[own.index], own, atol=0.02)


def test_a_release_without_a_formula_refuses_categories_that_would_be_coded_anew(whole):
    names = ("age", "region=south", "region=west", "Intercept", "x")
    groups = {"age": ("age",), "region": names[1:3], "x": ("x",)}
    terms = whole.model.submodel(whole.model.terms[:5])
    plain = replace(terms, terms=names, by_term=groups, columns=("age", "region", "x"), declaration=None)
    for formula in ("y ~ 0 + region", "y ~ age:region", "y ~ region:x + age"):
        refused(lambda formula=formula: submodel_by_formula(plain, formula), InputError, "region")
    refused(lambda: submodel_by_formula(replace(plain, intercept=""), "y ~ age"), InputError, "intercept")


@pytest.mark.parametrize("terms", [None, 5, [1], [["x"]]])
def test_terms_that_are_no_names_are_refused(whole, terms):
    for model in (whole, whole.model):
        refused(lambda model=model: model.submodel(terms), InputError, "terms")


def test_weights_with_labels_in_another_order_are_refused(whole):
    names = list(whole.params.index)
    weights = pd.Series(0.0, index=names)
    weights["x"] = 1.0
    assert (
        whole.t_test(weights).effect == whole.t_test("x").effect == whole.t_test(weights.to_frame().T).effect
    )
    for each in (weights[::-1], weights[::-1].to_frame().T, (weights[::-1], 0)):
        refused(lambda each=each: whole.t_test(each), InputError, "r_matrix")
    refused(lambda: whole.t_test([["a"] * len(names)]), InputError, "r_matrix")


def test_a_released_model_and_nested_ones_can_be_stored(whole, table):
    for model in (whole.model, whole.submodel("y ~ x + g"), whole.submodel(["x", "g"])):
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(table[:9]), model.predict(table[:9]))


def test_rows_of_a_stored_model_are_in_its_order_and_no_refusal_quotes_a_cell(whole):
    stored = model_of(json.loads(json.dumps(plain_model(whole.model))))
    rows = pd.DataFrame(np.eye(3, len(stored.terms)), columns=list(stored.terms))
    np.testing.assert_allclose(stored.predict(rows), stored.params[:3])
    nested = stored.submodel(["x", "g"])
    of_nested = rows[list(nested.terms)]
    for model, each in ((stored, rows), (nested, rows), (nested, of_nested)):
        refused(lambda model=model, each=each: model.predict(each.iloc[:, ::-1]), InputError, "rows")
    turned = pd.DataFrame({name: whole.design.declared[name].values(np.array([0.2, 0.7])) for name in "hgzx"})
    assert (whole.model.predict(turned) == whole.model.predict(turned[["x", "z", "g", "h"]])).all()
    for model in (stored, stored.submodel(["x", "g"])):
        for odd in (rows.astype(object).where(rows < 1, "secret"), [[1.0, 2.0], [3.0]], [1.0], None):
            refused(lambda odd=odd, model=model: model.predict(odd), InputError, "rows", hidden=("secret",))


def test_names_of_a_table_are_a_list_of_one_for_each_coefficient(whole):
    names = [f"b{j}" for j in range(len(whole.params))]
    for model in (whole, whole.model):
        for each in (names, np.array(names), pd.Series(names)):
            assert list(model.table(each)["term"]) == names
        for each in (names[1:], [], "".join("b" for _ in names), 5):
            refused(lambda each=each, model=model: model.table(each), InputError, "names")
