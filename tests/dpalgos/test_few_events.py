"""Rare events and counts with many zeros: the intercept, its noise, and when there are slopes."""

import numpy as np
import pytest
import scipy

from dpalgos.central.preconditioned.mean_response import MeanResponse, positive_mean
from dpalgos.models.families import get_family
from dpalgos.release.spend import Noisy
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


@pytest.mark.parametrize("z", [-6.0, -1.0, 0.0, 0.5, 3.0])
def test_a_positive_mean_is_that_of_the_part_of_the_normal_law_above_zero(z):
    law = scipy.stats.norm(z * 0.1, 0.1)
    expected = law.expect(lambda m: m, lb=0, ub=2) / law.sf(0)
    assert positive_mean(z * 0.1, 0.1) == pytest.approx(expected, rel=1e-5)


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


def test_the_intercept_gets_what_slopes_do_not_and_the_events_are_the_planned_ones():
    rare, usual = (answers(*table(N, n_events), 0.5) for n_events in (20, 600))
    costs = [[(event.label, event.noise_multiplier) for event in found.events] for found in (rare, usual)]
    assert costs[0] == costs[1]
    steps = [float(event.l2_sensitivity) for event in rare.events if event.label == "preconditioned score"]
    assert steps == pytest.approx([1 / N] * len(steps))  # a mean of numbers in [0, 1]
    assert rare.certified_epsilon == pytest.approx(0.5, rel=1e-3)


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


def test_clipped_steps_do_not_hide_the_released_mean_of_counts():
    """A quarter of the scores is clipped, mostly those of counts above zero: 0.80 by the steps alone."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random((800, 4)) < 0.3, np.ones(800)])
    y = rng.poisson(20 * np.exp(X @ [0.8, -0.6, 0.4, -0.2, 0])) * (rng.random(800) < 0.4).astype(float)
    found = answers(X, y, 1.0, "poisson", replicates=60)
    assert 0.815 < np.mean(mean_prediction(X, found, "poisson")) / y.mean() < 1


def test_another_release_of_a_mean_counts_by_its_precision():
    mean = MeanResponse(get_family("logistic"), 0.1, 0.02).after(Noisy(np.array(0.2), np.array(0.04)))
    assert mean.released == pytest.approx(0.12)
    assert mean.std == pytest.approx((0.02**-2 + 0.04**-2) ** -0.5)
