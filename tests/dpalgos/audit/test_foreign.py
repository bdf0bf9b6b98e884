"""Audits of mechanisms that are not ours."""

import numpy as np
import pytest

from dpalgos.audit.foreign import audit_callable, table_pairs

PAIRS = table_pairs(5, 2, 1.0)


def laplace_mean(scale):
    """Return the mean with Laplace noise of a multiple of what ε = 1 needs: rows move it by 2 · 2/5 in ℓ1."""

    def mechanism(table, rng):
        return np.clip(table, -1, 1).mean(axis=0) + rng.laplace(scale=scale * 4 / len(table), size=2)

    return mechanism


def attack(mechanism, pairs=PAIRS):
    seeded = lambda table, seed: mechanism(table, np.random.default_rng(seed))  # noqa: E731
    return audit_callable(seeded, epsilon=1.0, delta=0.0, pairs=pairs, n_trials=2000)


def test_a_private_mean_withstands():
    found = attack(laplace_mean(1.0), PAIRS[:12])  # which pair is chosen depends on how many there are
    assert not found.violated
    assert found.epsilon_lower_bound > 0.3


def exact_now_and_then(table, rng):
    return table[0, 0] if rng.random() < 0.2 else rng.normal(scale=100)


def failing(table, rng):
    if table[0, 0] < 0:
        raise ValueError("no")
    return rng.normal(size=1)


def failing_or_empty(table, rng):
    if rng.random() < 0.5:
        return rng.normal(size=1)
    if table[0, 0] > 0:
        raise ValueError("no")
    return []


def infinite_or_nan(table, rng):
    return rng.normal() if abs(table[0, 0]) < 1 else np.inf if table[0, 0] > 0 else -np.inf


def longer(table, rng):
    return rng.normal(size=2 + (table[0, 0] > 0))


def leaving(table, rng):
    if table[0, 0] < 0:
        raise SystemExit(0)
    return rng.normal(size=1)


@pytest.mark.parametrize(
    "mechanism",
    [laplace_mean(0.3), exact_now_and_then, failing, failing_or_empty, infinite_or_nan, longer, leaving],
    ids=lambda mechanism: mechanism.__name__,
)
def test_what_tells_two_tables_apart_is_seen(mechanism):
    assert attack(mechanism, PAIRS[:1] if mechanism is failing_or_empty else PAIRS).violated
