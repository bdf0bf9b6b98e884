"""Audits of mechanisms that are not ours."""

import numpy as np
import pytest

from dpalgos import InputError
from dpalgos.audit.foreign import audit_callable, audit_in_one_run, table_pairs

PAIRS = table_pairs(5, 2, 1.0)


def laplace_mean(scale):
    """Return the mean with Laplace noise of a multiple of what ε = 1 needs: rows move it by 2 · 2/5 in ℓ1."""

    def mechanism(table, seed):
        rng = np.random.default_rng(seed)
        return np.clip(table, -1, 1).mean(axis=0) + rng.laplace(scale=scale * 4 / len(table), size=2)

    return mechanism


def attack(mechanism, n_trials=2000, delta=0.0, epsilon=1.0, pairs=PAIRS):
    return audit_callable(mechanism, epsilon=epsilon, delta=delta, pairs=pairs, n_trials=n_trials)


def test_a_private_mean_withstands():
    found = attack(laplace_mean(1.0))
    assert not found.violated
    assert found.epsilon_lower_bound > 0.4


def test_too_little_noise_is_seen():
    assert attack(laplace_mean(0.3)).violated


def test_a_mechanism_without_noise_is_seen():
    assert attack(lambda table, seed: table.mean(axis=0)).epsilon_lower_bound > 4


def test_values_that_come_again_are_seen():
    def sometimes_exact(table, seed):
        rng = np.random.default_rng(seed)
        return table[0, 0] if rng.random() < 0.2 else rng.normal(scale=100)

    assert attack(sometimes_exact).violated


def test_failing_on_one_data_set_is_seen():
    def fails(table, seed):
        if table[0, 0] < 0:
            raise ValueError("no")
        return np.random.default_rng(seed).normal(size=1)

    assert attack(fails).violated


def test_lengths_that_tell_are_seen():
    def longer(table, seed):
        return np.random.default_rng(seed).normal(size=2 + (table[0, 0] > 0))

    assert attack(longer).violated


def test_a_mechanism_that_never_answers_is_refused():
    def broken(table, seed):
        raise RuntimeError("broken")

    with pytest.raises(InputError, match="broken"):
        attack(broken, n_trials=1000)
    with pytest.raises(InputError, match="pair"):
        attack(laplace_mean(1.0), pairs=[])


def test_labels_are_zero_and_one():
    for pair in table_pairs(6, 3, 2.0, label=True):
        for table in (pair.X, pair.other_X):
            assert set(table[:, -1]) <= {0.0, 1.0}
            assert table.shape == (6, 3)
        assert (pair.other_X != pair.X).any(axis=1).sum() == 1


@pytest.mark.parametrize(("noise", "violated"), [(0.0, True), (1.0, False)])
def test_one_run_sees_that_there_is_no_noise(noise, violated):
    n, d = 500, 2000

    def mean(table, seed):
        rng = np.random.default_rng(seed)
        return table.mean(axis=0) + noise * rng.normal(scale=np.sqrt(d) * 4 / n, size=d)

    found = audit_in_one_run(mean, epsilon=1.0, delta=1e-6, n_canaries=n, n_columns=d, bound=1.0)
    assert found.violated == violated


def test_one_run_needs_an_answer_along_the_rows():
    with pytest.raises(InputError, match="columns"):
        audit_in_one_run(lambda table, seed: 1.0, epsilon=1, delta=0, n_canaries=9, n_columns=3, bound=1)
