"""Simulated data: noise, generalized linear models, and the priors of the papers' lower bounds."""

import numpy as np
import pytest

from data.simulations import simulator
from data.simulations.paper_models import uniform_glm


@pytest.mark.parametrize("family", ["gaussian", "logistic", "poisson"])
@pytest.mark.parametrize("sparsity", [None, 3])
def test_responses_have_the_mean_of_their_family(family, sparsity):
    data = uniform_glm(np.random.default_rng(0), 200_000, 8, family=family, sparsity=sparsity)
    predictor = data.X @ data.truth
    mean = {"gaussian": predictor, "logistic": 1 / (1 + np.exp(-predictor)), "poisson": np.exp(predictor)}
    residual = data.y - mean[family]
    scores = data.X.T @ residual / np.sqrt((data.X**2).T @ residual**2)
    assert np.abs(scores).max() < 4.5
    assert abs(residual.sum()) < 4.5 * np.sqrt((residual**2).sum())
    assert np.linalg.norm(data.truth) == pytest.approx(1)
    assert np.count_nonzero(data.truth) == (sparsity or 8)
    assert np.abs(data.X).max() <= 1
    np.testing.assert_allclose((data.X**2).mean(axis=0), 1 / 3, rtol=0.02)


def draw(model, n=2000, d=50, seed=0, **settings):
    return simulator(model)(np.random.default_rng(seed), n, d, **settings)


@pytest.mark.parametrize("sparsity", [None, 5])
def test_regressions_suit_the_papers_assumptions(sparsity):
    data = draw("prior_regression", n=4000, sparsity=sparsity, noise_std=2.0)
    size = 50 if sparsity is None else sparsity
    assert np.linalg.norm(data.truth) <= 1
    assert np.abs(data.X).max() <= 1 / np.sqrt(size)
    residual = data.y - data.X @ data.truth
    assert residual.std() == pytest.approx(2.0, rel=0.05)
    scores = residual[:, None] * data.X
    assert np.mean(scores**2, axis=0) == pytest.approx(data.information, rel=0.2)


@pytest.mark.parametrize("sparsity", [None, 5])
def test_the_information_of_a_logistic_model(sparsity):
    data = draw("prior_logistic", n=200_000, d=20, sparsity=sparsity)
    assert set(np.unique(data.y)) == {0.0, 1.0}
    scores = (data.y - 1 / (1 + np.exp(-data.X @ data.truth)))[:, None] * data.X
    along = data.truth / np.linalg.norm(data.truth)
    # Normal predictors are assumed: 3 % off for five coefficients.
    for direction in (along, np.eye(20)[0], np.ones(20) / np.sqrt(20)):
        assert np.var(scores @ direction) == pytest.approx(direction @ data.information @ direction, rel=0.05)
