"""Sparse regressions and generalized linear models; how many entries to keep, and where to truncate."""

import numpy as np
import pytest
from scipy.special import expit

import dpalgos
from dpalgos.accounting.budget import spending
from dpalgos.central import printed_cross_validation
from dpalgos.hardened_release import release_plan
from dpalgos.rows.sample import Sample
from tests.builders import refused
from tests.dpalgos.silence import estimated, silent

BUDGET = {"epsilon": 0.5, "delta": 1e-5}
BOUNDS = {"covariate_bound": 1.0, "response_bound": 3.0}
HARD_THRESHOLDING = {**BOUNDS, "coef_bound": 1.0, "sparsity": 5, "n_iterations": 6}


def feasible(n, d, rng, s=5):
    X = rng.uniform(-1, 1, (n, d))
    coef = np.zeros(d)
    coef[:s] = rng.standard_normal(s)
    coef /= np.linalg.norm(coef)
    return X, X @ coef + rng.standard_normal(n), coef


def by_row(X, bound):
    return X * np.minimum(1, bound / np.linalg.norm(X, axis=1, keepdims=True))


def by_entry(X, bound):
    return np.clip(X, -bound, bound)


RESIDUALS = {
    "response_bound": lambda u, y: u - np.clip(y, -1, 1),
    "residual_bound": lambda u, y: np.clip(u - y, -0.8, 0.8),
    "family": lambda u, y: expit(u) - y,
    "": lambda u, y: u - y,
}
LABELS, BALL, SPARSE_STEPS = {"family": "logistic"}, {"coef_bound": 0.6}, {"sparsity": 5, "n_iterations": 6}
TRUNCATED = {**BALL, "response_bound": 1.0}
# An estimator, the size of its steps, how it clips rows, their bound, and other settings
LOOPS = [
    ("iht_linear_regression", 1.2, None, None, SPARSE_STEPS),
    ("dp_linear_regression", 0.7, by_row, 1.5, TRUNCATED),
    ("dp_linear_regression", 0.7, by_row, 1.5, {**TRUNCATED, "residual_bound": 0.8}),
    ("dp_sparse_linear_regression", 1.7, by_entry, 0.8, {**SPARSE_STEPS, **TRUNCATED}),
    ("dp_sparse_linear_regression", 1.7, by_entry, 0.8, {**SPARSE_STEPS, **TRUNCATED, "residual_bound": 0.8}),
    *(("dp_glm", 3.0, by_row, 1.0, {**LABELS, **ball}) for ball in ({}, BALL)),
    *(("dp_sparse_glm", 3.0, by_entry, 0.7, {**LABELS, **SPARSE_STEPS, **ball}) for ball in ({}, BALL)),
]


@pytest.mark.parametrize("calibration", ["tight", "paper"])
@pytest.mark.parametrize(("name", "step", "clip", "bound", "settings"), LOOPS)
def test_without_noise_a_gradient_method_is_its_papers_loop(name, step, clip, bound, settings, calibration):
    if calibration == "paper" and (clip is None or "residual_bound" in settings):
        pytest.skip("is not printed")
    X, y, _ = feasible(300, 20, np.random.default_rng(0))
    y = (y > 0).astype(float) if "family" in settings else y
    residual = RESIDUALS[next((each for each in ("residual_bound", *RESIDUALS) if each in settings), "")]
    settings = {"n_iterations": 6, "step_size": step, **settings}
    bounds = {} if clip is None else {"covariate_bound": bound, "calibration": calibration, **BUDGET}
    rows, coef = X if clip is None else clip(X, bound), np.zeros(20)
    for _ in range(6):
        coef = coef - step * rows.T @ residual(rows @ coef, y) / 300
        coef[np.argsort(-np.abs(coef))[settings.get("sparsity", 20) :]] = 0
        coef *= min(1, settings.get("coef_bound", np.inf) / np.linalg.norm(coef))
    np.testing.assert_allclose(silent(name, X, y, **bounds, **settings), coef, atol=1e-12)


def test_the_printed_hard_thresholding_wastes_its_budget():
    X, y, _ = feasible(200, 30, np.random.default_rng(0))
    keywords = {**HARD_THRESHOLDING, "n_iterations": 10, "calibration": "paper"}
    result = estimated("dp_sparse_linear_regression", X, y, **BUDGET, **keywords)
    # (5/24) (ε/T)² / log(T/δ) in every round, and the printed B is twice the sensitivity.
    assert spending(result.events).rho == pytest.approx(5 / 24 * 0.5**2 / np.log(1e6) / 10 / 4)
    assert result.certified_epsilon < 0.05
    assert "s >= 10" in result.diagnostics["conditions"]
    # The printed scale: (ηB/n) 2 √(3 s log(T/δ)) T/ε with B = 4 (R + C √s x_max) x_max.
    values = next(event for event in result.events if event.label == "step: values")
    scale = 1.5 * 4 * (3 + np.sqrt(5)) / 200 * 2 * np.sqrt(15 * np.log(1e6)) * 10 / 0.5
    assert values.sensitivity / values.epsilon == pytest.approx(scale)


