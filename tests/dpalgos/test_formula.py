"""Formulas: the same design as patsy, bounds that hold, refusals of what would be learned, the table."""

import pickle
import tomllib
import unicodedata
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import patsy
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from threadpoolctl import threadpool_limits

import dpalgos
import dpalgos.formula as private
from dpalgos.formula.allowed import read_formula
from dpalgos.formula.columns import CategoryColumn, NumberColumn, public_rows
from dpalgos.formula.design import design_of
from tests.builders import refused
from tests.contract.forms import answered
from tests.dpalgos.silence import replayed

DECLARED = {
    "age": NumberColumn(18, 90),
    "visits": NumberColumn(0, 30),
    "smoker": NumberColumn(0, 1),
    "cost": NumberColumn(10, 1e4),
    "region": CategoryColumn(("north", "south", "west")),
    "sex": CategoryColumn(("f", "m")),
}


FORMULAS = tomllib.loads(Path(__file__).with_name("formulas.toml").read_text())


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)

    def draw(column, n):
        is_number = isinstance(column, NumberColumn)
        return rng.uniform(column.lower, column.upper, n) if is_number else rng.choice(column.levels, n)

    return lambda n: {name: draw(column, n) for name, column in DECLARED.items()}


@pytest.mark.parametrize("formula", FORMULAS["designs"])
def test_designs_are_those_of_patsy(formula, rows):
    frame = pd.DataFrame(rows(400))
    y, expected = patsy.dmatrices(formula, frame, eval_env=patsy.EvalEnvironment([{**vars(np), "np": np}]))
    design = design_of(formula, DECLARED)
    made = design.code.values(frame)
    assert made.shape == expected.shape
    np.testing.assert_allclose(made, np.asarray(expected), rtol=0, atol=1e-12)
    assert list(design.terms) == expected.design_info.column_names
    np.testing.assert_allclose(design.response.values(frame), np.asarray(y)[:, 0], rtol=1e-15)
    again = pickle.loads(pickle.dumps(design)).matrix(frame)
    np.testing.assert_array_equal(again, design.matrix(frame))


