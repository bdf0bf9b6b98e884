"""Rates of local privacy: how they grow, and which is above which."""

import numpy as np
import pytest

from dpalgos.theory.local_rates import (
    gradient_upper,
    interactive_lower,
    local_rates,
    noninteractive_lower,
    private_moments_upper,
)

AT = {"n": 10**6, "d": 16, "k": 2, "epsilon": 1.0}


def exponent(rate, name, **more):
    base = {**AT, **more}
    return np.log2(rate(**{**base, name: 2 * base[name]}) / rate(**base))


def test_errors_fall_with_the_root_of_n_and_with_epsilon():
    for rate in (interactive_lower, noninteractive_lower, gradient_upper):
        assert exponent(rate, "n") == pytest.approx(-0.5)
        assert exponent(rate, "epsilon") == pytest.approx(-1)
    assert exponent(private_moments_upper, "n", delta=1e-6) == pytest.approx(-0.5, abs=0.08)


def test_printed_gradients_leave_a_root_of_k_to_the_lower_bound():
    for k in (1, 2, 8):
        at = {**AT, "k": k}
        assert gradient_upper(**at) / interactive_lower(**at) == pytest.approx(np.sqrt(k))


def test_upper_rates_are_above_lower_bounds():
    rates = list(local_rates(**AT, delta=1e-6).values())
    assert rates[0] > rates[2] > rates[3]
    assert rates[1] >= rates[3]
