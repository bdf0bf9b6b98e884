"""Audits of mechanisms that are not ours."""

import numpy as np
import pytest

from dpalgos import InputError
from dpalgos.audit.foreign import audit_callable, table_pairs

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
    assert not attack(laplace_mean(1.0)).violated
    found = attack(laplace_mean(1.0), pairs=PAIRS[:12])  # which pair is chosen depends on how many there are
    assert not found.violated
    assert found.epsilon_lower_bound > 0.3


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


def test_failing_where_the_neighbor_answers_nothing_is_seen():
    def fails_or_is_empty(table, seed):
        rng = np.random.default_rng(seed)
        if rng.random() < 0.5:
            return rng.normal(size=1)
        if table[0, 0] > 0:
            raise ValueError("no")
        return []

    assert attack(fails_or_is_empty, pairs=PAIRS[:1]).violated


def test_infinity_where_the_neighbor_has_no_number_is_seen():
    def infinite_or_nan(table, seed):
        rng = np.random.default_rng(seed)
        return rng.normal() if abs(table[0, 0]) < 1 else np.inf if table[0, 0] > 0 else -np.inf

    assert attack(infinite_or_nan).violated


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


def leaves(table, seed):
    raise SystemExit(0)


@pytest.mark.parametrize(
    ("mechanism", "named"),
    [
        (leaves, "SystemExit"),
        (lambda table, seed: None, "None"),
        (lambda table, seed: np.nan, "no finite number"),
        (lambda table, seed: [np.inf, np.nan], "no finite number"),
        (lambda table, seed: np.zeros(10**7), "10,000,000"),
    ],
    ids=["exit", "none", "nan", "infinite", "long"],
)
def test_what_gives_no_number_or_too_many_is_refused(mechanism, named):
    with pytest.raises(InputError, match=named):
        attack(mechanism, n_trials=1000)


def test_leaving_on_one_data_set_is_seen():
    def sometimes(table, seed):
        return leaves(table, seed) if table[0, 0] < 0 else np.random.default_rng(seed).normal(size=1)

    assert attack(sometimes).violated


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ((10, 10**8, 1.0), "columns"),
        ((10, 2, -1.0), "-1"),
        ((10, 2, np.nan), "nan"),
        ((10, 2, np.inf), "inf"),
    ],
)
def test_tables_that_cannot_be_made_are_refused(table, named):
    with pytest.raises(InputError, match=named):
        table_pairs(*table)


def test_more_runs_than_memory_holds_are_refused_before_the_first():
    with pytest.raises(InputError, match="trials"):
        attack(lambda table, seed: pytest.fail("it ran"), n_trials=10**8)
