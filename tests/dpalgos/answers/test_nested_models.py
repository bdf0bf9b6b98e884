"""Answers that follow from one release: nested models, predictions, and tests that keep their level."""

import json
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import patsy
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st

import dpalgos
import dpalgos.formula as private
from dpalgos import InputError
from dpalgos.answers.contrasts import constraints_of
from dpalgos.answers.names import find_name
from dpalgos.answers.stored import model_of, plain_model
from dpalgos.formula.nested import submodel_by_formula
from dpalgos.interval import CLIPPED, HIDDEN, OMITTED
from tests.builders import refused
from tests.dpalgos.test_glm import responses

N = 4_000
BETA = np.array([0.5, -0.4, 0.6, 0.0, 0.2])
FAMILIES = ("gaussian", "logistic", "poisson")


def rows(rng, n=N):
    """Correlated columns, of which the second is discrete, and a constant."""
    Z = rng.standard_normal((n, 4)) @ np.linalg.cholesky(0.5 * np.eye(4) + 0.5).T
    Z[:, 1] = Z[:, 1] > 0.5
    return np.column_stack([Z, np.ones(n)])


def released(family, X, y, rng, epsilon=2.0):
    name = "preconditioned_regression" if family == "gaussian" else "preconditioned_glm"
    keywords = {} if family == "gaussian" else {"family": family}
    budget = {"epsilon": epsilon, "delta": 1e-6, "interval": 0.95}
    return dpalgos.estimate(name, X, y, rng=rng, intercept=True, **budget, **keywords)


def whole(family="gaussian", seed=3, **changes):
    rng = np.random.default_rng(seed)
    X = rows(rng, 20_000)
    return released(
        family, X, responses(family, X @ (BETA / 2 if family == "poisson" else BETA), rng), rng, **changes
    )


def test_a_nested_logistic_model_is_flatter_as_maximum_likelihood_is():
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.standard_normal((1500, 2)), np.ones(1500)])
    y = (rng.random(1500) < 1 / (1 + np.exp(-X @ [1.0, 0.9, -0.3]))).astype(float)
    found = released("logistic", X, y, rng, epsilon=50.0)
    own = sm.Logit(y, X[:, [0, 2]]).fit(disp=0).params
    assert own[0] < 0.9
    np.testing.assert_allclose(found.submodel(["x0", "x2"]).params, own, atol=0.06)


@pytest.mark.parametrize("family", ["logistic", "poisson"])
@pytest.mark.filterwarnings("ignore::dpalgos.PrivacyWarning")  # of a large epsilon
def test_further_answers_keep_an_offset_that_is_the_first_column(family):
    rng = np.random.default_rng(6)
    X = np.column_stack([rng.uniform(-0.5, 0.5, 20_000), rng.uniform(-1, 1, (20_000, 2)), np.ones(20_000)])
    y = responses(family, X @ [1, 0.5, -0.2, 0.2], rng)
    asked = {"family": family, "intercept": True, "offset_bounds": (-0.5, 0.5), "interval": 0.95}
    found = dpalgos.estimate("preconditioned_glm", X, y, rng=rng, epsilon=1e4, delta=1e-6, **asked)
    stored = model_of(json.loads(json.dumps(plain_model(found.model))))
    kind = {"logistic": sm.families.Binomial(), "poisson": sm.families.Poisson()}[family]
    own = sm.GLM(y, X[:, [1, 3]], family=kind, offset=X[:, 0]).fit()
    for model in (found, stored):
        np.testing.assert_allclose(model.submodel(["x1"]).params, own.params, atol=0.05)
        assert list(model.wald_test_terms().index) == ["x1", "x2"]
    assert list(found.table()["term"]) == ["x1", "x2", "x3"]
    expected = own.predict(X[:5, [1, 3]], offset=X[:5, 0])
    np.testing.assert_allclose(found.submodel(["x1"]).predict(X[:5]), expected, rtol=0.1)
    refused(lambda: found.submodel(["x1"]).predict(X[:, 1:]), InputError, "4 columns", "offset")


