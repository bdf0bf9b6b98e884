"""Central ε of shuffled and of summed reports: the theorem, by brute force and below its closed form."""

import numpy as np
import pytest
from scipy.stats import binom

import dpalgos
from dpalgos.accounting.amplification import aggregated_epsilon, shuffled_delta, shuffled_epsilon
from dpalgos.accounting.gaussian_dp import gaussian_mu


def closed_form(epsilon, delta, n):
    gain = np.exp(epsilon)
    rest = 8 * np.sqrt(gain * np.log(4 / delta) / n) + 8 * gain / n
    return np.log1p((gain - 1) / (gain + 1) * rest)


@pytest.mark.parametrize(
    ("epsilon", "n", "reference"),
    [
        (1, 10**4, 0.214),
        (1, 10**5, 0.0726),
        (1, 10**6, 0.0235),
        (2, 10**4, 0.501),
        (2, 10**5, 0.186),
        (4, 10**5, 0.535),
    ],
)
def test_the_numerical_bound_is_below_the_closed_form(epsilon, n, reference):
    assert closed_form(epsilon, 1e-6, n) == pytest.approx(reference, rel=0.01)
    found = shuffled_epsilon(float(epsilon), 1e-6, n)
    assert 0.1 * reference < found < 0.8 * reference
    assert shuffled_delta(found, epsilon, n) <= 1e-6 < shuffled_delta(0.98 * found, epsilon, n)


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.7])
@pytest.mark.parametrize("n", [1, 2, 5, 14])
def test_the_divergence_is_that_of_the_theorems_pair(epsilon, n):
    report_epsilon, total = 1.0, 0.0
    q = np.e / (1 + np.e)
    for c in range(n):
        counts = {}
        for a in range(c + 1):
            weight = binom.pmf(c, n - 1, np.exp(-1)) * binom.pmf(a, c, 0.5)
            for one, chance in ((1, q), (0, 1 - q)):
                first, second = (a + one, c - a + 1 - one), (a + 1 - one, c - a + one)
                counts.setdefault(first, [0, 0])[0] += weight * chance
                counts.setdefault(second, [0, 0])[1] += weight * chance
        total += sum(max(p - np.exp(epsilon) * other, 0) for p, other in counts.values())
    assert shuffled_delta(epsilon, report_epsilon, n) == pytest.approx(total, abs=1e-12)


def test_shuffling_never_costs_and_more_people_hide_better():
    found = [shuffled_epsilon(1.0, 1e-6, n) for n in (1, 10, 100, 1000, 10_000, 100_000)]
    assert found[0] == pytest.approx(1.0, rel=1e-5)
    assert found == sorted(found, reverse=True)
    assert (
        shuffled_epsilon(0.5, 1e-6, 1000)
        < shuffled_epsilon(1.0, 1e-6, 1000)
        < shuffled_epsilon(3.0, 1e-6, 1000)
    )


def test_a_sum_of_gaussian_reports_is_one_gaussian_release():
    mu = gaussian_mu(1.0, 1e-6)
    assert aggregated_epsilon(mu, 1e-6, 1) == pytest.approx(1.0)
    assert aggregated_epsilon(mu, 1e-6, 10_000) < 0.01
    assert aggregated_epsilon(20.0, 1e-6, 400) == pytest.approx(aggregated_epsilon(1.0, 1e-6, 1))


@pytest.mark.parametrize("n", [0, -3, 2.5, True])
def test_bad_numbers_of_reports(n):
    with pytest.raises(dpalgos.InputError, match="n_reports must"):
        shuffled_epsilon(1.0, 1e-6, n)
