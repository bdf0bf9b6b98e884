import numpy as np
import pytest

from data.errors import DataError
from data.simulations import simulator
from data.simulations.glms import uniform_glm


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


def test_single_precision_halves_the_memory_and_keeps_the_model():
    data = uniform_glm(np.random.default_rng(0), 1000, 6, single_precision=True)
    assert data.X.dtype == np.float32
    assert data.y.dtype == np.float64
    assert set(np.unique(data.y)) == {0.0, 1.0}


def test_the_seed_decides():
    first, again = (uniform_glm(np.random.default_rng(4), 50, 5, sparsity=2) for _ in range(2))
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    assert (first.X != uniform_glm(np.random.default_rng(5), 50, 5).X).any()


def test_it_is_found_by_name_and_refuses_other_families():
    assert simulator("uniform_glm") is uniform_glm
    with pytest.raises(DataError, match="family must be one of gaussian, logistic, poisson, got 'probit'"):
        uniform_glm(np.random.default_rng(0), 5, 2, family="probit")
