"""How many entries to keep: what cross-validation as printed gives away, and the sound rules."""

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting.composition import budget_shares
from dpalgos.api import build_params
from dpalgos.central.dp_sparse_linear_regression import _fitted
from dpalgos.hardened_release import draw_release, rehearse_release
from dpalgos.rows.sample import Sample
from dpalgos.tuning.sparsity import LABEL, N_FOLDS, ResponseLoss, fold, fold_losses
from tests.dpalgos.silence import estimated

BUDGET = {"epsilon": 0.5, "delta": 1e-4}
CHOICES = ("noise_level", "holdout", "cross_validation")
MEAN = {"value_bound": 4.0, "sparsity": 16}
REGRESSION = {"covariate_bound": 1.0, "response_bound": 3.0, "coef_bound": 1.0, "sparsity": 16}
BOUNDS = {"dp_sparse_mean": MEAN, "dp_sparse_linear_regression": {**REGRESSION, "n_iterations": 5}}
every = pytest.mark.parametrize("name", BOUNDS)


def sparse_problem(name, n, d, rng):
    """Four entries other than zero, all of a size."""
    truth = np.where(np.arange(d) < 4, 0.5, 0.0)
    if name == "dp_sparse_mean":
        return rng.standard_normal((n, d)) + 4 * truth, None, 4 * truth
    X = rng.uniform(-1, 1, (n, d))
    return X, X @ truth + 0.3 * rng.standard_normal(n), truth


# What cross-validation as printed gives away (digest E8)


def printed_scores(record_response, n=100):
    """CV of one and of two coefficients as printed, where one row decides which column comes first."""
    settings = {"n_iterations": 60, "sparsity_choice": "printed_cross_validation"}
    bounds = {"covariate_bound": 1.0, "response_bound": 1e4, "coef_bound": 1e6, "sparsity": 2}
    estimator = dpalgos.get_estimator("dp_sparse_linear_regression")
    params = build_params(estimator, {**BUDGET, "calibration": "paper", **bounds, **settings})
    X, y = np.tile([1.0, 0.0], (n, 1)), np.full(n, 10.0)
    X[0], y[0] = [0.0, 1.0], record_response
    tau = 4.5
    losses = fold_losses(Sample(X, y), lambda rows: _fitted(rows, params), ResponseLoss(1e4, tau))
    return losses[:, 0] / n / tau


def test_one_row_moves_the_printed_score_by_81_percent_of_tau():
    n = 100
    moved = np.abs(printed_scores(1e4) - printed_scores(0.0))
    assert moved[0] == pytest.approx(0.81, abs=1e-6)
    assert moved[0] / (1 / n) == pytest.approx(81, abs=1e-3)  # the printed sensitivity is τ/n
    assert moved.max() <= 0.81 + 1e-6


@every
def test_printed_cross_validation_proves_nothing(name):
    rng = np.random.default_rng(0)
    X, y, _ = sparse_problem(name, 100, 20, rng)
    options = {**BUDGET, **BOUNDS[name], "sparsity_choice": "printed_cross_validation"}
    result = dpalgos.estimate(name, X, y, rng=rng, calibration="paper", **options)
    assert result.certified_epsilon == np.inf


# The sound rules


@every
@pytest.mark.parametrize("choice", ["holdout", "cross_validation"])
@pytest.mark.parametrize("share", [0.1, 0.4])
def test_the_choice_is_paid_for(name, choice, share):
    rng = np.random.default_rng(0)
    X, y, _ = sparse_problem(name, 300, 20, rng)
    options = {**BUDGET, **BOUNDS[name], "sparsity_choice": choice, "sparsity_share": share}
    result = dpalgos.estimate(name, X, y, rng=rng, **options)
    assert 0.99 * BUDGET["epsilon"] <= result.certified_epsilon <= BUDGET["epsilon"]
    of_the_choice = share if choice == "holdout" else share / 5
    assert budget_shares(result.events, BUDGET["delta"])[LABEL] == pytest.approx(of_the_choice, rel=0.25)


@every
def test_the_noise_level_costs_nothing(name):
    rng = np.random.default_rng(0)
    X, y, _ = sparse_problem(name, 300, 20, rng)
    options = {**BUDGET, **BOUNDS[name]}
    plain = estimated(name, X, y, seed=1, **options)
    pruned = estimated(name, X, y, seed=1, sparsity_choice="noise_level", **options)
    assert pruned.certified_epsilon == plain.certified_epsilon
    survivors = pruned.estimate != 0
    assert survivors.sum() < (plain.estimate != 0).sum()
    np.testing.assert_array_equal(np.sign(pruned.estimate[survivors]), np.sign(plain.estimate[survivors]))


# Folds


def test_noise_alone_is_not_taken_for_a_signal():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (500, 100)), rng.standard_normal(500)
    options = {**BUDGET, **REGRESSION, "n_iterations": 5, "sparsity_choice": "noise_level"}
    answers = dpalgos.estimate(
        "dp_sparse_linear_regression", X, y, rng=rng, replicates=100, **options
    ).estimate
    assert (answers != 0).any(axis=0).mean() < 0.4  # .1 by design for s values, more for the largest of 100


@pytest.mark.parametrize("n", [1, 2, 4, 5, 23, 100])
def test_every_row_is_tested_once_and_folds_are_even(n):
    sample = Sample(np.arange(float(n))[:, None])
    folds = [fold(sample, k) for k in range(N_FOLDS)]
    np.testing.assert_array_equal(np.concatenate([part.X[:, 0] for part in folds]), np.arange(n))
    sizes = [len(part.X) for part in folds]
    assert max(sizes) - min(sizes) <= 1
    for part in folds:
        if n > 1:
            assert not set(part.X[:, 0]) & set(part.train.X[:, 0])
        assert part.train.n_rows[0] == max(n - len(part.X), 1)


def test_folds_of_a_mask_are_those_of_its_rows():
    rng = np.random.default_rng(0)
    X, mask = np.arange(40.0)[:, None], rng.random((40, 3)) < 0.6
    masked = Sample(X, row_mask=mask, n_replicates=3)
    for k in range(N_FOLDS):
        part = fold(masked, k)
        for r in range(3):
            own = fold(Sample(X[mask[:, r]]), k)
            np.testing.assert_array_equal(part.X[part.weights[:, r] > 0], own.X)
            np.testing.assert_array_equal(X[part.train.row_mask[:, r]], own.train.X)


# Hardened noise, and input


@every
@pytest.mark.parametrize("choice", CHOICES)
def test_a_tuned_answer_can_be_released(name, choice):
    rng = np.random.default_rng(0)
    X, y, _ = sparse_problem(name, 200, 20, rng)
    options = {**BOUNDS[name], "n_iterations": 2} if y is not None else BOUNDS[name]
    plan = rehearse_release(name, 200, 20, {**BUDGET, **options, "sparsity_choice": choice})
    assert plan.cost.epsilon(BUDGET["delta"]) <= BUDGET["epsilon"]
    released = draw_release(plan, Sample(X, y))
    assert (released.estimate != 0).sum() <= 16