def with_strong_covariate(rng):
    """A covariate with a large effect is left out: nested answers vary mostly by the noise of the metric."""
    X = rows(rng, 20_000)
    return X, X @ np.array([0.5, -0.4, 2.6, 0.0, 0.2]) + rng.standard_normal(len(X)), ["x0", "x1", "x4"]


def with_little_noise(rng):
    """The covariate that is left out moves the nested slope from table to table."""
    X = np.column_stack([rng.standard_normal((2_000, 2)), np.ones(2_000)])
    return X, X @ [1.0, 3.0, 0.0] + 0.2 * rng.standard_normal(2_000), ["x0", "x2"]


LEFT_OUT = [(with_strong_covariate, 0.5), (with_strong_covariate, 1.0), (with_little_noise, 50.0)]


@pytest.mark.parametrize(("table", "epsilon"), LEFT_OUT)
def test_noise_and_sampling_of_what_is_left_out_count(table, epsilon):
    middles, errors = [], []
    for run in range(50):
        rng = np.random.default_rng([run, 9])
        X, y, kept = table(rng)
        nested = released("gaussian", X, y, rng, epsilon=epsilon).submodel(kept).coefficients()
        middles.append(nested.effect[:-1])
        errors.append(nested.sd[:-1])
    ratio = np.nanstd(middles, axis=0) / np.nanmedian(errors, axis=0)
    assert ((ratio > 0.5) & (ratio < 1.35)).all()


def test_a_direction_that_noise_hides_has_no_nested_answer_either():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3_000, 3))
    X[:, 1] = X[:, 0] + 1e-3 * X[:, 1]
    X = np.column_stack([X, np.ones(3_000)])
    found = released("gaussian", X, X @ [1, 1, 1, 0] + rng.standard_normal(3_000), rng, epsilon=1.0)
    table = found.submodel(["x0", "x1", "x3"]).coefficients()
    assert np.isnan(table.estimate[:2]).all()
    assert HIDDEN in found.submodel(["x0", "x1", "x3"]).note
    # Of the pair's sum all is known: one of both alone has an answer.
    assert np.isfinite(found.submodel(["x0", "x2", "x3"]).coefficients().estimate[0])


@pytest.mark.filterwarnings("ignore::dpalgos.PrivacyWarning")  # of a large epsilon
def test_a_nested_mean_without_an_interval_is_warned_about_with_the_reason():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-2, 2, (20_000, 2)), np.ones(20_000)])
    y = rng.poisson(np.exp(X @ [0.75, 0.0, 0.5])).astype(float)
    found = released("poisson", X, y, rng, epsilon=1e6)
    nested = found.submodel(["x1"])
    assert OMITTED in nested.note
    assert CLIPPED not in nested.note
    with pytest.warns(UserWarning, match="5 of 5 rows"):
        assert np.isnan(nested.predict(X[:5, 1:])).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(found.model.predict(X[:5])).all()


def test_a_test_is_that_of_the_interval():
    found = whole()
    table = found.coefficients()
    one = found.t_test("x0 = 0, x1 - x2 = 0.25")
    assert found.t_test("-x0 = -1e-1").null == [-0.1]
    np.testing.assert_allclose([one.effect[0], one.sd[0]], [table.effect[0], table.sd[0]])
    np.testing.assert_allclose(one.effect[1], table.effect[1] - table.effect[2])
    np.testing.assert_allclose(one.statistic[1], (one.effect[1] - 0.25) / one.sd[1])
    np.testing.assert_allclose(np.abs(found.t_test("x0 = 0.5 = x1").null), 0.5)
    joint = found.wald_test("x0 = 0")
    np.testing.assert_allclose([joint.statistic, joint.pvalue], [one.statistic[0] ** 2, one.pvalue[0]])
    np.testing.assert_allclose(found.t_test((np.array([[0, 1, -1, 0, 0]]), 0.25)).pvalue, one.pvalue[1:])
    assert list(one.summary_frame().index) == list(one.conf_int().index) == ["x0 = 0", "x1 - x2 = 0.25"]
    np.testing.assert_array_equal(found.t_test(np.eye(5)).pvalue, table.pvalue)
    np.testing.assert_array_equal(found.t_test(np.eye(5)).conf_int(), table.conf_int())


