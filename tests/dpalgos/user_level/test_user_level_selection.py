"""Selection over users: excess risks, both rules, the crossover in m, bad input."""

import numpy as np
import pytest

from dpalgos.rows.sample import Sample
from tests.dpalgos.silence import estimated

K = 20
COINS = np.linspace(0.3, 0.7, K)
RADIUS_100 = float(np.sqrt(np.log(2 * K * 2000 / 0.1) / 200))


def coins(n, m, replicates, chances=COINS):
    """Users who toss coins m times each: (x'e_k)²/2 is what the k-th candidate loses, on average."""
    told = np.random.default_rng(1).binomial(m, chances, (n, len(chances))) / m
    return Sample(np.sqrt(2 * told), np.zeros(n), user_ids=np.arange(n), n_replicates=replicates)


def excess(sample, **keywords):
    settings = {"candidates": np.eye(sample.n_features), "loss": "squared", "loss_bound": 1.0, "delta": 1e-6}
    result = estimated(
        "user_level_selection", sample, seed=2, replicates=sample.n_replicates, **{**settings, **keywords}
    )
    risk = (sample.X**2 / 2).mean(axis=0)
    return float((risk[result.estimate.argmax(axis=0)] - risk.min()).mean())


@pytest.mark.parametrize("calibration", ["tight", "paper"])
def test_excess_of_the_best_of_twenty(calibration):
    """n = 2,000 users of 100 rows, ε = .5."""
    settings = {"epsilon": 0.5, "concentration_radius": RADIUS_100, "calibration": calibration}
    assert excess(coins(2000, 100, 20), **settings) <= 0.005
    assert excess(coins(2000, 100, 20), rule="exponential", **settings) <= 0.005
