"""Forecasts of responses that are far narrower than their declared bounds."""

import numpy as np
import pandas as pd
import pytest

from dpalgos import formula
from tasks.advice.releases import forecast_release, simulate_release
from tasks.release.request import read_request
from tests.tasks.analyst_tables import initialized

N, BUDGET = 3000, {"epsilon": 1.0, "delta": 1e-6}
BOUNDS = {"x": (-4, 4), "z": (-4, 4), "y": (0, 2000)}


def years(seed):
    rng = np.random.default_rng(seed)
    x, z = rng.standard_normal((2, N))
    return pd.DataFrame({"x": x, "z": z, "y": 1900 + 5 * x - 2 * z + 10 * rng.standard_normal(N)})


def requested(study, guesses):
    declared = study.read_text().split("\n[guesses]")[0]
    study.write_text(f"{declared}\n[guesses]\nstd.x = 1.0\nstd.z = 1.0\n{guesses}")
    budget = BUDGET | {"interval": 0.95}
    return read_request(study.with_name("mine-release.toml"), "preconditioned_regression", **budget)


def test_a_guess_of_the_spread_narrows_a_range_that_covers(tmp_path):
    options = {"bounds": BOUNDS, "random_state": 0, **BUDGET}
    limits = [formula.ols("y ~ x + z", years(seed), **options).conf_int() for seed in range(5)]
    real = {term: np.median([np.ptp(each.loc[term]) / 2 for each in limits]) for term in ("x", "z")}
    study = initialized(tmp_path, years(9).round(4), bounds=BOUNDS, formula="y ~ x + z", target="robust")
    unknown, stated = (forecast_release(requested(study, guess)).terms for guess in ("", "std.y = 11\n"))
    for term, low, _, high in unknown:
        assert low / 1.25 < real[term] < high  # the spread is near the least that is tried, 1% of the bounds
    for (term, low, middle, high), (_, first, _, last) in zip(stated, unknown, strict=True):
        assert low < real[term] < high
        assert middle == pytest.approx(real[term], rel=0.5)
        assert high / low < 0.6 * last / first


@pytest.mark.parametrize("mean", ["", "mean.y = 40\n"])
def test_a_guess_of_the_spread_is_that_of_skewed_responses(tmp_path, mean):
    study = initialized(tmp_path, years(9).round(4), bounds=BOUNDS, formula="y ~ x + z")
    guesses = f"skewed = true\n{mean}std.y = 20\n"
    simulator = simulate_release(requested(study, guesses), 1).simulator
    tables = [simulator.draw(N, None, np.random.default_rng(seed)).table for seed in range(40)]
    assert np.median([table["y"].std() for table in tables]) == pytest.approx(20, rel=0.3)


def test_no_long_tail_is_assumed_of_a_mean_near_the_upper_bound(tmp_path):
    study = initialized(tmp_path, years(9).round(4), bounds=BOUNDS, formula="y ~ x + z")
    options = {"bounds": BOUNDS, "random_state": 0, "interval_target": "least squares", **BUDGET}
    limits = formula.ols("y ~ x + z", years(0), **options).conf_int()
    for term, low, _, high in forecast_release(requested(study, "mean.y = 1900\n")).terms:
        assert low < np.ptp(limits.loc[term]) / 2 < high


def test_without_a_guess_the_middle_is_that_of_a_usual_response(tmp_path):
    def usual(seed):  # its standard deviation is 28% of the largest that its bounds allow
        frame = years(seed)
        return frame.assign(y=(1000 + 25 * (frame["y"] - 1900)).clip(0, 2000))

    options = {"bounds": BOUNDS, "random_state": 0, **BUDGET}
    limits = [formula.ols("y ~ x + z", usual(seed), **options).conf_int() for seed in range(5)]
    study = initialized(tmp_path, usual(9).round(4), bounds=BOUNDS, formula="y ~ x + z", target="robust")
    for term, low, middle, high in forecast_release(requested(study, "")).terms:
        real = np.median([np.ptp(each.loc[term]) / 2 for each in limits])
        assert low < real < high
        assert real / 1.5 < middle < 1.5 * real