def test_a_joint_test_is_the_same_in_other_words():
    found = whole()
    one, other = found.wald_test("x0 = 0.4, x2 = 0.4"), found.wald_test("x0 + 9 * x2 = 4.0, x2 = 0.4")
    assert other.statistic == pytest.approx(one.statistic, rel=0.1)


def test_what_a_release_does_not_hold_is_refused():
    found, X = whole(), rows(rng := np.random.default_rng(0))
    plain = dpalgos.estimate("preconditioned_regression", X, X @ BETA, rng=rng, epsilon=1.0, delta=1e-6)
    odd = found.released_model(["x", "2", "C", "d", "e"])
    for call, value in (
        (lambda: found.submodel(["age"]), "age"),
        (lambda: found.model.submodel([], intercept=False), "none"),
        (lambda: found.submodel("x0"), "x0"),
        (lambda: found.submodel(["x0"]).submodel(["x0"]), "whole"),
        (lambda: found.t_test("x9 = 0"), "x9"),
        (lambda: found.t_test(""), "''"),
        (lambda: found.wald_test("  "), "x0 = 0"),
        (lambda: found.t_test("x0 = import"), "import"),
        (lambda: found.t_test(np.zeros((1, 5))), "zeros"),
        (lambda: found.wald_test("x0 = 0, 2 * x0 = 0"), "rows"),
        (lambda: found.model.predict(X[:2], interval=95), "95"),
        (lambda: odd.t_test("x = 2"), "without quotes"),
        (lambda: odd.t_test("x / 0 = 1"), "x / 0 = 1"),
        (lambda: found.model.predict(np.zeros((2, 3))), "(2, 3)"),
        (lambda: plain.submodel(["x0"]), "interval=0.95"),
    ):
        refused(call, InputError, value)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_record_holds_all_that_further_answers_need(family):
    found = whole(family)
    again = model_of(json.loads(json.dumps(plain_model(found.model))))
    for one, other in ((found.model, again), (found.submodel(["x0", "x4"]), again.submodel(["x0", "x4"]))):
        np.testing.assert_array_equal(other.coefficients().limits, one.coefficients().limits)
        assert repr(other.wald_test("x0 = 0")) == repr(one.wald_test("x0 = 0"))
    with pytest.raises(InputError, match="record"):
        model_of({**plain_model(found.model), "curvature": {}})


# Formulas.

LEVELS = {"region": ["north", "south", "west"], "smoker": ["no", "yes"]}
BOUNDS = {"age": (18, 75), "days": (1, 10), "cost": (0, 400), "visits": (0, 80)}


@pytest.fixture(scope="module")
def people():
    rng, n = np.random.default_rng(8), 20_000
    frame = pd.DataFrame({"age": rng.uniform(20, 70, n), "days": rng.uniform(1, 10, n)})
    frame["region"] = rng.choice(LEVELS["region"], n)
    frame["smoker"] = rng.choice(LEVELS["smoker"], n, p=[0.7, 0.3])
    effect = frame.region.map({"north": 0, "south": 10, "west": -5}) + 30 * (frame.smoker == "yes")
    frame["cost"] = 100 + 2 * frame.age + effect + 20 * rng.standard_normal(n)
    frame["event"] = (rng.random(n) < 1 / (1 + np.exp(-(frame.age - 45) / 20 - 0.02 * effect))).astype(float)
    frame["visits"] = rng.poisson(frame.days * np.exp(-1 + 0.01 * frame.age + 0.01 * effect))
    return frame


@pytest.fixture(scope="module")
def costs(people):
    budget = {"epsilon": 2.0, "delta": 1e-6, "random_state": 4}
    return private.ols("cost ~ age + C(region) + C(smoker)", people, bounds=BOUNDS, levels=LEVELS, **budget)


