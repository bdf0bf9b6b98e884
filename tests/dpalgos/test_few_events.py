"""Rare events and counts with many zeros: the intercept, its noise, and when there are slopes."""

import numpy as np
import pytest

from dpalgos.central.preconditioned import PreconditionedGLM
from dpalgos.central.private_constant import PrivateConstant
from dpalgos.errors import InputError
from dpalgos.models.families import get_family
from tests.dpalgos.silence import estimated

N, DELTA = 2000, 1e-6


def table(n, n_events, seed=0):
    """Rows of three columns, and labels of which so many, chosen by the first column, are events."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.standard_normal((n, 3)), np.ones(n)])
    weight = np.exp(0.7 * X[:, 0])
    y = np.zeros(n)
    y[rng.choice(n, n_events, replace=False, p=weight / weight.sum())] = 1
    return X, y


def answers(X, y, epsilon, family="logistic", **keywords):
    asked = {"epsilon": epsilon, "delta": DELTA, "family": family, "intercept": True, "replicates": 40}
    return estimated("preconditioned_glm", X, y, seed=1, **{**asked, **keywords})


def mean_prediction(X, found, family="logistic"):
    return get_family(family).mean(X @ found.estimate).mean(axis=0)


@pytest.mark.parametrize(("n_events", "epsilon"), [(20, 0.5), (20, 1.0), (40, 0.5)])
def test_the_rate_of_rare_events_is_not_that_of_its_noise(n_events, epsilon):
    """A fixed share for it would predict 3 % whatever the rate is."""
    X, y = table(N, n_events)
    found = answers(X, y, epsilon)
    share = mean_prediction(X, found)
    assert 0.6 < np.median(share) / y.mean() < 1.6
    assert np.quantile(share, 0.9) < 3.5 * y.mean()


@pytest.mark.parametrize(("n_events", "least", "most"), [(20, 0.0, 0.1), (600, 0.95, 1.0)])
def test_slopes_are_given_where_there_are_events_enough(n_events, least, most):
    X, y = table(N, n_events)
    assert least <= answers(X, y, 0.5).estimate[:-1].any(axis=0).mean() <= most


@pytest.mark.parametrize(("n_events", "unsure"), [(10, True), (600, False)])
def test_a_rate_that_is_not_known_within_a_factor_of_two_is_a_caution(n_events, unsure):
    found = answers(*table(N, n_events), 0.5, replicates=1)
    assert any("factor of two" in caution for caution in found.cautions) == unsure


@pytest.mark.parametrize(("n", "epsilon"), [(500, 0.35), (600, 0.3), (1000, 0.3)])
def test_the_mean_of_counts_with_many_zeros_is_not_cut(n, epsilon):
    """A mean logarithm alone would cut counts of 20 among zeros at 14; 600 rows have the constant alone."""
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.standard_normal((n, 3)), np.ones(n)])
    y = rng.poisson(20, n) * (rng.random(n) < 0.4).astype(float)
    share = mean_prediction(X, answers(X, y, epsilon, "poisson"), "poisson")
    assert 0.92 < np.median(share) / y.mean() < 1.08


@pytest.mark.parametrize(("n", "search"), [(500, "mean logarithm"), (4000, "responses above a level")])
def test_a_low_public_maximum_of_counts_replaces_the_search_for_their_cut(n, search):
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.standard_normal((n, 3)), np.ones(n)])
    y = rng.poisson(0.3, n).clip(0, 4).astype(float)
    labels = [
        {event.label for event in answers(X, y, 0.3, "poisson", replicates=1, **bound).events}
        for bound in ({}, {"count_bound": 4.0})
    ]
    assert search in labels[0]
    assert labels[1] == labels[0] - {search}


@pytest.mark.parametrize("name", ["preconditioned_glm", "private_constant"])
def test_a_public_maximum_of_counts_lowers_the_noise_of_their_mean(name):
    asked = {"epsilon": 0.3, "delta": DELTA, "family": "poisson", "replicates": 40, "seed": 1}
    asked |= {"intercept": True} if name == "preconditioned_glm" else {}
    rng = np.random.default_rng(3)
    X, y = np.ones((300, 1)), rng.poisson(0.3, 300).clip(0, 3).astype(float)
    errors = [
        np.abs(mean_prediction(X, estimated(name, X, y, **asked, **bound), "poisson") - y.mean()).mean()
        for bound in ({}, {"count_bound": 3.0})
    ]
    assert errors[1] < 0.85 * errors[0]


@pytest.mark.parametrize("asked", [{"family": "logistic"}, {"family": "poisson", "counted_events": "all"}])
def test_a_public_maximum_is_for_counts_of_rows(asked):
    with pytest.raises(InputError, match="count_bound must be left out"):
        PreconditionedGLM(epsilon=1.0, delta=1e-6, count_bound=3.0, **asked)
    if "counted_events" not in asked:
        with pytest.raises(InputError, match="count_bound must be left out"):
            PrivateConstant(epsilon=1.0, delta=1e-6, count_bound=3.0, **asked)
