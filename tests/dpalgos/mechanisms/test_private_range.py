"""The private range: its law, its failure, its cost, and huge numbers of bins."""

import numpy as np
import pytest
from scipy.stats import chisquare

from dpalgos.mechanisms.private_range import miss_probability, private_range, values_needed


def costs(values, bound, width, n_bins):
    bins = np.minimum((np.clip(values, -bound, bound) + bound) / width, n_bins - 1).astype(int)
    every = np.arange(n_bins)[:, None]
    return np.maximum((bins < every).sum(axis=1), (bins > every).sum(axis=1))


def law(values, bound, width, n_bins, epsilon):
    weights = np.exp(-epsilon / 2 * costs(values, bound, width, n_bins))
    return weights / weights.sum()


def middles(transcript, values, *, bound, width, epsilon):
    r = transcript.n_replicates
    column = values[:, None]
    return private_range(
        transcript, [column] * r, bound=bound, bin_width=np.full(r, width), epsilon=epsilon, label="range"
    )[0]


@pytest.mark.parametrize(
    "values",
    [
        np.array([-9.0, -5.0, -1.0, -1.0, -1.0, 0.2, 0.7, 0.71, 3.0, 5.0, 8.0]),  # ties, edges, outside
        np.array([2.0]),
        np.full(7, -3.3),
        np.array([-1e300, 1e300, 0.0]),
    ],
)
def test_the_law_is_that_of_all_bins(transcripts, values):
    """Brute force over 50 bins; noise at another ε is told apart."""
    bound, width, n_bins, epsilon, n = 5.0, 0.201, 50, 0.9, 20_000
    drawn = middles(transcripts.many(n), values, bound=bound, width=width, epsilon=epsilon)
    index = np.minimum((drawn + bound) / width, n_bins - 1).astype(int)
    seen = np.bincount(index, minlength=n_bins)
    expected = law(values, bound, width, n_bins, epsilon)
    assert chisquare(seen, n * expected).pvalue > 1e-3
    for wrong in (2 / 3, 3 / 2) if len(values) > 3 else ():  # few values say too little
        assert chisquare(seen, n * law(values, bound, width, n_bins, epsilon * wrong)).pvalue < 1e-3


@pytest.mark.parametrize(("n", "failure"), [(20, 0.871), (40, 0.0434)])
def test_failure_with_all_values_in_one_of_1000_bins(transcripts, n, failure):
    """(l − 1) / (l − 1 + e^(nε/2)) with ε = .5: the digest's numbers."""
    drawn = middles(transcripts.many(20_000), np.full(n, 3.3), bound=100.0, width=0.2, epsilon=0.5)
    missed = (np.abs(drawn - 3.3) > 0.2).mean()
    assert abs(missed - failure) < 4 * np.sqrt(failure * (1 - failure) / 20_000)


def test_1e13_bins_and_values_at_1e300(transcripts):
    values = np.concatenate([np.full(300, 7e11), [1e300, -1e300, 7e11, 5e12]])
    drawn = middles(transcripts.seeded(n_replicates=50), values, bound=5e12, width=1.0, epsilon=1.0)
    assert (np.abs(drawn - 7e11) <= 1).all()


def test_the_number_of_values_needed_makes_a_miss_unlikely():
    n = values_needed(1000, 0.3, 0.01)
    assert miss_probability(n, 1000, 0.3) <= 0.01 < miss_probability(n - 1, 1000, 0.3)
    assert miss_probability(1, 1, 0.3) == values_needed(1, 0.3, 0.01) == 0
