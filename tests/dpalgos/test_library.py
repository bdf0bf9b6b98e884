"""What a user of the library relies on: budgets over several calls, public units, warnings, types."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import dpalgos
from dpalgos import PrivacyWarning
from dpalgos.sklearn import DPLinearRegression, DPMean, PublicScaler

ASKED = {"epsilon": 1.0, "delta": 1e-6}
UNITS = {"center": [100.0, 2000.0, 0.5], "scale": [50.0, 1000.0, 0.5]}
BOUNDS = ([50.0, 1000.0, 0.0], [150.0, 3000.0, 1.0])


def mean(epsilon=1.0, delta=1e-6, **settings):
    X = np.linspace(0, 1, 2000)[:, None]
    rng = np.random.default_rng(0)
    return dpalgos.estimate(
        "box_mean", X, epsilon=epsilon, delta=delta, lower=0.0, upper=1.0, rng=rng, **settings
    )


def raw_table(n=20_000, seed=3):
    rng = np.random.default_rng(seed)
    Z = rng.uniform(-1, 1, (n, 3))
    y = 1e6 + 2e5 * (Z @ [1.0, -0.5, 0.0] + 0.1 * rng.standard_normal(n))
    X = Z * UNITS["scale"] + UNITS["center"]
    coef = 2e5 * np.array([1.0, -0.5, 0.0]) / UNITS["scale"]
    return X, y, coef, 1e6 - coef @ UNITS["center"]


@pytest.mark.filterwarnings("error")
def test_with_public_bounds_raw_columns_give_raw_coefficients_and_intervals():
    X, y, coef, intercept = raw_table()
    units = {"bounds": BOUNDS, "y_bounds": (5e5, 1.5e6)}
    model = DPLinearRegression(**ASKED, **units, interval=0.999, random_state=3).fit(X, y)
    np.testing.assert_allclose(model.coef_[:2], coef[:2], rtol=0.02)
    assert model.intercept_ == pytest.approx(intercept, rel=0.02)
    low, high = model.interval_
    assert ((low < [*coef, intercept]) & ([*coef, intercept] < high)).all()
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_)


@pytest.mark.parametrize("intercept", [True, False])
def test_predictions_stay_within_declared_bounds_of_the_response(intercept):
    X, y, *_ = raw_table(2000)
    units = {"bounds": BOUNDS, "y_bounds": (9e5, 1.1e6), "fit_intercept": intercept}
    model = DPLinearRegression(**ASKED, **units, random_state=2).fit(X, y)
    plain = X @ model.coef_ + model.intercept_
    assert ((plain < 9e5) | (plain > 1.1e6)).any()
    np.testing.assert_allclose(model.predict(X), np.clip(plain, 9e5, 1.1e6))


def test_raw_units_are_warned_about():
    X, y, *_ = raw_table(2000)
    with pytest.warns(UserWarning, match="are the units right"):
        DPLinearRegression(**ASKED, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="value_bound = 1"):
        DPMean(**ASKED, value_bound=1.0, random_state=0).fit(X)


def test_a_transformer_that_learned_from_private_rows_is_warned_about_and_a_public_one_is_not():
    X, y, *_ = raw_table(500)
    last = DPLinearRegression(**ASKED, random_state=0)
    with pytest.warns(PrivacyWarning, match=r"'standardscaler' .* learned mean_"):
        make_pipeline(StandardScaler(), last).fit(X, y)
    public = make_pipeline(
        OneHotEncoder(categories=[[0.0, 1.0]] * 3),
        PublicScaler(),
        "passthrough",
        DPMean(**ASKED, value_bound=2),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        public[1:].fit((UNITS["center"] < X).astype(float))


@pytest.mark.parametrize("name", [each for each in dpalgos.sklearn.__all__ if each.startswith("DP")])
def test_a_wrong_keyword_is_refused_in_the_name_of_the_class(name):
    with pytest.raises(TypeError, match=rf"^{name}\b.*nonsense"):
        getattr(dpalgos.sklearn, name)(nonsense=1)


@pytest.mark.parametrize(
    ("asked", "named"), [({"epsilon": 21.0}, "epsilon = 21"), ({"delta": 1 / 2000}, "delta = 0.0005")]
)
def test_promises_that_protect_nobody_are_warned_about(asked, named):
    with pytest.warns(PrivacyWarning, match=named):
        mean(**asked)


@pytest.mark.filterwarnings("error")
def test_usual_promises_are_not_warned_about():
    mean(epsilon=20.0, delta=1 / 2001)


def test_the_library_starts_without_what_it_does_not_need():
    heavy = (
        "scipy.special",
        "scipy.stats",
        "scipy.optimize",
        "scipy.linalg",
        "pandas",
        "sklearn",
        "prefect",
        "dp_accounting",
        "opendp",
        "vl_convert",
    )
    code = f"import sys, dpalgos; print([name for name in {heavy} if name in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "[]"


@pytest.mark.parametrize("name", ["ols", "preconditioned_regression"])
def test_fewer_rows_than_columns_are_warned_about(name):
    X = np.random.default_rng(0).uniform(-1, 1, (10, 12))
    private = {} if name == "ols" else {"epsilon": 1.0, "delta": 1e-6}
    with pytest.warns(UserWarning, match=r"fewer rows \(10\) than columns \(12\)"):
        dpalgos.estimate(name, X, X[:, 0], rng=np.random.default_rng(0), **private)
