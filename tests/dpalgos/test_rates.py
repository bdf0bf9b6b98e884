import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chi

import dpalgos
from dpalgos.theory.rates import (
    explicit_mean_lower,
    linear_regression_lower,
    linear_regression_upper,
    mean_lower,
    mean_upper,
    sparse_linear_regression_upper,
    sparse_lower,
    sparse_mean_upper,
)


def slope(rate, first, second):
    return float(np.log(rate(second) / rate(first)) / np.log(second / first))


@pytest.mark.parametrize(
    "rate",
    [
        lambda n: mean_lower(n, 20, 1e-6, 1e-9),
        lambda n: mean_upper(n, 20, 1e-6, 1e-9),
        lambda n: sparse_mean_upper(n, 2000, 20, 1e-6, 1e-9),
        lambda n: sparse_lower(n, 2000, 20, 1e-6),
        lambda n: sparse_lower(n, 2000, 20, 1e-6, version="supported"),
        lambda n: sparse_linear_regression_upper(n, 2000, 20, 1e-6, 1e-9),
        lambda n: linear_regression_lower(n, 20, 1e-6),
        lambda n: explicit_mean_lower(n, 20, 0.5),
    ],
)
def test_the_privacy_term_falls_as_one_over_n(rate):
    assert slope(rate, 1e5, 1e6) == pytest.approx(-1.0, abs=0.12)


def test_the_sampling_term_falls_as_one_over_root_n():
    assert slope(lambda n: mean_lower(n, 20, 1e9, 0.5), 1e5, 1e6) == pytest.approx(-0.5, abs=1e-3)


def test_upper_bounds_lie_above_lower_bounds():
    n = np.array([1e3, 1e4, 1e5])
    delta = 10 / n**1.1
    assert (mean_upper(n, 20, 0.5, delta) >= mean_lower(n, 20, 0.5, delta)).all()
    assert (linear_regression_upper(n, 20, 0.5, delta) >= linear_regression_lower(n, 20, 0.5)).all()
    for upper in (sparse_mean_upper, sparse_linear_regression_upper):
        assert (upper(n, 2000, 20, 0.5, delta) >= sparse_lower(n, 2000, 20, 0.5)).all()
    claimed, supported = (sparse_lower(n, 2000, 20, 0.5, version=v) for v in ("claimed", "supported"))
    assert (claimed > supported).all()


def test_the_explicit_bound_has_its_constant():
    assert explicit_mean_lower(1000, 20, 0.5) == pytest.approx(
        np.sqrt(np.pi / 2) * 20 / (1000 * np.sinh(0.5))
    )
    # Below the error of the exactly calibrated mean of ±4 entries, whose δ is positive.
    assert explicit_mean_lower(1000, 20, 0.5) < 2 * 4 * np.sqrt(20) / 1000 * 4 * np.sqrt(20)


def test_the_explicit_bound_lies_below_a_private_unbiased_mean():
    # Rows N(0, I); dp_mean with R far out is unbiased up to nothing, and its δ is far below 1/n.
    n, d, epsilon, delta = 2000, 50, 1.0, 1e-9
    X = np.random.default_rng(0).standard_normal((n, d))
    result = dpalgos.estimate(
        "dp_mean",
        X,
        value_bound=6.0,
        epsilon=epsilon,
        delta=delta,
        rng=np.random.default_rng(1),
        replicates=50,
    )
    error = np.sqrt(np.mean(np.sum(result.estimate**2, axis=0)))
    bound = explicit_mean_lower(n, d, epsilon, delta=delta, largest_error=12 * np.sqrt(d))
    plain = explicit_mean_lower(n, d, epsilon)
    assert 0.99 * plain < bound < plain < error


def test_the_attack_proves_nothing_where_delta_is_above_one_over_n():
    n, d = np.array([1e3, 1e4, 1e5]), 20
    largest = 20 * np.sqrt(d)
    assert (explicit_mean_lower(n, d, 0.5, delta=10 / n**1.1, largest_error=largest) == 0).all()
    respectable = explicit_mean_lower(n, d, 0.5, delta=1 / n**2, largest_error=largest)
    assert respectable[-1] > 0.9 * explicit_mean_lower(n, d, 0.5)[-1]


def test_the_tail_that_delta_costs_is_bounded_by_its_formula():
    # Step 5 of the proof: ∫_T P(B‖z‖ > t) dt ≤ δ B, z ~ N(0, I_d), at T = B(√d + √(2 log 1/δ)).
    for d in (1, 20, 500):
        for delta in (1e-2, 1e-4, 1e-8):
            start = np.sqrt(d) + np.sqrt(2 * np.log(1 / delta))
            assert quad(lambda t, d=d: chi.sf(t, d), start, start + 20)[0] <= delta


def test_delta_needs_a_bound_on_the_error():
    with pytest.raises(dpalgos.InputError, match="needs largest_error"):
        explicit_mean_lower(1000, 20, 0.5, delta=1e-6)
