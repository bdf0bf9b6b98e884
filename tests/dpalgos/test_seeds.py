"""Noise from a known seed can be drawn again and subtracted: each answer says that it is not private."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dpalgos
from dpalgos.formula import ols, table_one
from dpalgos.release.noise_source import is_seeded
from dpalgos.sklearn import DPMean

X = np.random.default_rng(1).uniform(-1, 1, (200, 2))
ASKED = {"epsilon": 0.5, "delta": 1e-6}
SEEDED = "not private: seeded noise"


def warned(call):
    """Return what a call returns, and whether it warned of a seed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    return result, any("seeded noise" in str(each.message) for each in caught)


FRAME = pd.DataFrame({"a": X[:, 0], "y": X[:, 1], "arm": np.where(X[:, 0] > 0, "new", "old")})
PUBLIC = {"bounds": {"a": (-1, 1), "y": (-1, 1)}, "levels": {"arm": ["old", "new"]}, "random_state": 0}
WARNING_CALLS = {
    "estimate": lambda: dpalgos.estimate(
        "dp_mean", X, rng=np.random.default_rng(0), value_bound=1.0, **ASKED
    ),
    "class": lambda: DPMean(**ASKED, value_bound=1.0, random_state=0).fit(X),
    "pipeline": lambda: make_pipeline(DPMean(**ASKED, value_bound=1.0, random_state=0)).fit(X),
    "formula": lambda: ols("y ~ a", FRAME, **PUBLIC, **ASKED),
    "table": lambda: table_one("arm ~ a", FRAME, **PUBLIC, **ASKED),
}


@pytest.mark.parametrize("call", WARNING_CALLS.values(), ids=WARNING_CALLS)
def test_a_warning_names_the_line_of_the_caller(call):
    with pytest.warns() as caught:
        call()
    assert {each.filename for each in caught} == {__file__}


SEEDS = {
    "number": 0,
    "long number": 2**90,
    "legacy": np.random.RandomState(0),
    "generator": np.random.default_rng(0),
    "list": np.random.default_rng([1, 2, 3]),
    "spawned": np.random.default_rng(5).spawn(1)[0],
    "of an old generator": np.random.Generator(np.random.MT19937(3)),
}


@pytest.mark.parametrize("seed", SEEDS.values(), ids=SEEDS)
def test_a_fit_with_a_seed_warns_and_says_so(seed):
    model, has_warned = warned(lambda: DPMean(**ASKED, value_bound=1.0, random_state=seed).fit(X))
    assert has_warned
    assert SEEDED in str(model.summary()).lower()


@pytest.mark.parametrize("secret", [None, np.random.default_rng(), np.random.default_rng().spawn(1)[0]])
def test_a_fit_without_a_seed_is_private_and_says_so(secret):
    model, has_warned = warned(lambda: DPMean(**ASKED, value_bound=1.0, random_state=secret).fit(X))
    assert not has_warned
    assert SEEDED not in str(model.summary()).lower()
    assert "Differentially private for each row" in str(model.summary())


def test_a_seed_counts_however_it_arrives():
    plain = DPMean(**ASKED, value_bound=1.0)
    assert warned(lambda: clone(plain).set_params(random_state=3).fit(X))[1]
    pipeline = make_pipeline(FunctionTransformer(), plain)
    assert not warned(lambda: pipeline.fit(X))[1]
    assert warned(lambda: pipeline.set_params(dpmean__random_state=3).fit(X))[1]
    assert warned(lambda: clone(pipeline).fit(X))[1]
    # Replicates of one generator are made from its seed.
    seeded, secret = np.random.default_rng(2), np.random.default_rng()
    for rng, is_private in ((seeded, False), (secret, True)):
        found, has_warned = warned(
            lambda rng=rng: dpalgos.estimate("dp_mean", X, rng=rng, replicates=2, value_bound=1.0, **ASKED)
        )
        assert has_warned is not is_private
        assert (SEEDED in repr(found)) is not is_private
        assert (SEEDED in found.promise.lower()) is not is_private


def test_a_seed_of_a_budget_counts():
    budget = dpalgos.Budget(epsilon=2.0, delta=1e-4)
    call = {"value_bound": 1.0, "budget": budget, **ASKED}
    assert warned(lambda: dpalgos.estimate("dp_mean", X, rng=np.random.default_rng(0), **call))[1]
    assert not warned(lambda: dpalgos.estimate("dp_mean", X, rng=np.random.default_rng(), **call))[1]


def test_formulas_and_tables_say_so():
    frame = pd.DataFrame({"y": X[:, 0], "x": X[:, 1], "arm": np.resize(["a", "b"], len(X))})
    public = {"bounds": {"x": (-1, 1), "y": (-1, 1)}, **ASKED, "random_state": 0}
    found, has_warned = warned(lambda: ols("y ~ x", frame, **public))
    assert has_warned
    assert SEEDED in str(found.summary()).lower()
    levels = {"arm": ["a", "b"]}
    found, has_warned = warned(lambda: table_one("arm ~ x", frame, levels=levels, **public))
    assert has_warned
    assert SEEDED in repr(found).lower()
    assert SEEDED not in repr(table_one("arm ~ x", frame, levels=levels, **{**public, "random_state": None}))


def test_an_estimate_without_privacy_needs_no_warning():
    assert not warned(lambda: dpalgos.estimate("sample_mean", X, rng=np.random.default_rng(0)))[1]


def test_a_thousand_secret_generators_are_not_called_seeded():
    assert not any(is_seeded(np.random.default_rng()) for _ in range(1000))
