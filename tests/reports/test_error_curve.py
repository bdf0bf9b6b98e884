"""Where an error falls to what is wanted, and how fast."""

import math

import numpy as np
import pytest

from reports.analysis.ranking import first_below, fitted_slope
from reports.analysis.results import summarize
from reports.analysis.series import View
from reports.pages.error_page import slope_table


def test_the_wanted_error_is_found_between_points_and_a_little_beyond():
    points = [(1.0, 4.0), (4.0, 2.0), (16.0, 1.0)]
    assert first_below(2.0, points) == pytest.approx(4)
    assert first_below(1.5, points) == pytest.approx(4 * (2 / 1.5) ** 2)
    assert first_below(8.0, points) == 1.0
    assert first_below(0.5, points) == math.inf
    assert first_below(0.5, points, 16.0) == pytest.approx(64)
    assert first_below(0.1, points, 16.0) == math.inf
    assert first_below(0.1, [(1.0, math.nan)], 16.0) == math.inf


def test_a_power_law_has_its_slope():
    n = np.array([100.0, 300.0, 1000.0, 5000.0])
    slope, error = fitted_slope([(x, 7 * x**-0.8, 0.0) for x in n])
    assert (slope, error) == (pytest.approx(-0.8), 0.0)
    assert fitted_slope([(1.0, 2.0, 0.0), (2.0, 1.0, 0.0)]) is None


def test_its_error_is_what_repetitions_show():
    rng, n = np.random.default_rng(2), np.array([1e3, 1e4, 1e5])
    noise = 1 + 0.02 * rng.normal(size=(2000, 3))
    fits = [fitted_slope(list(zip(n, row / n, 0.02 / n, strict=True))) for row in noise]
    slopes, errors = np.array(fits).T
    assert slopes.mean() == pytest.approx(-1, abs=1e-3)
    assert slopes.std() == pytest.approx(errors.mean(), rel=0.1)


def test_the_table_has_every_answer_but_zero(results, page):
    view = View.build(summarize(results), page)
    (shown,) = slope_table(view)
    assert {row[0] for row in shown.rows} <= {s.label for s in view.series(view.headline) if s.role != "zero"}
    assert shown.rows
    assert all(row[2] == "" for row in shown.rows if row[0] == "Ordinary least squares")
