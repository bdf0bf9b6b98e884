"""Audits that replay witnesses and attack what is claimed, also of others."""

import json
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from scipy.stats import beta

import dpalgos
from data.store.folders import PROJECT_ROOT
from dpalgos.accounting.events import Gaussian
from dpalgos.accounting.gaussian_dp import gaussian_epsilon, gaussian_mu, noise_multiplier
from dpalgos.api import build_params
from dpalgos.audit import rates
from dpalgos.audit.foreign import audit_callable, table_pairs
from dpalgos.audit.lower_bound import audit
from tests.builders import HASTY_MEAN
from tests.dpalgos.audit.faults import HalvedNoise, audit_toy, released

D = 9


def clipped_mean(sensitivity):
    def mean(sample, params, spend):
        sums = np.clip(sample.X, -1, 1).sum(axis=0)[:, None] / sample.n_rows
        means = np.repeat(sums, sample.n_replicates, axis=1)[:, : sample.n_replicates]
        z = noise_multiplier(params.epsilon, params.delta)
        return released(spend, "mean", Gaussian(z), means, sensitivity)

    return mean


@pytest.mark.parametrize("share", [1.0, 0.9, 1 / np.sqrt(D)])
def test_a_witness_that_moves_by_more_than_is_declared_is_found_in_few_runs(share):
    corners = np.ones((1, D)), -np.ones((1, D))
    result = audit_toy(clipped_mean(2 * np.sqrt(D) * share), corners, n_trials=200)
    assert result.largest_move == pytest.approx(1 / share)
    assert result.violated == (share < 1)
    assert ("'mean' moves by" in result.remark) == (share < 1)


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_the_trade_off_curve_shows_noise_that_counts_of_events_do_not(factor):
    estimator, rng = dpalgos.get_estimator("box_mean"), np.random.default_rng(1)
    asked = {**estimator.example, "noise": "gaussian", "epsilon": 0.5, "delta": 1e-5}
    noise = type("Noise", (HalvedNoise,), {"factor": factor})
    result = audit(estimator, build_params(estimator, asked), n_trials=100_000, rng=rng, noise=noise)
    assert result.epsilon_lower_bound <= result.claimed_epsilon
    assert (result.mu_lower_bound > result.mu) == result.violated == (factor > 1)


def gaussian_mechanism(mu):
    def mechanism(table, seed):
        return np.clip(table, -1, 1).sum(axis=0)[:1] + 2 / mu * np.random.default_rng(seed).normal(size=1)

    return mechanism


@pytest.mark.parametrize("true", [1.0, 2.0])
def test_a_mechanism_of_others_is_attacked_by_its_claimed_curve(true):
    pairs = table_pairs(4, 1, 1.0)
    claim = {"mu": 1.0, "epsilon": gaussian_epsilon(1e-5, 1.0), "delta": 1e-5}
    found = audit_callable(gaussian_mechanism(true), pairs=pairs, n_trials=3000, **claim)
    assert (found.mu_lower_bound > 1.0) == found.violated == (true > 1)
    assert found.epsilon_lower_bound < claim["epsilon"]


def test_a_plugin_whose_own_witness_contradicts_it_fails_its_audit():
    # A process of its own: this one has its catalog.
    command = [sys.executable, "-c", "from flows.cli.start import main; main()", "audit", "hasty_mean"]
    asked = [*command, "--with", HASTY_MEAN, "--trials", "1000", "--json"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, cwd=PROJECT_ROOT)
    assert done.returncode == 1, done.stderr
    (result,) = json.loads(done.stdout)
    assert result["verdict"] == "violated"
    assert result["largest_move"] == pytest.approx(np.sqrt(3))


PAIRS = table_pairs(5, 2, 1.0)


def laplace_mean(scale):
    """Return the mean with Laplace noise of a multiple of what ε = 1 needs: rows move it by 2 · 2/5 in ℓ1."""

    def mechanism(table, rng):
        return np.clip(table, -1, 1).mean(axis=0) + rng.laplace(scale=scale * 4 / len(table), size=2)

    return mechanism


def attack(mechanism, pairs=PAIRS):
    seeded = lambda table, seed: mechanism(table, np.random.default_rng(seed))  # noqa: E731
    return audit_callable(seeded, epsilon=1.0, delta=0.0, pairs=pairs, n_trials=2000)


def exact_now_and_then(table, rng):
    return table[0, 0] if rng.random() < 0.2 else rng.normal(scale=100)


def failing(table, rng, error=ValueError):
    if table[0, 0] < 0:
        raise error(0)
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


TELLING = [laplace_mean(0.3), exact_now_and_then, failing, partial(failing, error=SystemExit)]
TELLING += [failing_or_empty, infinite_or_nan, longer]


@pytest.mark.parametrize("mechanism", TELLING)
def test_what_tells_two_tables_apart_is_seen(mechanism):
    assert attack(mechanism, PAIRS[:1] if mechanism is failing_or_empty else PAIRS).violated


def test_the_bound_is_clopper_and_pearsons_for_extreme_counts_too():
    n, tail = 1000, 0.0005
    low, high = beta.ppf(tail, 300, 701), beta.isf(tail, 51, 950)
    expected = np.log((low - 1e-3) / high)
    assert rates.epsilon_lower_bound(300, 50, n, 1e-3) == pytest.approx(expected, rel=1e-9)
    assert rates.epsilon_lower_bound(0, 0, n, 1e-5) == 0
    assert rates.epsilon_lower_bound(n, n, n, 1e-5) == 0
    # All against none: both limits are powers of the error probability.
    low, high = tail ** (1 / n), 1 - tail ** (1 / n)
    assert rates.epsilon_lower_bound(n, 0, n, 0.0) == pytest.approx(np.log(low / high))


def test_the_bound_covers_the_truth():
    """Where p = e^ε q exactly, the bound exceeds ε with probability below 0.001."""
    rng, epsilon, q, n, repetitions = np.random.default_rng(0), 1.0, 0.02, 5000, 40_000
    hits, false_hits = rng.binomial(n, [[np.exp(epsilon) * q], [q]], (2, repetitions))
    exceeded = rates.epsilon_lower_bound(hits, false_hits, n, 0.0) > epsilon
    assert exceeded.mean() <= 1e-3
    # At 70 % confidence it does happen, and not more often than it may.
    assert 0 < (rates.epsilon_lower_bound(hits, false_hits, n, 0.0, 0.7) > epsilon).mean() <= 0.3


def test_the_limit_is_where_the_gaussian_audit_crosses_the_claim():
    epsilon, delta, n_trials = 1.0, 1e-6, 10**6
    factor, mu = rates.detectable_fault(n_trials, epsilon, delta), gaussian_mu(epsilon, delta)
    assert rates.gaussian_audit(0.98 * factor * mu, n_trials, delta) < epsilon
    assert rates.gaussian_audit(1.02 * factor * mu, n_trials, delta) > epsilon
