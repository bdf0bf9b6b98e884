"""Users of many rows: simulated ones, and cells of a map, as they are and with rows dealt at random."""

import numpy as np
import pandas as pd
import pytest

from data.datasets import get_dataset
from tests.tasks.blocks import made_answer, made_block, made_problem, measured_of, prepared_data

SIMULATED = made_problem("user_simulation", users="2*n", samples=25, d=3)
OF_MAP = {"dataset": "housing", "covariates": ("median_house_value",), "units": "public"}
MAP = made_problem("grid_users", degrees=1.0, least_rows=5, **OF_MAP)


def drawn(problem, n, table=None):
    return list(problem.draws(made_block(problem, n=n, panel="users").replicates, table))


@pytest.fixture
def map_table(monkeypatch):
    """Four cells of the map, one of which has too few rows."""
    rng = np.random.default_rng(0)
    cell = np.repeat([0, 1, 2, 3], [5, 40, 7, 3])
    names = get_dataset("housing").column_names
    table = pd.DataFrame({name: rng.uniform(1, 2, len(cell)) for name in names})
    table["longitude"], table["latitude"] = -120.5 + cell, 35.5
    table["median_house_value"] = 100_000.0 * cell + rng.uniform(0, 1000, len(cell))
    monkeypatch.setattr("tasks.problems.registered_table.read_table", lambda ref: table)
    return table, cell


def test_simulated_users_have_the_law_of_a_mean_of_their_rows():
    assert (SIMULATED.n_users(500), SIMULATED.n_samples(500)) == (1000, 25)
    for draw in drawn(SIMULATED, 500):
        assert draw.sample.users[0].n_users == len(draw.sample.X) == 1000
        assert draw.sample.X.std() == pytest.approx(0.2, rel=0.05)
        np.testing.assert_array_equal(draw.target, np.full(3, 0.5))


def test_every_user_gives_m_different_rows_and_counts_once(map_table, tmp_path):
    table, cell = map_table
    made = prepared_data(MAP, None, tmp_path)
    for m in (1, 5):
        for draw in drawn(MAP, m, made):
            users = draw.sample.users[0]
            assert users.n_rows.tolist() == [m] * 3
            values = users.X.reshape(3, m)
            assert np.unique(values).size == 3 * m
            np.testing.assert_allclose(np.floor(values + 2).max(axis=1), [0, 1, 2])
            wanted = table["median_house_value"].groupby(cell).mean()[:3].mean() / 100_000 - 2
            np.testing.assert_allclose(draw.target, made.to_standard[0] * wanted)


def test_the_truth_of_a_regression_gives_every_user_the_same_weight(map_table, tmp_path):
    table, cell = map_table
    slopes = MAP.model_copy(update={"covariates": ("median_income",), "response": "median_house_value"})
    draw, *_ = drawn(slopes, 5, prepared_data(slopes, None, tmp_path))
    assert draw.sample.y.shape == (15,)
    there = cell < 3
    weights = 1 / np.bincount(cell)[cell[there]]
    x, y = table["median_income"][there], table["median_house_value"][there]
    slope = np.polyfit(x, y, 1, w=np.sqrt(weights))[0]
    expected = slope * table["median_income"].std(ddof=0) / table["median_house_value"].std(ddof=0)
    np.testing.assert_allclose(draw.target, [expected])


def test_a_choice_is_measured_by_what_it_loses_beyond_the_best():
    problem = made_problem("user_selection", users=30, candidates=5)
    draws = drawn(problem, 8)
    assert measured_of(problem, draws[0], made_answer(np.eye(5)[:, 3]))["excess_loss"] == pytest.approx(0.3)
    assert measured_of(problem, draws[0], made_answer(np.eye(5)[:, 0]))["excess_loss"] == 0
    losses = np.concatenate([draw.sample.X**2 / 2 for draw in draws])
    assert np.rint(losses * 8) == pytest.approx(losses * 8)
    assert losses.mean(axis=0) == pytest.approx(np.linspace(0.3, 0.7, 5), abs=0.08)
