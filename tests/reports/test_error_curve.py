"""Where an error falls to what is wanted."""

import math

import pytest

from reports.analysis.error_curve import first_below


def test_the_wanted_error_is_found_between_points_and_a_little_beyond():
    points = [(1.0, 4.0), (4.0, 2.0), (16.0, 1.0)]
    assert first_below(2.0, points) == pytest.approx(4)
    assert first_below(1.5, points) == pytest.approx(4 * (2 / 1.5) ** 2)
    assert first_below(8.0, points) == 1.0
    assert first_below(0.5, points) == math.inf
    assert first_below(0.5, points, 16.0) == pytest.approx(64)
    assert first_below(0.1, points, 16.0) == math.inf
    assert first_below(0.1, [(1.0, math.nan)], 16.0) == math.inf
