"""Rates: how they grow, which is above which, and a bound that holds with its constant."""

import numpy as np
import pytest

from dpalgos.theory import (
    explicit_mean_lower,
    linear_regression_lower,
    linear_regression_upper,
    mean_lower,
    mean_upper,
    sparse_linear_regression_upper,
    sparse_lower,
    sparse_mean_upper,
)
from tests.dpalgos.silence import estimated


@pytest.mark.parametrize("n", [1e3, 1e4, 1e5])
def test_upper_bounds_lie_above_lower_bounds(n):
    delta = 10 / n**1.1
    assert mean_upper(n, 20, 0.5, delta) >= mean_lower(n, 20, 0.5, delta)
    assert linear_regression_upper(n, 20, 0.5, delta) >= linear_regression_lower(n, 20, 0.5)
    for upper in (sparse_mean_upper, sparse_linear_regression_upper):
        assert upper(n, 2000, 20, 0.5, delta) >= sparse_lower(n, 2000, 20, 0.5)


def test_the_explicit_bound_lies_below_a_private_unbiased_mean():
    # Rows N(0, I); dp_mean with R far out is unbiased up to nothing, and its δ is far below 1/n.
    n, d, epsilon, delta = 2000, 50, 1.0, 1e-9
    X = np.random.default_rng(0).standard_normal((n, d))
    result = estimated("dp_mean", X, value_bound=6.0, epsilon=epsilon, delta=delta, seed=1, replicates=50)
    error = np.sqrt(np.mean(np.sum(result.estimate**2, axis=0)))
    bound = explicit_mean_lower(n, d, epsilon)
    assert bound == pytest.approx(np.sqrt(np.pi / 2) * d / (n * np.sinh(epsilon)))
    assert bound < error
