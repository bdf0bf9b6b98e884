"""Offsets: rates as statsmodels finds them."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpalgos
import dpalgos.formula as private

NAME = "preconditioned_glm"
DAYS = (1.0, 3650.0)
BOUNDS = {"days": DAYS, "age": (18, 100), "visits": (0, 500)}
LEVELS = {"smoker": ["no", "yes"]}
FORMULA = "visits ~ age + C(smoker) + offset(log(days))"


def patients(n, seed=0):
    rng = np.random.default_rng(seed)
    days, age = rng.gamma(2, 150, n).clip(*DAYS), rng.uniform(20, 90, n)
    smoker = rng.choice(["no", "yes"], n)
    visits = rng.poisson(days * np.exp(-6 + 0.02 * age + 0.4 * (smoker == "yes")))
    return pd.DataFrame({"days": days, "age": age, "smoker": smoker, "visits": visits})


def rows(n, family, seed=0):
    """Offset, two covariates and the constant, with responses."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(-2, 1, n), rng.standard_normal((n, 2)), np.ones(n)])
    eta = X @ [1, 0.4, -0.3, 0.2]
    draws = {"poisson": lambda: rng.poisson(np.exp(eta)), "logistic": lambda: rng.random(n) < sigmoid(eta)}
    return X, draws[family]().astype(float)


def sigmoid(u):
    return 1 / (1 + np.exp(-u))


@pytest.mark.parametrize("family", ["poisson", "logistic"])
@pytest.mark.parametrize("intercept", [True, False])
def test_with_a_vast_budget_it_is_the_maximum_of_the_likelihood(family, intercept):
    X, y = rows(20_000, family)
    kind = {"poisson": sm.families.Poisson, "logistic": sm.families.Binomial}[family]()
    expected = sm.GLM(y, X[:, 1:], family=kind, offset=X[:, 0]).fit().params
    same = {"family": family, "offset_bounds": (-2.0, 1.0), "rng": np.random.default_rng(0)}
    exact = dpalgos.estimate("glm", X, y, **same)
    np.testing.assert_allclose(exact.estimate, [1, *expected], atol=1e-6)
    result = dpalgos.estimate(NAME, X, y, epsilon=20, delta=1e-5, intercept=intercept, **same)
    np.testing.assert_allclose(result.estimate, [1, *expected], atol=0.03)


def test_intervals_without_privacy_are_those_of_statsmodels():
    X, y = rows(500, "poisson")
    model = sm.GLM(y, X[:, 1:], family=sm.families.Poisson(), offset=X[:, 0]).fit(cov_type="HC0")
    ours = dpalgos.estimate(
        "glm", X, y, family="poisson", offset_bounds=(-2, 1), interval=0.95, rng=np.random.default_rng(0)
    )
    np.testing.assert_allclose(ours.conf_int(), [[1, 1], *model.conf_int()], atol=1e-6)


def fitted(formula=FORMULA, table=None, epsilon=20.0, **changes):
    table = patients(20_000) if table is None else table
    return private.poisson(
        formula, table, **{"epsilon": epsilon, "delta": 1e-6, "bounds": BOUNDS, "levels": LEVELS, **changes}
    )


def test_a_formula_with_an_offset_is_that_of_statsmodels():
    table = patients(20_000)
    ours, theirs = (
        fitted(table=table, random_state=0),
        smf.poisson("visits ~ age + C(smoker)", table, offset=np.log(table.days)).fit(disp=0),
    )
    assert list(ours.params.index) == list(theirs.params.index)
    assert (np.abs(ours.params - theirs.params) <= 3 * theirs.bse).all()
    some = table[:50]
    np.testing.assert_allclose(ours.predict(some), theirs.predict(some, offset=np.log(some.days)), rtol=0.05)


@pytest.mark.parametrize(
    "written",
    [
        "visits ~ age + C(smoker) + exposure(days)",
        "visits ~ offset(log(days)) + age + C(smoker)",
        "visits ~ age + C(smoker) + offset(log(days) / 4) + offset(3 * log(days) / 4)",
    ],
)
def test_an_offset_may_be_written_in_several_ways(written):
    table = patients(3000)
    one, other = (fitted(formula, table, 1.0, random_state=3) for formula in (FORMULA, written))
    np.testing.assert_allclose(one.params, other.params, rtol=1e-9)
    np.testing.assert_allclose(one.conf_int(), other.conf_int(), rtol=1e-9)
