"""Slopes of the privacy terms: the fit, and three estimators against theory."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from privacy_terms import EXPERIMENTS, fit_slope, printed_sparse_mean_term, slope_table


def test_a_power_law_is_found_with_its_error():
    rng = np.random.default_rng(0)
    values = (1.0, 2.0, 4.0, 8.0)
    found = []
    for _ in range(200):
        terms = [3 * value**-2 * rng.exponential(size=50) for value in values]
        found.append(fit_slope(values, terms))
    slopes, errors = np.array(found).T
    assert slopes.mean() == pytest.approx(-2.0, abs=3 * slopes.std() / np.sqrt(200) + 0.01)
    assert errors.mean() == pytest.approx(slopes.std(ddof=1), rel=0.2)


def test_logarithms_are_in_the_prediction():
    def term(at):
        return np.log(at["n"]) ** 3 / at["n"] ** 2

    (slope,) = slope_table(lambda at: np.array([term(at)]), term, {}, {"n": (1e4, 2e4, 4e4)})
    assert slope.excess == pytest.approx(0.0, abs=1e-12)
    assert -1.75 < slope.predicted < -1.65


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "replicates"), [("dp_mean", 300), ("dp_sparse_mean", 300), ("dp_linear_regression", 150)]
)
def test_slopes_of_the_privacy_term_are_those_of_theory(name, replicates):
    table = EXPERIMENTS[name].run(np.random.default_rng(0), replicates)
    expected = {"n", "d", "epsilon"} | ({"s"} if name == "dp_sparse_mean" else set())
    assert {slope.variable for slope in table} == expected
    for slope in table:
        assert slope.standard_error < 0.04, slope
        assert abs(slope.excess) <= 0.15, slope


@pytest.mark.slow
def test_with_log_d_as_printed_the_slope_in_s_is_not_met_at_these_sizes():
    experiment = EXPERIMENTS["dp_sparse_mean"]
    grid = {"s": experiment.grids["s"]}
    rng = np.random.default_rng(1)
    (slope,) = slope_table(
        lambda at: experiment.measure(at, rng, 20), printed_sparse_mean_term, experiment.base, grid
    )
    assert slope.predicted == pytest.approx(2.0)
    assert slope.measured < 1.75
