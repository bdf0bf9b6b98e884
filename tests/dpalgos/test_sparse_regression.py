"""Sparse regressions and generalized linear models: limits, sensitivities, printed budgets."""

import numpy as np
import pytest
from scipy.special import expit

from data.simulations.paper_models import uniform_glm
from dpalgos.accounting.composition import spending
from dpalgos.rows.sample import Sample
from tests.dpalgos.silence import estimated, recorded, silent

BUDGET = {"epsilon": 0.5, "delta": 1e-5}
BOUNDS = {"covariate_bound": 1.0, "response_bound": 3.0}
HARD_THRESHOLDING = {**BOUNDS, "coef_bound": 1.0, "sparsity": 5, "n_iterations": 6}
FRANK_WOLFE = {**BOUNDS, "coef_l1_bound": 2.0, "n_iterations": 9}


def feasible(n, d, rng, s=5):
    X = rng.uniform(-1, 1, (n, d))
    coef = np.zeros(d)
    coef[:s] = rng.standard_normal(s)
    coef /= np.linalg.norm(coef)
    return X, X @ coef + rng.standard_normal(n), coef


def test_iht_with_a_step_size_is_the_printed_loop():
    X, y, _ = feasible(200, 30, np.random.default_rng(0))
    keywords = {"sparsity": 5, "step_size": 1.2, "n_iterations": 7}
    ours = estimated("iht_linear_regression", X, y, **keywords).estimate
    coef = np.zeros(30)
    for _ in range(7):
        coef = coef + 1.2 * X.T @ (y - X @ coef) / 200
        coef[np.argsort(-np.abs(coef))[5:]] = 0
    np.testing.assert_allclose(ours, coef, atol=1e-12)


@pytest.mark.parametrize("residual_bound", [None, 0.8])
def test_without_noise_it_is_projected_hard_thresholding(residual_bound):
    X, y, _ = feasible(300, 20, np.random.default_rng(0))
    keywords = {**HARD_THRESHOLDING, "covariate_bound": 0.8, "coef_bound": 0.6, "step_size": 1.7}
    ours = silent("dp_sparse_linear_regression", X, y, **BUDGET, **keywords, residual_bound=residual_bound)
    clipped, coef = np.clip(X, -0.8, 0.8), np.zeros(20)
    for _ in range(6):
        residual = (np.clip(y, -3, 3) if residual_bound is None else y) - clipped @ coef
        if residual_bound is not None:
            residual = np.clip(residual, -residual_bound, residual_bound)
        coef = coef + 1.7 * clipped.T @ residual / 300
        coef[np.argsort(-np.abs(coef))[5:]] = 0
        coef *= min(1, 0.6 / np.linalg.norm(coef))
    np.testing.assert_allclose(ours, coef, atol=1e-12)


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


def test_without_noise_frank_wolfe_solves_the_lasso():
    X, y, _ = feasible(4000, 10, np.random.default_rng(0), s=2)
    ridge = silent("private_frank_wolfe_lasso", X, y, **BUDGET, **{**FRANK_WOLFE, "n_iterations": 400})
    least_squares = np.linalg.lstsq(X, np.clip(y, -3, 3))[0]
    assert np.abs(least_squares).sum() < 2.0  # the constraint does not bind
    assert np.linalg.norm(ridge - least_squares) < 0.02
    means = np.r_[0.9, -0.4, np.zeros(4)]
    keywords = {"value_bound": 2.0, "coef_l1_bound": 2.0, "n_iterations": 400}
    rows = np.random.default_rng(0).uniform(-1, 1, (2000, 6)) + means
    answer = silent("private_frank_wolfe_lasso", rows, None, **BUDGET, **keywords)
    assert np.linalg.norm(answer - rows.mean(axis=0)) < 0.02
    bound = silent("private_frank_wolfe_lasso", rows, None, **BUDGET, **{**keywords, "coef_l1_bound": 0.5})
    assert np.abs(bound).sum() <= 0.5 + 1e-12


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


def test_without_noise_screening_is_weighted_least_squares():
    X, y, coef = feasible(3000, 40, np.random.default_rng(0))
    keywords = {"covariate_bound": 1.0, "response_bound": 100.0, "sparsity": 5}
    answer = silent("screened_sparse_regression", X, y, **BUDGET, **keywords, clip_norm=50.0)
    support = answer != 0
    assert support.sum() == 5
    floored = {"epsilon": 50.0, "delta": 0.5}  # a floor of eigenvalues far below the design's
    answer = silent("screened_sparse_regression", X, y, **floored, **keywords, clip_norm=50.0)
    np.testing.assert_allclose(answer[support], np.linalg.lstsq(X[:, support], y)[0], atol=1e-9)
    assert np.linalg.norm(silent("screened_sparse_regression", X, y, **floored, **keywords) - coef) < 0.2


def test_logistic_sensitivity_follows_the_iterate():
    """Equal residuals sigmoid(σ ‖β‖₁) and opposite entries off the support: attained at any iterate."""
    d, bound = 6, 2.0
    settings = {**BUDGET, "family": "logistic", "covariate_bound": bound, "sparsity": 1, "n_iterations": 6}

    def run(row, script=None):
        return recorded("dp_sparse_glm", Sample(row[None], np.zeros(1)), settings, script, seed=3)[0]

    first, coef, found = run(np.ones(d)), np.zeros(d), []
    for t in range(6):
        along, off = bound * np.sign(coef), bound * (coef == 0)
        one, two = (run(row, first.published) for row in (along + off, along - off))
        found.append(np.abs(one.values[2 * t] - two.values[2 * t]).max())
        assert found[-1] == pytest.approx(float(np.max(first.events[2 * t].sensitivity)), rel=1e-12)
        coef = np.zeros(d)
        coef[first.published[2 * t][:, 0].astype(int)] = first.published[2 * t + 1][:, 0]
    assert max(found) > 1.5 * found[0]  # rises from half of its supremum


@pytest.mark.parametrize("coef_bound", [None, 0.2])
def test_without_noise_it_is_hard_thresholding(coef_bound):
    data = uniform_glm(np.random.default_rng(0), 400, 30, sparsity=5)
    keywords = {"family": "logistic", "covariate_bound": 0.7, "sparsity": 5, "n_iterations": 6}
    ours = silent("dp_sparse_glm", data.X, data.y, **BUDGET, **keywords, step_size=3.0, coef_bound=coef_bound)
    clipped, coef = np.clip(data.X, -0.7, 0.7), np.zeros(30)
    for _ in range(6):
        coef = coef + 3.0 * clipped.T @ (data.y - expit(clipped @ coef)) / 400
        coef[np.argsort(-np.abs(coef))[5:]] = 0
        coef *= 1 if coef_bound is None else min(1, coef_bound / np.linalg.norm(coef))
    np.testing.assert_allclose(ours, coef, atol=1e-12)


def test_without_noise_screening_solves_the_instrumented_equation():
    data = uniform_glm(np.random.default_rng(0), 4000, 40, sparsity=4)
    keywords = {"covariate_bound": 1.0, "sparsity": 4, "n_iterations": 60, "threshold": None}
    answer = silent("screened_sparse_glm", data.X, data.y, **BUDGET, family="logistic", **keywords)
    support = np.flatnonzero(answer)
    rows = data.X[:, support]
    weights = np.minimum(1, 1.05 * np.sqrt(4 / 3) / np.linalg.norm(rows, axis=1))
    predicted = np.clip(rows @ answer[support], -np.log(3), np.log(3))
    np.testing.assert_allclose(rows.T @ (weights * (data.y - expit(predicted))) / 4000, 0, atol=1e-9)
