"""Sparse generalized linear models: sensitivities, limits, budgets, and errors on the paper's design."""

import numpy as np
import pytest
from scipy.special import expit

import dpalgos
from data.simulations.paper_models import uniform_glm
from dpalgos.accounting.composition import spending
from dpalgos.rows.sample import Sample
from tests.dpalgos.silence import silent

BUDGET = {"epsilon": 0.5, "delta": 1e-5}


def sample_of(n, d, s, seed=0, family="logistic"):
    data = uniform_glm(np.random.default_rng(seed), n, d, family=family, sparsity=s, single_precision=True)
    return Sample(data.X, data.y), data.truth


def test_logistic_sensitivity_follows_the_iterate(neighbors):
    """Equal residuals sigmoid(σ ‖β‖₁) and opposite entries off the support: attained at any iterate."""
    d, bound = 6, 2.0
    check = neighbors(
        "dp_sparse_glm", d, **BUDGET, family="logistic", covariate_bound=bound, sparsity=1, n_iterations=6
    )
    first = check.record(np.ones((1, d)), np.zeros(1), seed=3)
    coef, moves = np.zeros(d), []
    for t in range(6):
        along, off = bound * np.sign(coef), bound * (coef == 0)
        one, two = (check.replay(row[None, :], np.zeros(1), first) for row in (along + off, along - off))
        moved = np.abs(one.values[2 * t] - two.values[2 * t]).max()
        moves.append(moved)
        assert moved == pytest.approx(float(np.max(first.events[2 * t].sensitivity)), rel=1e-12)
        coef = np.zeros(d)
        coef[first.published[2 * t][:, 0].astype(int)] = first.published[2 * t + 1][:, 0]
    assert max(moves) > 1.5 * moves[0]  # rises from half of its supremum


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


def test_budgets():
    sample, _ = sample_of(2000, 50, 5)
    shared = {**BUDGET, "family": "logistic", "covariate_bound": 1.0, "sparsity": 10}
    rng = np.random.default_rng(0)
    tight = dpalgos.estimate("dp_sparse_glm", sample, rng=rng, **shared)
    screened = dpalgos.estimate("screened_sparse_glm", sample, rng=rng, **shared)
    for result in (tight, screened):
        assert 0.499 < result.certified_epsilon <= 0.5
    paper = dpalgos.estimate(
        "dp_sparse_glm", sample, rng=rng, **shared, calibration="paper", n_iterations=50, step_size=1.0
    )
    # (5/24) (ε/T)² / log(T/δ) in every round, and the printed B is four times the sensitivity.
    assert spending(paper.events).rho == pytest.approx(5 / 24 * 0.5**2 / np.log(50e5) / 50 / 16)
    assert paper.certified_epsilon < 0.02
    # The printed scale: (ηB/n) 2 √(3 s log(T/δ)) T/ε with B = 8 σ_x.
    values = next(event for event in paper.events if event.label == "step: values")
    scale = 8 / 2000 * 2 * np.sqrt(30 * np.log(50e5)) * 50 / 0.5
    assert values.sensitivity / values.epsilon == pytest.approx(scale * sample.rows.rounding)
