"""Sparse generalized linear models: sensitivities, limits, budgets, and errors on the paper's design."""

import numpy as np
import pytest
from scipy.special import expit

from data.simulations.paper_models import uniform_glm
from dpalgos.rows.sample import Sample
from tests.dpalgos.silence import recorded, silent

BUDGET = {"epsilon": 0.5, "delta": 1e-5}


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
