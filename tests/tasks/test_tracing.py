"""Attacks that trace members: sums of scores, and thresholds; the lower bound that they prove."""

import numpy as np
import pytest

import dpalgos
from data.simulations import simulator
from tasks.problems.attack_rates import threshold
from tasks.problems.sources.candidates import BoundedMeanAttack, LinearModelAttack, MeanAttack
from tasks.problems.theory import explicit_mean_lower


def attack_on(data):
    support = None if data.truth.all() else data.truth != 0
    if data.y is not None:
        known = {"information": data.information, "score_sum": data.noise_std**2, "support": support}
        return LinearModelAttack(coef=data.truth, **known)
    if (np.abs(data.X) == 1.0).all():
        return BoundedMeanAttack(mean=data.truth, value_bound=1.0)
    return MeanAttack(mean=data.truth, support=support)


def experiment(model, n, d, estimator, seed, *, fresh=None, settings=None, **keywords):
    rng = np.random.default_rng([seed, n, d])
    data = simulator(model)(rng, n + (fresh or n), d, **(settings or {}))
    y = None if data.y is None else data.y[:n]
    result = dpalgos.estimate(estimator, data.X[:n], y, rng=rng, **keywords)
    outside = (data.X[n:], None if data.y is None else data.y[n:])
    return attack_on(data), (data.X[:n], y), outside, result.estimate


CASES = {
    "bounded mean": ("bounded_mean", 50, 300, "sample_mean", {}, {}),
    "mean": ("prior_mean", 50, 300, "sample_mean", {}, {}),
    "sparse mean": ("prior_mean", 300, 300, "sparse_sample_mean", {"sparsity": 20}, {"sparsity": 40}),
    "regression": ("prior_regression", 200, 60, "ols", {}, {}),
}
PRIVATE = {"value_bound": 1.0, "epsilon": 20.0, "delta": 1e-4}
CASES["private mean"] = ("bounded_mean", 50, 300, "dp_mean", {}, PRIVATE)


@pytest.mark.parametrize("case", CASES)
def test_members_scores_sum_to_what_steins_identity_says(case):
    """Their sum over what an unbiased estimate gives, in the mean over data sets."""
    *asked, settings, keywords = CASES[case]
    options, ratios = {"fresh": 1, "settings": settings, **keywords}, []
    for seed in range(60):
        attack, members, _, estimate = experiment(*asked, seed, **options)
        ratios.append(attack.scores(*members, estimate).sum() / attack.unbiased_sum)
    ratio, error = np.mean(ratios), np.std(ratios, ddof=1) / np.sqrt(60)
    if case == "sparse mean":  # σ²s where nothing is missed; less where thresholding misses, never s log d
        assert 0.7 < ratio < 1.0 + 3 * error
    else:
        assert ratio == pytest.approx(1.0, abs=3 * error)


def test_thresholds_leave_at_most_their_share_above():
    rng = np.random.default_rng(3)
    for outsiders in (rng.standard_normal((100, 20)), rng.integers(0, 4, (100, 20)).astype(float)):
        for rate in (0.1, 0.01):
            assert (outsiders > threshold(outsiders, rate)).mean() <= rate
    distinct = rng.standard_normal((100, 20))
    assert (distinct > threshold(distinct, 0.01)).sum() == 20
    assert threshold(distinct, 0.001) is None  # two of 2,000 resolve nothing


def test_the_explicit_bound_lies_below_a_private_unbiased_mean():
    # Rows N(0, I); dp_mean with R far out is unbiased up to nothing, and its δ is far below 1/n.
    n, d, epsilon, delta = 2000, 50, 1.0, 1e-9
    X = np.random.default_rng(0).standard_normal((n, d))
    keywords = {"value_bound": 6.0, "epsilon": epsilon, "delta": delta, "replicates": 50}
    result = dpalgos.estimate("dp_mean", X, rng=np.random.default_rng(1), **keywords)
    bound = explicit_mean_lower(n, d, epsilon)
    assert bound == pytest.approx(np.sqrt(np.pi / 2) * d / (n * np.sinh(epsilon)))
    assert bound < np.sqrt(np.mean(np.sum(result.estimate**2, axis=0)))