@pytest.mark.parametrize("fit", ["ols", "logit", "poisson"])
def test_predictions_have_intervals_of_the_mean(people, fit):
    formula = {"ols": "cost", "logit": "event", "poisson": "visits"}[fit] + " ~ age + C(smoker)"
    written = formula + (" + exposure(days)" if fit == "poisson" else "")
    budget = {"epsilon": 3.0, "delta": 1e-6, "random_state": 2}
    found = getattr(private, fit)(written, people, bounds=BOUNDS, levels=LEVELS, **budget)
    few = people.head(40)
    offset, later = ({"offset": np.log(t.days)} if fit == "poisson" else {} for t in (people, few))
    plain = getattr(smf, fit)(formula, people, **offset).fit(**({} if fit == "ols" else {"disp": 0}))
    true = plain.predict(few, **later)
    ends = found.predict(few, interval=0.95)
    name = "robust_location" if fit == "ols" else "mean"
    assert list(ends.columns) == [name, f"{name}_ci_lower", f"{name}_ci_upper"]
    ends.columns = ["mean", "mean_ci_lower", "mean_ci_upper"]
    assert ((ends.mean_ci_lower < true) & (true < ends.mean_ci_upper)).mean() > 0.6
    np.testing.assert_allclose(ends["mean"], found.predict(few), rtol=0.15)
    assert (found.predict(few, interval=0.9).iloc[:, 2] < ends.mean_ci_upper).all()
    assert np.isfinite(found.submodel(["age"]).predict(few)).all() or fit == "poisson"


@pytest.mark.parametrize("fit", ["logit", "poisson"])
@pytest.mark.parametrize("left_out", ["two values", "skewed", "normal"])
@pytest.mark.parametrize("effect", [0.1, 0.4, 0.9])
def test_a_nested_model_of_a_strong_term_is_right_or_has_no_interval(fit, left_out, effect):
    rng, n = np.random.default_rng(21), 20_000
    x, z = rng.standard_normal((2, n))
    z = {"two values": 2.0 * (rng.random(n) < 0.2), "skewed": rng.exponential(1, n).clip(0, 8)}.get(
        left_out, z
    )
    linear = 0.5 * x + effect * z - 0.5
    y = (
        rng.random(n) < 1 / (1 + np.exp(-linear))
        if fit == "logit"
        else rng.poisson(np.exp(linear.clip(None, 4)))
    )
    frame = pd.DataFrame({"x": x, "z": z, "y": y.astype(int)})
    bounds = {"x": (-5, 5), "z": (-5, 8)} | ({"y": (0, int(y.max()))} if fit == "poisson" else {})
    found = getattr(private, fit)("y ~ x + z", frame, bounds=bounds, epsilon=1e6, delta=1e-7, random_state=0)
    own = getattr(smf, fit)("y ~ x", frame).fit(disp=0).params
    limits = found.submodel(["x"]).conf_int()
    inside = (limits.iloc[:, 0] <= own) & (own <= limits.iloc[:, 1])
    assert (inside | limits.isna().any(axis=1)).all()
    assert limits.loc["x"].notna().all() or effect > 0.1


def costs_of_arms(seed, n=4000):
    rng = np.random.default_rng([seed, 12])
    late = rng.integers(0, 2, n)
    cost = np.exp(1 + 0.3 * late + np.where(late, 1.1, 0.7) * rng.standard_normal(n)).clip(0, 99)
    return pd.DataFrame({"arm": np.where(late, "b", "a"), "cost": cost})


def test_a_mean_by_group_is_the_mean_or_has_another_name():
    public = {"bounds": {"cost": (0, 100)}, "levels": {"arm": ["a", "b"]}, "epsilon": 3.0, "delta": 1e-6}
    true = costs_of_arms(0, 10**6).groupby("arm").cost.mean()
    covered, shown = [], []
    for seed in range(1, 21):
        target = {"interval_target": "least squares", "random_state": seed}
        means = private.ols("cost ~ arm", costs_of_arms(seed), **public, **target).marginal_means("arm")
        covered.append((means.mean_ci_lower < true) & (true < means.mean_ci_upper))
        shown.append(means.mean_ci_lower.notna())
    assert np.mean(shown) > 0.7  # the others are withheld: clipping may have biased them
    assert np.sum(covered) > 0.9 * np.sum(shown)
    robust = private.ols("cost ~ arm", costs_of_arms(0), **public, random_state=0)
    assert "mean" not in robust.marginal_means("arm")
    assert "mean" not in robust.predict(costs_of_arms(0).head(), interval=0.95)


