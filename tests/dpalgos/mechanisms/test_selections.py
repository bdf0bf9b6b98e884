"""Selections: laws and costs of random stopping, private ranges and quantiles."""

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from dpalgos.accounting.other_events import Proved, Selection
from dpalgos.audit.trials import BatchNoise
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.private_range import miss_probability, values_needed
from dpalgos.tuning.truncation import exponential_quantiles
from dpalgos.user_level.aggregation import private_range
from dpalgos.user_level.user_level_selection import cost, number_of_draws
from tests.dpalgos.silence import seeded


def many(n_replicates):
    """Return replicates of one generator: for the laws of mechanisms, not for a batch."""
    return Spend(BatchNoise(np.random.default_rng(0), n_replicates))


def test_the_number_of_draws_is_geometric():
    uniforms = (np.arange(50_000) + 0.5) / 50_000
    drawn = np.array([number_of_draws(u, 0.2) for u in uniforms])
    seen = np.bincount(drawn, minlength=12)[1:8] / len(drawn)
    np.testing.assert_allclose(seen, 0.2 * 0.8 ** np.arange(7), atol=1e-4)
    for survival in (0.5, 1e-3, 1e-9):  # no cap, however late
        assert number_of_draws(1 - survival, 0.01) == pytest.approx(np.log(survival) / np.log(0.99), abs=1)


def test_random_stopping_costs_three_scores():
    event = cost(0.2)
    assert (type(event), event.epsilon, event.delta) == (Proved, pytest.approx(0.6), 0.0)


def costs(values, bound, width, n_bins):
    bins = np.minimum((np.clip(values, -bound, bound) + bound) / width, n_bins - 1).astype(int)
    every = np.arange(n_bins)[:, None]
    return np.maximum((bins < every).sum(axis=1), (bins > every).sum(axis=1))


def law(values, bound, width, n_bins, epsilon):
    weights = np.exp(-epsilon / 2 * costs(values, bound, width, n_bins))
    return weights / weights.sum()


def middles(spend, values, *, bound, width, epsilon):
    spend.start({"top": Selection(epsilon)}, {})
    return private_range(spend, "top", values[:, None], bound=bound, bin_width=width)[0]


@pytest.mark.parametrize(
    "values",
    [
        np.array([-9.0, -5.0, -1.0, -1.0, -1.0, 0.2, 0.7, 0.71, 3.0, 5.0, 8.0]),  # ties, edges, outside
        np.array([2.0]),
        np.full(7, -3.3),
        np.array([-1e300, 1e300, 0.0]),
    ],
)
def test_the_law_is_that_of_all_bins(values):
    """Brute force over 50 bins; noise at another ε is told apart."""
    bound, width, n_bins, epsilon, n = 5.0, 0.201, 50, 0.9, 20_000
    drawn = middles(many(n), values, bound=bound, width=width, epsilon=epsilon)
    index = np.minimum((drawn + bound) / width, n_bins - 1).astype(int)
    seen = np.bincount(index, minlength=n_bins)
    expected = law(values, bound, width, n_bins, epsilon)
    assert chisquare(seen, n * expected).pvalue > 1e-3
    for wrong in (2 / 3, 3 / 2) if len(values) > 3 else ():  # few values say too little
        assert chisquare(seen, n * law(values, bound, width, n_bins, epsilon * wrong)).pvalue < 1e-3


def test_1e13_bins_and_values_at_1e300():
    values = np.concatenate([np.full(300, 7e11), [1e300, -1e300, 7e11, 5e12]])
    drawn = middles(seeded(n_replicates=50), values, bound=5e12, width=1.0, epsilon=1.0)
    assert (np.abs(drawn - 7e11) <= 1).all()


def test_the_number_of_values_needed_makes_a_miss_unlikely():
    n = values_needed(1000, 0.3, 0.01)
    assert miss_probability(n, 1000, 0.3) <= 0.01 < miss_probability(n - 1, 1000, 0.3)
    assert miss_probability(1, 1, 0.3) == values_needed(1, 0.3, 0.01) == 0


def test_the_law_is_the_exponential_mechanism():
    """Ties, points outside the range and points on its ends included."""
    values = np.array([-9.0, -5.0, -1.0, -1.0, -1.0, 0.2, 0.7, 0.7, 3.0, 5.0, 8.0])
    n, clipped = 20_000, np.clip(values, -5, 5)
    spend = many(n).start({"top": Selection(0.5, support=(-5.0, 5.0), by="density")}, {})
    drawn = exponential_quantiles(spend, "top", values[:, None], levels=[0.4], lower=-5.0, upper=5.0)[0, 0]
    assert ((drawn > -5) & (drawn < 5)).all()
    edges = np.unique([-5, 5, *clipped])
    below = (clipped[:, None] <= edges[:-1]).sum(axis=0)  # the density is constant between two values

    def distribution(epsilon):
        mass = np.diff(edges) * np.exp(-epsilon / 2 * np.abs(below - 0.4 * len(values)))
        return lambda z: np.interp(z, edges, np.append(0, np.cumsum(mass / mass.sum())))

    assert kstest(drawn, distribution(0.5)).pvalue > 1e-3
    for wrong in (2 / 3, 3 / 2):
        assert kstest(drawn, distribution(0.5 / wrong)).pvalue < 1e-9


def test_quantiles_are_those_that_are_planned():
    """Their number and their range are what is charged."""
    for k, upper in ((2, 5.0), (1, 6.0)):
        spend = many(3).start({"top": Selection(0.5, count=k, support=(-5.0, upper), by="density")}, {})
        with pytest.raises(RuntimeError, match="is planned as"):
            exponential_quantiles(spend, "top", np.zeros((4, 1)), levels=[0.4], lower=-5.0, upper=5.0)
        assert not spend.record.events