def test_no_row_makes_a_column_other_than_finite_and_of_the_order_of_the_public_ones():
    """Between the bounds a divisor may be zero; whatever a row holds, nothing is raised or warned of."""
    design = design_of("~ I(1 / (age - 50)) + bs(visits, knots=(3, 9)) + log(smoker + 0.001)", DECLARED)
    odd = {"age": [50.0, 50 + 1e-300, 18, 90], "visits": [0, 30, 1e9, -1e9], "smoker": [0, 1, 5, -3]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = design.matrix({name: np.asarray(values, float) for name, values in odd.items()})
    public = design.matrix(public_rows(design.declared, 4096))
    assert np.isfinite(made).all()
    assert np.abs(made).max() < 10 * np.abs(public).max()


def test_what_functions_learn_they_learn_from_the_declared_bounds():
    declared = {"age": NumberColumn(0, 100)}
    code = design_of("~ center(age) + I(age**2) + log1p(age)", declared).code
    assert code.values({"age": np.array([50.0])})[0, 1] == pytest.approx(0, abs=0.1)
    for formula in ("scale(age)", "poly(age, 3)", "bs(age, df=5)", "cr(age, df=4, constraints='center')"):
        design = design_of(f"~ {formula}", declared)
        several = design.matrix({"age": np.array([3.0, 0.0, 7.0, 100.0])})
        np.testing.assert_allclose(design.matrix({"age": np.array([3.0, 4.0])})[0], several[0])


def test_names_are_found_in_either_unicode_form_and_refused_where_two_look_alike():
    composed, apart = (unicodedata.normalize(form, "é") for form in ("NFC", "NFD"))
    for known, written in ((composed, apart), (apart, composed)):
        assert read_formula(f"y ~ {written}", ["y", known]).right == (known,)
        assert read_formula(f"y ~ `{written}`", ["y", known]).right == (known,)
    assert read_formula(f"y ~ {apart}", ["y", composed, apart]).right == (apart,)


SAME = [("\u00b5g", "\u03bcg"), ("caf\u00e9", "cafe\u0301")]


@pytest.mark.parametrize(("one", "other"), [*SAME, *(pair[::-1] for pair in SAME)])
def test_columns_and_levels_that_look_the_same_are_the_same(one, other):
    table = people(500)
    y, x, group = table["cost"], table["age"], table["region"].map({"n": "n", "s": one})
    about = {"epsilon": 1.0, "delta": 1e-8, "random_state": 3}
    options = {"bounds": {"y": BOUNDS["cost"], one: BOUNDS["age"]}, "center": {other: 50.0}}
    same = {"bounds": {"y": BOUNDS["cost"], one: BOUNDS["age"]}, "center": {one: 50.0}}
    fits = [
        private.ols(f"y ~ {name} + g", pd.DataFrame({"y": y, name: x, "g": group}), **settings, **about)
        for name, settings in (
            (one, {**same, "levels": {"g": ["n", one]}}),
            (other, {**options, "levels": {"g": ["n", other]}}),
        )
    ]
    np.testing.assert_array_equal(*(each.shrunk for each in fits))


def test_categories_of_a_column_of_pandas_are_public_levels_if_they_are_stated():
    frame = pd.DataFrame({"y": [0.0, 1.0] * 3, "g": pd.Categorical(["a", "b"] * 3)})
    about = {"epsilon": 1.0, "delta": 1e-6, "bounds": {"y": (0, 1)}}
    found = private.ols("y ~ g", frame, **about, levels={"g": frame["g"].cat.categories})
    assert found.design.references == {"g": "a"}


FITS = {
    "y ~ x + g": private.ols,
    "event ~ x + g": private.logit,
    "visits ~ x + g": private.poisson,
    "Surv(time, event) ~ x + g": private.phreg,
}


@pytest.mark.parametrize("as_column", [np.asarray, pd.Series, lambda each: pd.Series(each).convert_dtypes()])
@pytest.mark.parametrize("formula", FITS)
def test_a_public_constant_replaces_missing_cells_before_a_fit(formula, as_column):
    rng, n = np.random.default_rng(2), 3000
    frame = {"x": rng.normal(50, 9, n), "g": rng.choice(["a", "b", "c"], n)}
    frame |= {"event": rng.integers(2, size=n), "visits": rng.poisson(2, n), "time": rng.exponential(2, n)}
    frame |= {"y": frame["x"] / 50 + rng.normal(size=n)}
    full = pd.DataFrame(frame)
    lacks = rng.random(n) < 0.3
    filled = full.assign(x=full["x"].mask(lacks, 47.0), g=full["g"].mask(lacks, "b"))
    gaps = {"x": np.where(lacks, np.nan, full["x"]), "g": np.where(lacks, None, full["g"].astype(object))}
    gaps = pd.DataFrame({**full, **{name: as_column(each) for name, each in gaps.items()}})
    bounds = {"x": (20, 80), "y": (-4, 6), "visits": (0, 12), "time": (0, 5)}
    about = {
        "bounds": bounds,
        "levels": {"g": ["a", "b", "c"]},
        "epsilon": 2.0,
        "delta": 1e-6,
        "random_state": 1,
    }
    fit = FITS[formula]
    imputed = fit(formula, gaps, impute={"x": 47, "g": "b"}, **about)
    plain = fit(formula, filled, **about)
    np.testing.assert_array_equal(imputed.params, plain.params)
    np.testing.assert_array_equal(imputed.bse, plain.bse)  # a replaced cell is not a clipped one
    refused(lambda: fit(formula, gaps, **about), dpalgos.InputError, "impute={")
    if fit is not private.phreg:
        np.testing.assert_array_equal(imputed.predict(gaps), plain.predict(filled))


@pytest.mark.parametrize("pair", FORMULAS["same_model"])
@pytest.mark.parametrize("fit", [private.ols, private.poisson])
def test_two_ways_of_writing_a_model_give_one_answer(pair, fit):
    frame = people(20_000)
    frame["cost"] = np.floor(np.clip(frame["cost"] / 500, 0, None))
    options = {"bounds": {**BOUNDS, "cost": (0, 10)}, "levels": {"region": ["n", "s"]}, "random_state": 3}
    one, other = (fit(f"cost ~ {right}", frame, epsilon=1, delta=1e-8, **options) for right in pair)
    assert one.certified_epsilon == other.certified_epsilon
    np.testing.assert_allclose(one.predict(frame), other.predict(frame), rtol=1e-6)
    X, Z = (each.design.code.values(frame) for each in (one, other))
    # X β = Z γ, so that γ = M β: what stands in both tables agrees, and each is a linear map of the other.
    M = np.linalg.lstsq(Z, X, rcond=None)[0]
    M[abs(M) < 1e-9] = 0.0
    np.testing.assert_allclose(M @ one.shrunk, other.shrunk, rtol=1e-5, atol=1e-6 * abs(other.shrunk).max())
    ends = one.along(one.response_units[1] * M @ one.design.back)[1]
    ends = ends + M @ np.broadcast_to(one.design.shift(one.response_units[0]), len(M))
    np.testing.assert_allclose(ends.T, other.conf_int(), rtol=0.02, atol=1e-4 * np.nanmax(abs(ends)))


@pytest.mark.parametrize("name", ["ols", "box_mean", "adassp"])
def test_a_summary_calls_no_estimate_shrunken_that_is_not(name):
    estimator = dpalgos.get_estimator(name)
    result = answered(estimator, "tight", np.eye(40, 3), np.ones(40))
    assert "shrunk" not in str(result.summary())


def test_a_result_has_the_attributes_of_statsmodels():
    frame = people(100_000)
    frame["sick"], bounds = 1.0 * (frame.age > 50), {**BOUNDS, "cost": (-1500, 4500)}
    answer = private.ols("cost ~ age + smoker", frame, epsilon=3, delta=1e-8, bounds=bounds, random_state=5)
    plain = smf.ols("cost ~ age + smoker", frame).fit()
    for name in ("params", "bse", "pvalues", "tvalues"):
        assert list(getattr(answer, name).index) == list(getattr(plain, name).index)
    assert list(answer.conf_int().index) == list(plain.conf_int().index)
    assert list(answer.wald_test_terms().index) == ["age", "smoker"]
    assert answer.rsquared == pytest.approx(plain.rsquared, abs=0.1)
    # Estimate, standard error, interval and p-value follow from each other.
    low, high = answer.conf_int()[0], answer.conf_int()[1]
    np.testing.assert_allclose(answer.params, (low + high) / 2)
    np.testing.assert_allclose(answer.bse, (high - low) / 2 / 1.959964, rtol=1e-6)
    assert all(
        word in str(answer.summary()) for word in ("R²", "ε = 3", "robust regression", "shrunken", "100,000")
    )
    new = frame[["age", "smoker"]].head(3)
    np.testing.assert_allclose(answer.predict(new), plain.predict(new), rtol=0.1)
    ask = {"epsilon": 3, "delta": 1e-8, "bounds": {"smoker": (0, 1)}, "random_state": 1}
    chances = private.logit("sick ~ smoker", frame, **ask)
    assert not hasattr(chances, "rsquared")  # and a response of 0 and 1 needs no bounds
    assert "maximum likelihood" in str(chances.summary())


def test_a_table_without_any_interval_warns_with_the_reason_and_what_would_help():
    ask = {"epsilon": 0.1, "delta": 1e-6, "bounds": BOUNDS, "random_state": 0}
    with pytest.warns(UserWarning, match="too few rows.*more rows"):
        answer = private.ols("cost ~ age", people(100), **ask)
    assert answer.bse.isna().all()
    assert "without an interval" in str(answer.summary())


BOUNDS = {"age": (18, 90), "smoker": (0, 1), "cost": (0, 5000)}


def people(n=5000, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.uniform(18, 90, n), "smoker": rng.integers(0, 2, n)})
    frame["region"] = rng.choice(["n", "s"], n)
    known = 100 + 20 * frame.age + 500 * frame.smoker + 100 * (frame.region == "s")
    return frame.assign(cost=known + rng.normal(0, 300, n))


