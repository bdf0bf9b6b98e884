"""Noise of the simulations: mean 0 and variance 1, skewed where requested."""

import numpy as np
import pytest

from data.errors import DataError
from data.simulations import centered_noise, simulator


@pytest.mark.parametrize(("kind", "skewness"), [("gaussian", 0.0), ("exponential", 2.0)])
def test_moments(kind, skewness):
    draws = centered_noise(np.random.default_rng(0), kind, 400_000)
    assert draws.mean() == pytest.approx(0, abs=0.01)
    assert draws.var() == pytest.approx(1, abs=0.02)
    assert (draws**3).mean() == pytest.approx(skewness, abs=0.15)


@pytest.mark.parametrize("model", ["gaussian_mean", "uniform_regression"])
def test_models_take_it_and_refuse_other_kinds(model):
    data = simulator(model)(np.random.default_rng(0), 50, 3, noise="exponential")
    assert np.isfinite(data.X).all()
    with pytest.raises(DataError, match="noise must be one of gaussian, student, exponential, got 'cauchy'"):
        simulator(model)(np.random.default_rng(0), 50, 3, noise="cauchy")
