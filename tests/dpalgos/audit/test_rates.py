"""Lower bounds from counts, and the faults that no number of runs at hand can see."""

import itertools

import numpy as np
import pytest
from scipy.stats import beta

import dpalgos
from dpalgos.accounting.gaussian_dp import gaussian_epsilon, gaussian_mu
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


def test_detectable_faults_shrink_with_more_trials():
    factors = [detectable_fault(n, 2.0, 1e-5) for n in (10**4, 10**5, 10**6, 10**7)]
    assert all(a > b > 1 for a, b in itertools.pairwise(factors))
    assert detectable_fault(10, 2.0, 1e-5) == np.inf


@pytest.mark.parametrize(("epsilon", "n_trials"), [(2.0, 10**5), (0.5, 10**6)])
@pytest.mark.parametrize("delta", [1e-5, 1e-4])
def test_a_factor_of_two_is_within_reach(epsilon, n_trials, delta):
    assert detectable_fault(n_trials, epsilon, delta, power=0.999) < 2


def test_the_limit_is_where_the_gaussian_audit_crosses_the_claim():
    epsilon, delta, n_trials = 1.0, 1e-6, 10**6
    factor, mu = detectable_fault(n_trials, epsilon, delta), gaussian_mu(epsilon, delta)
    assert gaussian_audit(0.98 * factor * mu, n_trials, delta) < epsilon
    assert gaussian_audit(1.02 * factor * mu, n_trials, delta) > epsilon


def test_algorithm_3_1_is_under_calibrated_and_no_audit_would_tell():
    """The printed noise √log(1/δ) Δ/ε proves .5198 where .5 was asked: 3.6 % too little noise."""
    epsilon, delta = 0.5, 1e-5
    printed = np.sqrt(np.log(1 / delta)) / epsilon
    assert gaussian_epsilon(delta, 1 / printed) == pytest.approx(0.5198, abs=5e-5)
    fault = 1 / (printed * gaussian_mu(epsilon, delta))
    assert fault == pytest.approx(1.036, abs=1e-3)
    assert detectable_fault(10**8, epsilon, delta) > 1.1 > fault
    assert gaussian_audit(1 / printed, 10**8, delta, power=0.5) < epsilon


@pytest.mark.parametrize("n_trials", [0, -1, True])
def test_bad_number_of_trials(n_trials):
    with pytest.raises(dpalgos.InputError, match="n_trials must"):
        detectable_fault(n_trials, 1.0, 1e-5)