OF_STATSMODELS = {  # a data set, its model, its formula, and which of its rows
    "fair": ("logit", "had ~ rate_marriage + age + religious", lambda t: t.assign(had=1.0 * (t.affairs > 0))),
    "randhie": ("poisson", "mdvis ~ lncoins + idp + physlm + hlthg", lambda table: table),
    "anes96": ("logit", "vote ~ PID + age + educ + income", lambda table: table),
    "engel": ("ols", "foodexp ~ income", lambda table: table[table.income < 2000]),
}


@pytest.mark.parametrize("name", OF_STATSMODELS)
def test_with_next_to_no_noise_the_table_is_that_of_statsmodels(name):
    model, formula, rows_of = OF_STATSMODELS[name]
    frame = rows_of(getattr(sm.datasets, name).load_pandas().data)
    fit, reference = (getattr(package, model) for package in (private, smf))
    named = read_formula(formula, list(frame.columns))
    used = (*named.left, *named.right)
    bounds = {c: (float(frame[c].min()) - 0.01, float(frame[c].max()) + 0.01) for c in used}
    bounds |= {c: tuple(map(round, bounds[c])) for c in named.left if model == "poisson"}
    answer = fit(formula, frame, epsilon=1e6, delta=1e-9, bounds=bounds, random_state=0)
    table = answer.table().set_index("term")
    options = {} if reference is smf.ols else {"disp": 0}
    model = reference(formula, frame).fit(cov_type="HC0", **options)
    for term in named.right:
        row = table.loc[term]
        assert row["estimate"] == pytest.approx(model.params[term], rel=0.02, abs=0.1 * model.bse[term])
        widest = 1.4 if reference is smf.poisson else 1.25  # a margin, and a bound on clipped counts
        assert 0.98 < row["std_error"] / model.bse[term] < widest
        assert -0.02 < row["p_value"] - model.pvalues[term] < 0.1
    assert "odds_ratio" in table or reference is not smf.logit
    facts = answer.glance().iloc[0]
    assert ("r_squared" in facts) == (reference is smf.ols)
    if reference is smf.ols:
        assert facts["r_squared"] == pytest.approx(model.rsquared, rel=0.02)
        assert facts["residual_std"] == pytest.approx(np.sqrt(model.scale), rel=0.02)


