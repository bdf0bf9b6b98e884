import numpy as np
import pytest

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
