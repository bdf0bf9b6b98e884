"""Selection over users: excess risks, both rules, the crossover in m, bad input."""

import numpy as np
import pytest

import dpalgos
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


@pytest.mark.slow
def test_many_rows_per_user_make_random_stopping_the_better_rule():
    """n = 5,000, ε = .2, a gap of .004 between a hundred candidates; they cross between m = 1e3 and 1e4."""
    excesses = {}
    for m in (100, 100_000):
        sample = coins(5000, m, 20, np.linspace(0.3, 0.7, 100))
        tau = float(np.sqrt(np.log(2 * 100 * 5000 / 0.2) / (2 * m)))
        settings = {
            "epsilon": 0.2,
            "concentration_radius": tau,
            "range_failure": 1.0,
            "miss_probability": 0.2,
        }
        for rule in ("random_stopping", "exponential"):
            excesses[m, rule] = excess(sample, rule=rule, **settings)
    assert excesses[100, "exponential"] < excesses[100, "random_stopping"]
    assert excesses[100_000, "random_stopping"] < excesses[100_000, "exponential"]


def test_a_number_of_candidates_stands_for_the_columns():
    sample, settings = (
        coins(200, 100, 2),
        {"epsilon": 2.0, "concentration_radius": 0.3, "rule": "exponential"},
    )
    assert excess(sample, candidates=20, **settings) == excess(sample, **settings)


def test_too_few_users_are_refused():
    with pytest.raises(dpalgos.InputError, match="100 users"):
        excess(coins(100, 10, 1), epsilon=0.05, concentration_radius=0.5)
