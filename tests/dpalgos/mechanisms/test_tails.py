"""What released shares of large rows say of the mean that clipping cut off."""

import numpy as np
import pytest
import scipy.stats

from dpalgos.mechanisms.for_intervals.tails import LEVELS, Tail, Unseen


@pytest.mark.parametrize("scale", [0.3, 0.35, 0.4, 0.45])
def test_the_bound_holds_for_normal_sizes_and_grows_with_the_noise_of_the_shares(scale):
    above = 2 * scipy.stats.norm.sf(np.array(LEVELS) / scale)[:, None]
    sizes = np.abs(np.random.default_rng(0).normal(0, scale, 10**6))
    true = np.maximum(sizes - 1, 0).mean()
    bounds = [Tail(above=above, std=np.full_like(above, std)).excess()[0] for std in (1e-5, 1e-4, 1e-3, 3e-3)]
    assert true < bounds[0]
    assert (np.diff(bounds) > 0).all()


def test_outliers_that_the_noise_hides_count():
    above = 2 * scipy.stats.norm.sf(np.array(LEVELS) / 0.3)[:, None]
    tail = Tail(above=above, std=np.full_like(above, 1e-3))
    assert tail.excess(unseen=Unseen(near=0.0, far=100.0)) > 2 * tail.excess()
