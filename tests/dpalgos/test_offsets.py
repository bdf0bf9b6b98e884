"""Offsets: rates as statsmodels finds them."""

import numpy as np
import pandas as pd
import statsmodels.api as sm
import statsmodels.formula.api as smf

import dpalgos
import dpalgos.formula as private

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


def test_intervals_without_privacy_are_those_of_statsmodels():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-2, 1, 500), rng.standard_normal((500, 2)), np.ones(500)])
    y = rng.poisson(np.exp(X @ [1, 0.4, -0.3, 0.2])).astype(float)
    model = sm.GLM(y, X[:, 1:], family=sm.families.Poisson(), offset=X[:, 0]).fit(cov_type="HC0")
    asked = {"family": "poisson", "offset_bounds": (-2, 1), "interval": 0.95, "rng": rng}
    ours = dpalgos.estimate("glm", X, y, **asked)
    np.testing.assert_allclose(ours.conf_int(), [[1, 1], *model.conf_int()], atol=1e-6)


def fitted(formula=FORMULA, table=None, epsilon=20.0, **changes):
    table = patients(20_000) if table is None else table
    asked = {"epsilon": epsilon, "delta": 1e-6, "bounds": BOUNDS, "levels": LEVELS}
    return private.poisson(formula, table, **asked, **changes)


def test_a_formula_with_an_offset_is_that_of_statsmodels():
    table = patients(20_000)
    ours = fitted(table=table, random_state=0)
    theirs = smf.poisson("visits ~ age + C(smoker)", table, offset=np.log(table.days)).fit(disp=0)
    assert list(ours.params.index) == list(theirs.params.index)
    assert (np.abs(ours.params - theirs.params) <= 3 * theirs.bse).all()
    some = table[:50]
    np.testing.assert_allclose(ours.predict(some), theirs.predict(some, offset=np.log(some.days)), rtol=0.05)


def test_an_offset_may_be_written_in_several_ways():
    ways = ["visits ~ age + C(smoker) + exposure(days)", "visits ~ offset(log(days)) + age + C(smoker)"]
    ways += ["visits ~ age + C(smoker) + offset(log(days) / 4) + offset(3 * log(days) / 4)"]
    one, *others = (fitted(formula, patients(3000), 1.0, random_state=3) for formula in (FORMULA, *ways))
    for other in others:
        np.testing.assert_allclose(one.params, other.params, rtol=1e-9)
        np.testing.assert_allclose(one.conf_int(), other.conf_int(), rtol=1e-9)