@pytest.mark.parametrize(("model", "response"), [("ols", "y"), ("logit", "sick"), ("poisson", "visits")])
def test_the_fit_of_an_answer_is_released_by_tenths_of_its_predictions(model, response):
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, 20_000)
    frame = {"x": x, "y": x + 1.5 * x**2 + rng.normal(size=len(x))}
    frame["sick"] = (rng.uniform(size=len(x)) < 1 / (1 + np.exp(-x))) * 1.0
    frame["visits"] = rng.poisson(np.exp(0.5 * x)) * 1.0
    bounds = {"x": (-2, 2), "y": (-10, 14), "sick": (0, 1), "visits": (0, 60)}
    ask = {"epsilon": 3, "delta": 1e-9, "bounds": bounds, "random_state": 0}
    answer = getattr(private, model)(f"{response} ~ x", frame, **ask)
    assert answer.binned_fit().empty
    found = answer.bin_fit(frame, epsilon=1.5, delta=1e-9, random_state=1)
    assert found.estimate.tolist() == answer.estimate.tolist()
    bins = found.binned_fit()
    assert len(bins) == 10
    assert bins["rows"].sum() == pytest.approx(len(x), rel=0.1)
    assert bins["rows"].between(1000, 3000).all()
    off = (bins["observed"] - bins["predicted"]).abs() / bins["std_error"]
    assert (off.max() > 5) == (response == "y")  # a line does not fit a parabola
    predicted = answer.predict(frame)
    edges = np.quantile(predicted, np.linspace(0, 1, 11))[1:-1]
    means = [frame[response][np.searchsorted(edges, predicted) == k].mean() for k in range(10)]
    assert (np.abs(bins["observed"] - means) < 5 * bins["std_error"] + 0.2 * np.std(means)).all()
    assert found.certified_epsilon == pytest.approx(1.5, rel=1e-4)
    assert {event.label for event in found.events} == {"rows by predictor", "binned fit"}