def test_marginal_means_are_of_levels_at_public_centers(people, costs):
    means = costs.marginal_means("region")
    table = costs.params
    assert list(means.index) == LEVELS["region"]
    north = table["Intercept"] + table["age"] * (18 + 75) / 2 + table["C(smoker)[T.yes]"] / 2
    located = means["robust_location"]
    np.testing.assert_allclose(located["north"], north)
    np.testing.assert_allclose(located["south"] - north, table["C(region)[T.south]"])
    assert (means.robust_location_ci_lower < located).all()
    with pytest.raises(InputError, match="age"):
        costs.marginal_means("age")


NAMES = ["Intercept", "pre-post", "pre", "post", "C(my group)[T.a]"]


@pytest.mark.parametrize("quoted", ["pre-post", "Q('pre-post')", 'Q("pre-post")'])
def test_a_name_with_marks_is_quoted_in_a_hypothesis_and_arithmetic_is_arithmetic(quoted):
    terms = [NAMES[0], quoted, *NAMES[2:]]
    found = whole().released_model(terms, columns=("pre-post", "pre", "post", "my group"))
    beta = found.coefficients().effect
    for text, expected in (
        ("`pre-post` = 0", beta[1]),
        ('Q("pre-post")', beta[1]),
        ("2 * Q('pre-post') - pre = 0", 2 * beta[1] - beta[2]),
        ("pre - post = 0", beta[2] - beta[3]),
        ("`pre` - `post` = 0", beta[2] - beta[3]),
        ("(pre - post) / 2", (beta[2] - beta[3]) / 2),
        ("C(`my group`)[T.a]", beta[4]),
        ("C(`my group`)[T.a] + Intercept", beta[4] + beta[0]),
    ):
        np.testing.assert_allclose(found.t_test(text).effect, [expected])
    refused(lambda: found.t_test("pre-post = 0"), InputError, "`pre-post`")
    assert set(found.submodel(["`pre-post`", "pre"]).terms) == set(found.submodel([quoted, "pre"]).terms)


HYPOTHESES = tomllib.loads(Path(__file__).with_name("hypotheses.toml").read_text())


@pytest.mark.parametrize(("names", "text", "row"), HYPOTHESES["quoted"])
def test_a_quoted_name_with_marks_is_a_term(names, text, row):
    R, _, shown = constraints_of(text, names)
    assert R.tolist() == [row]
    assert len(shown) == 1


@pytest.mark.parametrize(("names", "text"), HYPOTHESES["bare"])
def test_a_bare_name_with_marks_is_refused(names, text):
    for columns in (names, ()):
        refused(
            lambda known=columns: constraints_of(text, names, known), InputError, "without quotes", repr(text)
        )


@pytest.mark.parametrize("find", [constraints_of, find_name])
def test_a_name_that_may_be_two_terms_is_refused(find):
    refused(lambda: find('Q("a b")', ["a b", "`a b`"]), InputError, "'a b' or '`a b`'")
    refused(lambda: find("`é`", ["é", "e\u0301"]), InputError, "rename a column")


numbers = st.sampled_from(["2", "3.5", ".25", "1e3", "4E-2", "(1 - 3)"])
expressions = st.recursive(
    st.sampled_from(["age", "bmi", "dose"]) | numbers,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from("+-"), inner)
        | st.builds("({} {} {})".format, inner, st.sampled_from("*/"), numbers)
        | st.builds("{} * {}".format, numbers, inner)
        | st.builds("(-{})".format, inner)
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(expressions, min_size=1, max_size=3).map(" = ".join), min_size=1, max_size=2))
def test_a_hypothesis_means_what_it_means_for_patsy(equations):
    text, terms = ", ".join(equations), ["age", "bmi", "dose"]
    try:
        known = patsy.DesignInfo(terms).linear_constraint(text)
    except patsy.PatsyError:  # an equation without a term
        refused(lambda: constraints_of(text, terms), InputError, "no row of zeros")
        return
    R, values, _ = constraints_of(text, terms)
    np.testing.assert_allclose(R, known.coefs, atol=1e-12)
    np.testing.assert_allclose(values, known.constants.ravel(), atol=1e-12)


