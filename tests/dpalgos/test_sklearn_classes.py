"""The scikit-learn classes: its own checks, and that they answer what the estimators answer."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import check_estimator

import dpalgos
from data.collections.league import columns_of
from dpalgos import AccuracyWarning, InputError, PrivacyWarning, formula
from dpalgos import sklearn as ours
from dpalgos.formula.columns import NumberColumn
from dpalgos.formula.design import design_of
from tasks.own_table.analyst_table import fitted_columns
from tests.builders import declared_column
from tests.dpalgos.silence import estimated

ASKED = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
NOT_COUNTS = "the check's responses are not counts, and a Poisson regression refuses them"
MODELS = [
    ours.DPLinearRegression(**ASKED),
    ours.DPSparseLinearRegression(**ASKED, sparsity=1, covariate_bound=3.0, response_bound=3.0),
    ours.DPPoissonRegressor(**ASKED),
    ours.DPLogisticRegression(**ASKED),
    ours.DPMultinomialRegression(**ASKED),
    ours.PublicScaler(center=0.5, scale=2.0),
    ours.DPMean(**ASKED, value_bound=3.0),
    ours.DPBoundedMean(**ASKED, lower=-3.0, upper=3.0),
    ours.DPSparseMean(**ASKED, value_bound=3.0, sparsity=1),
]
FAILURES = ("n_features_in_after_fitting", "regressors_train", "regressor_data_not_an_array")
FAILURES += ("regressors_no_decision_function", "fit_idempotent", "fit_check_is_fitted", "n_features_in")
EXPECTED_FAILURES = {"DPPoissonRegressor": {f"check_{name}": NOT_COUNTS for name in FAILURES}}


def table(n=4000):
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (n, 3))
    return X, X @ [1.0, -0.5, 0.0] + 0.3, rng


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_scikit_learn_finds_no_fault_but_the_named_ones(model):
    expected = EXPECTED_FAILURES.get(type(model).__name__, {})
    found = check_estimator(model, expected_failed_checks=expected, on_skip=None, on_fail=None)
    failed = {each["check_name"]: str(each["exception"]) for each in found if each["status"] == "failed"}
    assert failed == {}
    assert {each["check_name"] for each in found if each["status"] == "xfail"} == set(expected)
    assert all("whole numbers" in str(each["exception"]) for each in found if each["status"] == "xfail")


def test_fits_take_people_and_weights():
    X, u, rng = table()
    people, y = np.arange(len(X)) // 2, u + 0.1 * rng.standard_normal(len(X))
    for model, response in (
        (ours.DPLinearRegression, y),
        (ours.DPLogisticRegression, np.where(u + rng.logistic(size=len(u)) > 0, "b", "a")),
        (ours.DPPoissonRegressor, np.round(np.exp(y))),
    ):
        weights = rng.uniform(0, 2, len(X))
        classes = {"classes": ["a", "b"]} if model is ours.DPLogisticRegression else {}
        fitted = model(**ASKED, max_weight=2.0, interval=0.95, **classes).fit(
            X, response, user_ids=people, sample_weight=weights
        )
        assert "one user" in str(fitted.summary())
        assert np.isfinite(fitted.interval_).any()
        rows = model(**ASKED, person_weight="rows", max_rows=2, **classes).fit(X, response, user_ids=people)
        assert rows.risk_.unit == "user"
    sparse = ours.DPSparseLinearRegression(**ASKED, sparsity=1, covariate_bound=3.0, response_bound=3.0)
    for keywords in ({"user_ids": people}, {"sample_weight": np.ones(len(X))}):
        with pytest.raises(InputError):
            sparse.fit(X, y, **keywords)


def test_a_fit_is_the_answer_of_the_estimator_and_says_what_it_cost():
    X, u, rng = table()
    y = u + 0.1 * rng.standard_normal(len(X))
    model = ours.DPLinearRegression(epsilon=1.0, delta=1e-6, random_state=np.random.default_rng(7)).fit(X, y)
    rows, ask = np.column_stack([X, np.ones(len(X))]), {"epsilon": 1.0, "delta": 1e-6, "intercept": True}
    same = estimated("preconditioned_regression", rows, y, seed=7, **ask)
    np.testing.assert_array_equal([*model.coef_, model.intercept_], same.estimate)
    assert model.privacy_spent_ == (same.certified_epsilon, 1e-6)
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_)
    assert model.score(X, y) > 0.9


def test_a_summary_shows_names_intervals_cost_and_what_is_public_as_text_and_html():
    X, u, _ = table(4000)
    model = ours.DPMean(**ASKED, value_bound=1.0, interval=0.9).fit(X)
    assert model.interval_.shape == (2, 3)
    assert ((model.interval_[0] < model.mean_) & (model.mean_ < model.interval_[1])).all()
    cost, public = "each row at ε = 1, δ = 1e-06", "value_bound = 1.0"
    for each in (f"{model.interval_[0, 1]:.4g}", "ci_low", "90%", "x2", cost, public):
        assert each in str(model.summary())
        assert each in model._repr_html_()
    labels = ours.DPLogisticRegression(**ASKED).fit(X, np.where(u > 0, "yes", "no")).summary()
    assert all(f"\n{name} " in str(labels) for name in ("x0", "x2", "intercept"))
    plain = ours.DPMean(**ASKED, value_bound=1.0)
    assert "ε = 1" not in plain._repr_html_()
    assert plain.fit(X).interval_ is None


def people(n=20_000):
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({"age": rng.uniform(20, 70, n), "smoker": rng.integers(0, 2, n)})
    frame["region"] = rng.choice(LEVELS["region"], n)
    effect = frame.region.map({"north": 0, "far west": 10, "south": -5}) + 20 * frame.smoker
    return frame, 100 + 2 * frame.age + effect + 20 * rng.standard_normal(n)


LEVELS = {"region": ["north", "far west", "south"]}
PEOPLE = {"bounds": {"age": (18, 75), "smoker": (0, 1)}, "levels": LEVELS}
OF_PEOPLE = {**ASKED, **PEOPLE, "y_bounds": (0, 400), "interval": 0.95}


def test_declared_levels_are_those_of_columns_of_0_and_1():
    mixed, y = people(4000)
    coded = mixed.assign(west=1.0 * (mixed.region == "far west"), south=1.0 * (mixed.region == "south"))
    options = {"epsilon": 1.0, "delta": 1e-8, "y_bounds": (0, 400), "random_state": 0}
    bounds, levels = PEOPLE["bounds"], {"region": [*LEVELS["region"]]}
    named = ours.DPLinearRegression(bounds=bounds, levels=levels, **options).fit(mixed, y)
    placed = ours.DPLinearRegression(bounds={**bounds, "west": (0, 1), "south": (0, 1)}, **options)
    rows = coded[["age", "smoker", "west", "south"]]
    placed.fit(rows, y)
    np.testing.assert_array_equal(named.coef_, placed.coef_)
    assert list(named.table()["term"]) == ["age", "smoker", "region=far west", "region=south", "intercept"]
    predicted = named.predict(mixed)
    exact = rows.assign(one=1.0).to_numpy()
    assert np.corrcoef(predicted, exact @ np.linalg.lstsq(exact, y)[0])[0, 1] > 0.9
    levels["region"].reverse()  # a fit keeps the levels that it had
    np.testing.assert_array_equal(named.predict(mixed), predicted)
    levels["region"].reverse()
    wrong = {"region": ["north", "south"]}, {"region": ["north"]}, {"zone": ["a", "b"]}
    odd = [mixed.rename(columns={"age": name}) for name in ("intercept", "region=south")]
    odd += [mixed.assign(region=np.array([None, *mixed.region[1:]])).convert_dtypes()]  # pandas.NA
    for X, stated in (*((mixed, each) for each in wrong), *((X, levels) for X in odd)):
        with pytest.raises(InputError, match=r"region|zone|intercept"):
            ours.DPLinearRegression(levels=stated, **options).fit(X, y)
    with pytest.raises(InputError, match="data frame"):
        named.predict(mixed.to_numpy())


def test_bounds_mean_the_same_unit_in_classes_formulas_studies_and_the_league():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"age": rng.uniform(18, 90, 300), "cost": rng.uniform(0, 2000, 300)})
    bounds = {"age": (18.0, 90.0), "cost": (0.0, 2000.0)}
    asked = {**ASKED, "bounds": {"age": bounds["age"]}, "y_bounds": bounds["cost"]}
    model = ours.DPLinearRegression(**asked).fit(frame[["age"]], frame["cost"])
    declared = {name: NumberColumn(*ends) for name, ends in bounds.items()}
    units, design = model._units_of(frame[["age"]].to_numpy()), design_of("cost ~ age", declared)
    fitted, response = design.matrix({"age": np.array([54.0, 72.0])})[:, 0], model._response
    np.testing.assert_allclose(fitted, [0, 1], atol=0.01)
    (in_study,) = fitted_columns(declared_column("age", lower=18, upper=90))
    assert (units.center[0], units.scale[0]) == (in_study.center, in_study.scale) == (54.0, 18.0)
    assert (response.center[0], response.scale[0]) == (design.response.center, design.response.scale)
    in_league = columns_of({"columns": {"age": [18, 90]}, "response": ""})
    assert [(each.center, each.scale) for each in in_league] == [(54.0, 18.0)]
    around_zero = ours.PublicScaler(bounds=(-1.0, 3.0)).fit_transform([[3.0], [-1.0]])
    np.testing.assert_allclose(around_zero, [[2.0], [-2.0]])


BUDGET = {"epsilon": 1.0, "delta": 1e-6}
UNITS = {"center": [100.0, 2000.0, 0.5], "scale": [50.0, 1000.0, 0.5]}
RAW_BOUNDS = ([50.0, 1000.0, 0.0], [150.0, 3000.0, 1.0])


def raw_table(n=20_000, seed=3):
    rng = np.random.default_rng(seed)
    Z = rng.uniform(-1, 1, (n, 3))
    y = 1e6 + 2e5 * (Z @ [1.0, -0.5, 0.0] + 0.1 * rng.standard_normal(n))
    X = Z * UNITS["scale"] + UNITS["center"]
    coef = 2e5 * np.array([1.0, -0.5, 0.0]) / UNITS["scale"]
    return X, y, coef, 1e6 - coef @ UNITS["center"]


@pytest.mark.filterwarnings("error", "ignore::dpalgos.SeededNoiseWarning")
def test_with_public_bounds_raw_columns_give_raw_coefficients_and_intervals():
    X, y, coef, intercept = raw_table()
    units = {"bounds": RAW_BOUNDS, "y_bounds": (5e5, 1.5e6)}
    model = ours.DPLinearRegression(**BUDGET, **units, interval=0.999, random_state=3).fit(X, y)
    np.testing.assert_allclose([*model.coef_[:2], model.intercept_], [*coef[:2], intercept], rtol=0.02)
    low, high = model.interval_
    assert ((low < [*coef, intercept]) & ([*coef, intercept] < high)).all()
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_)


def test_many_rows_beyond_the_bounds_leave_no_interval_in_classes_and_formulas():
    x, noise = np.random.default_rng(0).standard_normal((2, 10_000))
    frame, asked = pd.DataFrame({"x": x, "y": x + noise}), {**ASKED, "epsilon": 5.0, "interval": 0.95}
    for ends, finite in (((-1.6, 1.6), False), ((-6, 6), True)):
        fitted = ours.DPLinearRegression(bounds=ends, y_bounds=(-9, 9), **asked).fit(frame[["x"]], frame.y)
        found = formula.ols("y ~ x", frame, bounds={"x": ends, "y": (-9, 9)}, **asked)
        assert [np.isfinite(each.conf_int().loc["x"]).all() for each in (fitted, found)] == [finite] * 2


@pytest.mark.parametrize("intercept", [True, False])
def test_predictions_stay_within_declared_bounds_of_the_response(intercept):
    X, y, *_ = raw_table(2000)
    units = {"bounds": RAW_BOUNDS, "y_bounds": (9e5, 1.1e6), "fit_intercept": intercept}
    model = ours.DPLinearRegression(**BUDGET, **units, random_state=2).fit(X, y)
    plain = X @ model.coef_ + model.intercept_
    assert ((plain < 9e5) | (plain > 1.1e6)).any()
    np.testing.assert_allclose(model.predict(X), np.clip(plain, 9e5, 1.1e6))


@pytest.mark.parametrize(
    ("unit", "wrong"), [(1, []), (1e4, ["a direction", "unit"]), (1e-3, ["3 direction"])]
)
def test_what_released_numbers_say_against_an_answer_is_said(unit, wrong):
    X, y, *_ = raw_table(2000)
    X, y = unit * (X - UNITS["center"]) / UNITS["scale"], (y - 1e6) / 2e5
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        ours.DPLinearRegression(**BUDGET, random_state=1).fit(X, y)
    said = [str(each.message) for each in warned if each.category is AccuracyWarning]
    assert [part for part, sentence in zip(wrong, said, strict=True) if part in sentence] == wrong


def test_a_bound_that_raw_columns_exceed_is_warned_about():
    with pytest.warns(UserWarning, match="value_bound = 1"):
        ours.DPMean(**BUDGET, value_bound=1.0, random_state=0).fit(raw_table(2000)[0])
    rare = (np.arange(2000)[:, None] % 50 == 0) * 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the bounds are ±2 in public units, so none is clipped
        warnings.simplefilter("ignore", dpalgos.SeededNoiseWarning)
        ours.DPMean(**BUDGET, value_bound=2.0, bounds=(0, 1), random_state=0).fit(rare)


@pytest.mark.parametrize("name", [each for each in dpalgos.sklearn.__all__ if each.startswith("DP")])
def test_a_wrong_keyword_is_refused_in_the_name_of_the_class(name):
    with pytest.raises(TypeError, match=rf"^{name}\b.*nonsense"):
        getattr(dpalgos.sklearn, name)(nonsense=1)


@pytest.mark.filterwarnings("error", "ignore::dpalgos.SeededNoiseWarning")
def test_promises_that_protect_nobody_are_warned_about():
    X, ends = np.linspace(0, 1, 2000)[:, None], {"lower": 0.0, "upper": 1.0}
    for asked, named in ({"epsilon": 21.0}, "epsilon = 21"), ({"delta": 1 / 2000}, "delta = 0.0005"):
        with pytest.warns(PrivacyWarning, match=named):
            estimated("box_mean", X, **ends, **{**BUDGET, **asked})
    estimated("box_mean", X, **ends, epsilon=20.0, delta=1 / 2001)


HEAVY = ("scipy.special", "scipy.stats", "scipy.optimize", "scipy.linalg", "pandas", "sklearn", "prefect")
HEAVY += ("dp_accounting", "opendp", "vl_convert")
FOUND = ("dp_mean", "preconditioned_glm", "ldp_iht_general")
NEEDLESS = [
    ("", HEAVY),
    *((f"dpalgos.get_estimator({name!r})", ("dpalgos.nonprivate.ols",)) for name in FOUND),
]


@pytest.mark.parametrize(("use", "others"), NEEDLESS)
def test_the_library_loads_nothing_that_it_does_not_need(use, others):
    code = f"import sys, dpalgos\n{use}\nprint([name for name in {others} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["ols", "preconditioned_regression"])
def test_fewer_rows_than_columns_are_warned_about(name):
    X = np.random.default_rng(0).uniform(-1, 1, (10, 12))
    with pytest.warns(UserWarning, match=r"fewer rows \(10\) than columns \(12\)"):
        dpalgos.estimate(name, X, X[:, 0], rng=np.random.default_rng(0), **({} if name == "ols" else BUDGET))


def test_a_fit_with_intervals_answers_further_questions_in_the_units_and_names_of_its_columns():
    X, y = people()
    fitted = ours.DPLinearRegression(**OF_PEOPLE).fit(X, y)
    model = pickle.loads(pickle.dumps(fitted)).model_
    np.testing.assert_allclose(model.coefficients().limits, fitted.interval_)
    assert model.terms == ("age", "smoker", "region=far west", "region=south", "intercept")
    assert model.t_test("smoker - 10 * age = 0, `region=far west` = 10").pvalue.min() > 1e-3
    assert dict(model.wald_test_terms().df_constraint) == {"age": 1, "smoker": 1, "region": 2}

    nested = model.submodel(["age", "region"])
    smaller = pd.DataFrame(
        {"one": 1, "age": X.age, **{each: X.region == each for each in LEVELS["region"][1:]}}
    )
    own = np.linalg.lstsq(smaller.to_numpy(dtype=float), y, rcond=None)[0]
    low, high = nested.coefficients().limits
    assert ((low < own[[1, 2, 3, 0]]) & (own[[1, 2, 3, 0]] < high)).all()

    for each, coef in (model, model.params), (nested, nested.params):
        few = X.head(3)
        ends = each.predict(few, interval=0.95)
        rows = np.column_stack([few.age, *([few.smoker] if each is model else [])])
        rows = np.column_stack([rows, few.region == "far west", few.region == "south", np.ones(3)])
        np.testing.assert_allclose(ends["robust_location"], rows @ coef)
        assert (ends.robust_location_ci_lower < ends["robust_location"]).all()


def test_parameters_that_are_set_after_a_fit_count_from_the_next_fit():
    X, y = people()
    fitted = ours.DPLinearRegression(**OF_PEOPLE).fit(X, y)

    def shown():
        return str(fitted.summary()), str(fitted.model_), fitted.conf_int().to_numpy(), fitted.predict(X[:9])

    before = shown()
    fitted.set_params(epsilon=0.01, delta=1e-9, interval=0.5, fit_intercept=False, y_bounds=(0, 1))
    fitted.set_params(bounds={"age": (0, 1), "smoker": (0, 1)}, levels=None)
    for old, new in zip(before, shown(), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", [ours.DPLogisticRegression, ours.DPPoissonRegressor])
def test_events_and_counts_have_means_of_their_own_kind(kind, intercept):
    X, u, rng = table(20_000)
    y, public = rng.poisson(np.exp(u)), {}
    if kind is ours.DPLogisticRegression:
        y, public = rng.random(len(X)) < 1 / (1 + np.exp(-u)), {"classes": [False, True]}
    fitted = kind(**BUDGET, **public, fit_intercept=intercept, interval=0.95, random_state=0).fit(X, y)
    means = fitted.model_.predict(X[:5])
    own = fitted.predict_proba(X[:5])[:, 1] if public else fitted.predict(X[:5])
    np.testing.assert_allclose(means, own, rtol=0.1)
    assert fitted.model_.submodel(["x0"]).terms == (("x0", "intercept") if intercept else ("x0",))


@pytest.mark.filterwarnings("ignore:the labels that occur")
def test_further_questions_to_a_fit_without_intervals_are_refused():
    X, u, _ = table()
    for kind, y in (ours.DPLinearRegression, u), (ours.DPMultinomialRegression, np.digitize(u, [0, 1])):
        fitted = kind(**BUDGET, random_state=0).fit(X, y)
        with pytest.raises(InputError, match=r"interval=0\.95"):
            _ = fitted.model_
        assert not hasattr(fitted, "model_")


class OtherFrame:
    """A data frame of another library: names and columns, but no index."""

    def __init__(self, frame):
        self._frame, self.columns, self.shape = frame, list(frame.columns), frame.shape

    def __getitem__(self, name):
        return self._frame[name].to_numpy()


@pytest.mark.parametrize("frame", [pd.DataFrame, OtherFrame, lambda X: X.set_index(X.index[::-1] + 7)])
def test_levels_take_the_frame_of_any_library(frame):
    X, y = people()
    fitted = ours.DPLinearRegression(**OF_PEOPLE).fit(frame(X), y)
    assert list(fitted.feature_names_in_) == ["age", "smoker", "region"]
    assert fitted.n_features_in_ == 3
    assert [*fitted.table()["term"]] == ["age", "smoker", "region=far west", "region=south", "intercept"]
    same = ours.DPLinearRegression(**OF_PEOPLE).fit(X, y)
    np.testing.assert_array_equal(fitted.predict(frame(X)), same.predict(X))


def test_a_declared_maximum_of_counts_replaces_the_search_for_their_cut():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((4000, 2)), rng.poisson(1.0, 4000).clip(0, 6)
    models = [
        ours.DPPoissonRegressor(epsilon=1, delta=1e-6, count_bound=bound, random_state=0).fit(X, y)
        for bound in (None, 6.0)
    ]
    searched = [
        "responses above a level" in {event.label for event in model._result.events} for model in models
    ]
    assert searched == [True, False]