def test_splines_whose_knots_differ_in_the_last_digit_have_different_names():
    declared = {**DECLARED, "age": NumberColumn(0, 90)}
    knots = (40.0, 40.0 * (1 + 2.0**-52), 1 / 3, 0.333333)
    names = {design_of(f"cost ~ bs(age, knots=({k!r},), lower_bound=0)", declared).terms for k in knots}
    assert len(names) == len(knots)


def test_a_fit_by_formula_is_made_of_what_was_released(monkeypatch):
    """On other rows with the same releases it is the same in the last bit, units and centers included."""
    first, second = people(800), people(800)
    second["age"], second["cost"] = second["age"].clip(upper=50), second["cost"].clip(upper=500)
    ask = {"epsilon": 3, "delta": 1e-8, "bounds": BOUNDS, "levels": {"region": ["n", "s"]}, "random_state": 1}

    def shown_of(frame):
        answer = private.ols("cost ~ age + C(region) + smoker", frame, **ask)
        return answer.table(), answer.glance(), repr(answer), answer.response_units

    shown = replayed(monkeypatch, shown_of, (first, second))
    pd.testing.assert_frame_equal(shown[0][0], shown[1][0], check_exact=True)
    pd.testing.assert_frame_equal(shown[0][1], shown[1][1], check_exact=True)
    assert shown[0][2:] == shown[1][2:]


@pytest.mark.parametrize(("one", "other"), FORMULAS["named_alike"])
def test_a_formula_is_described_by_its_exact_columns(one, other):
    declared = {name: NumberColumn(1, 2) for name in ("y", "a", "b", "a:b", "a - b")}
    described = [design_of(each, declared).described for each in (one, other)]
    codes = [(each["response"], each["factors"], each["offset"]) for each in described]
    assert codes[0] != codes[1]


@pytest.mark.parametrize("levels", [[1, 0], [0.0, 1.0], [True, False]])
@pytest.mark.parametrize("stored_as", [bool, int, float, object, "boolean", "Int8", "category"])
def test_a_category_is_what_its_levels_equal_in_any_type_of_column(levels, stored_as):
    frame = pd.DataFrame({"treated": [True, False] * 300})
    frame["y"] = 1.0 + frame["treated"]
    frame["treated"] = frame["treated"].astype(stored_as)
    settings = {"epsilon": 1e6, "delta": 1e-6, "bounds": {"y": (-1, 5)}, "levels": {"treated": levels}}
    fit = private.ols("y ~ treated", frame, random_state=0, **settings)
    for rows in (frame[:2], frame[:1]):
        np.testing.assert_allclose(fit.predict(rows), [2, 1][: len(rows)], atol=0.05)


def test_a_row_of_a_design_depends_on_no_other_row_bit_by_bit():
    """A matrix product sums its last rows in another order, and by the number of threads."""
    wide = (
        "smoker ~ bs(age, df=6, degree=3) + cr(visits, df=5, constraints='center') + C(region) * sex "
        "+ np.log(cost) * sex + I(cost**2) + offset(np.log(visits + 1))"
    )
    design, rng, found = design_of(wide, DECLARED), np.random.default_rng(3), []
    for n_others, n_threads in [(1, 1), (2, 2), (7, 4), (4098, 2), (30_001, 4)]:
        n = 40 + n_others
        numbers = {
            name: np.r_[np.random.default_rng(5).uniform(low, high, 40), rng.uniform(low, high, n_others)]
            for name, (low, high) in {
                "age": (18, 90),
                "visits": (0, 30),
                "smoker": (0, 1),
                "cost": (10, 1e4),
            }.items()
        }
        levels = {
            "region": np.resize(["north", "south", "west"], n).astype(object),
            "sex": np.resize(["f", "m"], n).astype(object),
        }
        with threadpool_limits(n_threads):
            found.append(design.matrix({**numbers, **levels})[:40])
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
