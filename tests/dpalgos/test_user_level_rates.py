"""Rates of users' means: what users and rows buy, and what remains with any number of rows."""

import numpy as np
import pytest

from dpalgos.theory.user_level_rates import user_floor, user_mean_rate


def test_four_times_the_rows_halve_the_rate():
    assert user_mean_rate(1000, 4, 16, 0.5) == pytest.approx(user_mean_rate(1000, 1, 16, 0.5) / 2)


def test_privacy_falls_with_the_number_of_users():
    costs = [user_mean_rate(n, 10, 16, 0.5) ** 2 - 16 / (10 * n) for n in (100, 1000)]
    assert costs[0] / costs[1] == pytest.approx(100)


def test_the_floor_is_exponential_in_users_and_budget():
    assert np.log(user_floor(40, 1.0, 7.0) / 7.0) == pytest.approx(-20)
