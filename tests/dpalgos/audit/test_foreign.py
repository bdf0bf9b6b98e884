"""Audits of mechanisms that are not ours."""

import numpy as np

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


def leaves(table, seed):
    raise SystemExit(0)


def test_leaving_on_one_data_set_is_seen():
    def sometimes(table, seed):
        return leaves(table, seed) if table[0, 0] < 0 else np.random.default_rng(seed).normal(size=1)

    assert attack(sometimes).violated
