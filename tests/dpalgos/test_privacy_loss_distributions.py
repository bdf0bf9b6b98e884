"""Privacy-loss distributions: an upper bound of ε, near the exact one whether ε is small or large."""

import pytest

from dpalgos.accounting.gaussian_dp import gaussian_epsilon
from dpalgos.accounting.pld import Cost, pld_epsilon


@pytest.mark.parametrize(
    ("noise_multiplier", "delta", "slack"), [(5.0, 1e-5, 3e-4), (0.5, 1e-5, 1e-4), (0.1, 0.1, 1e-4)]
)
def test_a_gaussian_release_costs_a_little_more_than_exactly(noise_multiplier, delta, slack):
    exact = gaussian_epsilon(delta, 1 / noise_multiplier)
    proved = pld_epsilon((Cost("gaussian", noise_multiplier, 1),), delta)
    assert exact <= proved <= (1 + slack) * exact


def test_pure_releases_of_large_budgets_cost_about_their_sum():
    proved = pld_epsilon((Cost("pure", 30.0, 3), Cost("pure", 7.0, 1)), 1e-12)
    assert 97 * (1 - 1e-9) <= proved <= 97 * (1 + 3e-4)
