"""Lower bounds from counts, and the faults that no number of runs at hand can see."""

import numpy as np
import pytest
from scipy.stats import beta

from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.audit.rates import detectable_fault, epsilon_lower_bound, gaussian_audit


def test_the_bound_is_clopper_and_pearsons():
    n, tail = 1000, 0.0005
    low, high = beta.ppf(tail, 300, 701), beta.isf(tail, 51, 950)
    expected = np.log((low - 1e-3) / high)
    assert epsilon_lower_bound(300, 50, n, 1e-3) == pytest.approx(expected, rel=1e-9)


def test_extreme_counts():
    n, tail = 1000, 0.0005
    assert epsilon_lower_bound(0, 0, n, 1e-5) == 0
    assert epsilon_lower_bound(n, n, n, 1e-5) == 0
    # All against none: both limits are powers of the error probability.
    low, high = tail ** (1 / n), 1 - tail ** (1 / n)
    assert epsilon_lower_bound(n, 0, n, 0.0) == pytest.approx(np.log(low / high))


def test_the_bound_covers_the_truth():
    """Where p = e^ε q exactly, the bound exceeds ε with probability below 0.001."""
    rng, epsilon, q, n, repetitions = np.random.default_rng(0), 1.0, 0.02, 5000, 40_000
    hits, false_hits = rng.binomial(n, [[np.exp(epsilon) * q], [q]], (2, repetitions))
    exceeded = epsilon_lower_bound(hits, false_hits, n, 0.0) > epsilon
    assert exceeded.mean() <= 1e-3
    # At 70 % confidence it does happen, and not more often than it may.
    assert 0 < (epsilon_lower_bound(hits, false_hits, n, 0.0, 0.7) > epsilon).mean() <= 0.3


def test_the_limit_is_where_the_gaussian_audit_crosses_the_claim():
    epsilon, delta, n_trials = 1.0, 1e-6, 10**6
    factor, mu = detectable_fault(n_trials, epsilon, delta), gaussian_mu(epsilon, delta)
    assert gaussian_audit(0.98 * factor * mu, n_trials, delta) < epsilon
    assert gaussian_audit(1.02 * factor * mu, n_trials, delta) > epsilon