def test_printed_frank_wolfe_under_replace_one():
    X, y, _ = feasible(200, 30, np.random.default_rng(0))
    shared = {**BUDGET, "calibration": "paper", "coef_l1_bound": 2.0, "n_iterations": 50}
    result = estimated("private_frank_wolfe_lasso", X, y, **shared, **BOUNDS)
    worst = 0.5**2 / np.log(1e5)  # the digest's, with ‖θ‖₁ = C₁ in every step
    assert 0.95 * worst < spending(result.events).rho < worst
    assert 0.5 < result.certified_epsilon < 1.0
    result = estimated("private_frank_wolfe_lasso", X, **shared, value_bound=1.0)
    assert spending(result.events).rho == pytest.approx(worst / 4)
    assert result.certified_epsilon < 0.5


ASKED = {"epsilon": 0.5, "delta": 1e-4}
MEAN = {"value_bound": 4.0}
REGRESSION = {"covariate_bound": 1.0, "response_bound": 3.0, "coef_bound": 1.0}
DENSE = {"dp_mean": MEAN, "dp_linear_regression": REGRESSION}
SPARSE = {
    "dp_sparse_mean": {**MEAN, "sparsity": 16},
    "dp_sparse_linear_regression": {**REGRESSION, "sparsity": 16, "n_iterations": 5},
}
LIMITS = {**DENSE, **SPARSE}
each_sparse = pytest.mark.parametrize("name", SPARSE)


def rows_of(name, n=300, d=20):
    """Four entries other than zero, all of a size."""
    rng, truth = np.random.default_rng(0), np.where(np.arange(d) < 4, 0.5, 0.0)
    if "mean" in name:
        return rng.standard_normal((n, d)) + 4 * truth, None
    X = rng.uniform(-1, 1, (n, d))
    return X, X @ truth + 0.3 * rng.standard_normal(n)


def tuned(name, **keywords):
    return estimated(name, *rows_of(name), seed=1, **ASKED, **LIMITS[name], **keywords)


UNPAID = [(name, {"truncation": "none"}) for name in LIMITS]
UNPAID += [(name, {"sparsity_choice": "printed_cross_validation"}) for name in SPARSE]


@pytest.mark.parametrize(("name", "keywords"), UNPAID)
def test_what_nothing_can_pay_for_proves_nothing_and_is_refused_for_a_proof(name, keywords):
    result = tuned(name, calibration="paper", **keywords)
    assert result.certified_epsilon == np.inf
    assert any(event.is_unprotected for event in result.events)
    (argument,), asked = keywords, {**ASKED, **LIMITS[name], **keywords}
    for use in (lambda: tuned(name, **keywords), lambda: release_plan(name, 100, 20, asked)):
        refused(use, dpalgos.InputError, f"{argument} must")


@each_sparse
def test_the_noise_level_costs_nothing(name):
    plain, pruned = tuned(name), tuned(name, sparsity_choice="noise_level")
    assert pruned.certified_epsilon == plain.certified_epsilon
    survivors = pruned.estimate != 0
    assert survivors.sum() < (plain.estimate != 0).sum()
    np.testing.assert_array_equal(np.sign(pruned.estimate[survivors]), np.sign(plain.estimate[survivors]))


@pytest.mark.parametrize("n", [1, 2, 4, 5, 23, 100])
def test_every_row_is_tested_once_and_folds_are_even_those_of_a_mask_too(n):
    folds = [
        printed_cross_validation.fold(Sample(np.arange(float(n))[:, None]), k)
        for k in range(printed_cross_validation.N_FOLDS)
    ]
    np.testing.assert_array_equal(np.concatenate([part.X[:, 0] for part in folds]), np.arange(n))
    assert np.ptp([len(part.X) for part in folds]) <= 1
    X, used = np.arange(2.0 * n)[:, None], np.arange(2 * n) % 2 == 0
    masked = Sample(X, row_mask=used[:, None], n_replicates=1)
    for k, part in enumerate(folds):
        assert n == 1 or not set(part.X[:, 0]) & set(part.train.X[:, 0])
        assert part.train.n_rows[0] == max(n - len(part.X), 1)
        own = printed_cross_validation.fold(masked, k)
        np.testing.assert_array_equal(own.X[own.weights[:, 0] > 0], 2 * part.X)
        np.testing.assert_array_equal(X[own.train.row_mask[:, 0]], 2 * part.train.X)