@pytest.mark.parametrize(
    "r_matrix", [[], "t0_ = 1", ([1, 0], np.nan), [np.inf, 1], "age = 1e999", ([1, 0], [1, 2])]
)
def test_a_hypothesis_without_a_finite_meaning_is_refused(r_matrix):
    refused(lambda: constraints_of(r_matrix, ["age", "bmi"]), InputError, "r_matrix")


def test_submodels_take_both_quotations_and_the_offset_of_the_release(people):
    frame = people.rename(columns={"age": "age-at start", "days": "days in"})
    budget = {"epsilon": 3.0, "delta": 1e-6, "random_state": 2}
    bounds = {"age-at start": (18, 75), "days in": (1, 10), "visits": (0, 80)}
    written = "visits ~ `age-at start` + C(smoker) + exposure(`days in`)"
    found = private.poisson(written, frame, bounds=bounds, levels=LEVELS, **budget)
    stored = model_of(json.loads(json.dumps(plain_model(found.model))))
    plain = submodel_by_formula(stored, "visits ~ `age-at start`")
    for offset in ("", " + offset(log(`days in`))", " + exposure(Q('days in'))"):
        other = submodel_by_formula(stored, 'visits ~ Q("age-at start")' + offset)
        np.testing.assert_array_equal(other.coefficients().limits, plain.coefficients().limits)
    assert "offset(log(days in))" in str(plain.summary())
    for wrong in ("offset(`days in`)", "offset(log(`age-at start`))"):
        refused(
            lambda wrong=wrong: submodel_by_formula(stored, f"visits ~ smoker + {wrong}"),
            InputError,
            "offset",
        )
    refused(lambda: submodel_by_formula(stored, "visits ~ age"), InputError, "age")


def test_of_two_columns_the_longer_one_is_quoted_within_a_name():
    """``a-b`` is the beginning of ``a-b-c``: quoted first, it would split the other one."""
    for columns in (["a-b", "a-b-c"], ["a-b-c", "a-b"]):
        assert find_name("C(`a-b-c`)[T.x]", ["C(a-b-c)[T.x]"], columns) == "C(a-b-c)[T.x]"


N_TABLES, N_ROWS = 500, 8000
COEF = np.array([0.4, -0.3, 0.2, 0.0, 0.2])
SLOPES = np.eye(5)[:4]


def rejections(family):
    """Return whether t tests of slopes, and a joint test, reject in one release per table, (N_TABLES, 5)."""
    found = []
    for rng in np.random.default_rng(17).spawn(N_TABLES):
        Z = rng.standard_normal((N_ROWS, 4))
        Z[:, 0] = rng.random(N_ROWS) < 0.3
        Z[:, 1] += 0.6 * Z[:, 2]
        X = np.column_stack([Z, np.ones(N_ROWS)])
        asked = {"family": family, "intercept": True, "interval": 0.95, "epsilon": 3.0, "delta": 1e-6}
        y = responses(family, X @ COEF, rng)
        model = dpalgos.estimate("preconditioned_glm", X, y, rng=rng, **asked).model
        hypotheses = SLOPES, COEF[:4]
        pvalues = np.append(model.t_test(hypotheses).pvalue, model.wald_test(hypotheses).pvalue)
        found.append(np.where(np.isnan(pvalues), np.nan, pvalues < 0.05))
    return np.array(found)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("family", FAMILIES)
def test_sizes_are_near_their_level(family):
    """3 to 7%, with two binomial standard errors; variances that are 0.7 or 1.5 times as large fail."""
    rejected = rejections(family)
    assert np.isnan(rejected).mean() < 0.05
    for tests in (rejected[:, :4], rejected[:, 4]):
        bounds = np.array([0.03, 0.07])
        low, high = bounds + [-2, 2] * np.sqrt(bounds * (1 - bounds) / np.isfinite(tests).sum())
        assert low < np.nanmean(tests) < high
