"""Users of many rows: simulated ones, and cells of a map, as they are and with rows dealt at random."""

import numpy as np
import pandas as pd
import pytest

from data.datasets import get_dataset
from data.prepare.table_design import PreparedTable
from reports.exhibits import selection_rules, user_spread
from tasks.problems.problem import HeadlineRun
from tasks.problems.sources.map_users import GriddedTable
from tasks.size_rules import RuleError
from tests.tasks.blocks import made_answer, made_block, made_cell, made_problem, measured_of

SIMULATED = made_problem("user_simulation", users="2*n", samples=25, d=3)
MAP = made_problem(
    "grid_users",
    dataset="housing",
    covariates=("median_house_value",),
    units="public",
    degrees=1.0,
    least_rows=5,
)


def block(problem, n, replicates=3):
    return made_block(problem, n=n, replicates=replicates, panel="users")


def drawn(problem, n, replicates=3):
    return block(problem, n, replicates).replicates


def gridded(problem, prepared, tmp_path):
    path = tmp_path / "design.parquet"
    path.write_bytes(prepared)
    return problem.load(path), path


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    """Four cells of the map, one of which has too few rows."""
    rng = np.random.default_rng(0)
    cell = np.repeat([0, 1, 2, 3], [5, 40, 7, 3])
    table = pd.DataFrame(
        {column.name: rng.uniform(1, 2, len(cell)) for column in get_dataset("housing").columns}
    )
    table["longitude"], table["latitude"] = -120.5 + cell, 35.5
    table["median_house_value"] = 100_000.0 * cell + rng.uniform(0, 1000, len(cell))
    monkeypatch.setattr("tasks.problems.sources.map_users.read_table", lambda ref: table)
    made, path = gridded(MAP, MAP.prepare(None), tmp_path)
    return made, path, table, cell


def test_users_of_unequal_rows_have_means_as_exact_as_their_rows_make_them():
    unequal = SIMULATED.model_copy(update={"fewest": 2})
    (draw,) = unequal.draws(drawn(unequal, 1000, replicates=1), None)
    _, first, rows = np.unique(draw.sample.user_codes, return_index=True, return_counts=True)
    assert (rows.min(), rows.max(), len(rows)) == (2, 25, 2000)
    assert np.mean(rows < 7) == pytest.approx(np.log(7 / 2) / np.log(26 / 2), abs=0.05)
    errors = (draw.sample.X[first] - 0.5) * np.sqrt(rows)[:, None]
    assert errors.std() == pytest.approx(1, abs=0.05)
    assert unequal.cost(1000).elements >= draw.sample.X.size
    assert not unequal.rates("mean", 1000, 1.0, 1e-6)
    with pytest.raises(RuleError):
        SIMULATED.model_copy(update={"fewest": 26}).check(1000, "mean")


def test_simulated_users_have_the_law_of_a_mean_of_their_rows():
    assert (SIMULATED.n_users(500), SIMULATED.n_samples(500)) == (1000, 25)
    draws = list(SIMULATED.draws(drawn(SIMULATED, 500), None))
    for draw in draws:
        assert draw.sample.users[0].n_users == len(draw.sample.X) == 1000
        assert draw.sample.X.std() == pytest.approx(0.2, rel=0.05)
        np.testing.assert_array_equal(draw.target, np.full(3, 0.5))


def test_users_on_a_map_are_the_cells_with_enough_rows(prepared):
    made, _, table, cell = prepared
    assert isinstance(made, GriddedTable)
    assert made.n_users == 3
    np.testing.assert_array_equal(made.users, np.where(cell == 3, -1, cell))
    assert isinstance(made.table, PreparedTable)
    assert made.table.column_names == ("median_house_value",)
    np.testing.assert_allclose(made.table.X[:, 0], table["median_house_value"] / 100_000 - 2)


def test_every_user_gives_m_different_rows_and_counts_once(prepared):
    made, _, table, cell = prepared
    for m in (1, 5):
        for draw in MAP.draws(drawn(MAP, m), made):
            users = draw.sample.users[0]
            assert users.n_rows.tolist() == [m] * 3
            values = users.X.reshape(3, m)
            assert np.unique(values).size == 3 * m
            np.testing.assert_allclose(np.floor(values + 2).max(axis=1), [0, 1, 2])
            wanted = table["median_house_value"].groupby(cell).mean()[:3].mean() / 100_000 - 2
            np.testing.assert_allclose(draw.target, made.table.to_standard[0] * wanted)


def test_the_truth_of_a_regression_gives_every_user_the_same_weight(prepared, tmp_path):
    _, _, table, cell = prepared
    slopes = MAP.model_copy(update={"covariates": ("median_income",), "response": "median_house_value"})
    made, _ = gridded(slopes, slopes.prepare(None), tmp_path)
    draw = next(slopes.draws(drawn(slopes, 5), made))
    assert draw.sample.y.shape == (15,)
    there = cell < 3
    weights = 1 / np.bincount(cell)[cell[there]]
    x, y = table["median_income"][there], table["median_house_value"][there]
    slope = np.polyfit(x, y, 1, w=np.sqrt(weights))[0]
    expected = slope * table["median_income"].std(ddof=0) / table["median_house_value"].std(ddof=0)
    np.testing.assert_allclose(draw.target, [expected])


def test_rows_dealt_at_random_come_from_everywhere(prepared):
    made, *_ = prepared
    dealt = MAP.model_copy(update={"shuffled": True})
    draw = next(dealt.draws(drawn(dealt, 5), made))
    assert draw.sample.users[0].n_rows.tolist() == [5] * 3
    np.testing.assert_allclose(draw.target, made.table.to_standard @ made.table.X.mean(axis=0))
    assert np.ptp(draw.sample.users[0].means(draw.sample.X)) < 2  # cells lie 2 apart


def test_the_page_tells_how_far_users_lie_apart(prepared):
    _, path, *_ = prepared
    content = MAP.exhibits(
        HeadlineRun(table=None, design=path, replicates=drawn(MAP, 5), cells=(), selected={})
    )
    (shown,) = user_spread.draw(None, None, content["user_spread"])
    assert shown.text.startswith("3 users, cells of 1.00° with enough rows.")
    assert [row[0] for row in shown.table.rows] == ["1", "2", "5"]
    assert float(shown.table.rows[-1][3]) > 1.5  # dealt at random they lie nearer to each other


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match=r"grid\.n must .*got 6"):
        MAP.check(6, "mean")
    with pytest.raises(ValueError, match="family must"):
        MAP.model_copy(update={"family": "logistic"}).check(5, "glm")
    with pytest.raises(ValueError, match="users must"):
        SIMULATED.model_copy(update={"users": 1}).check(5, "mean")


def test_a_choice_is_measured_by_what_it_loses_beyond_the_best():
    problem = made_problem("user_selection", users=30, candidates=5)
    draws = list(problem.draws(drawn(problem, 8), None))
    assert measured_of(problem, draws[0], made_answer(np.eye(5)[:, 3]))["excess_loss"] == pytest.approx(0.3)
    assert measured_of(problem, draws[0], made_answer(np.eye(5)[:, 0]))["excess_loss"] == 0
    losses = np.concatenate([draw.sample.X**2 / 2 for draw in draws])
    assert np.rint(losses * 8) == pytest.approx(losses * 8)
    assert losses.mean(axis=0) == pytest.approx(np.linspace(0.3, 0.7, 5), abs=0.08)


def test_which_rule_of_selection_is_better_is_said_where_repetitions_can_tell():
    rows = [
        (m, form, mean)
        for m, *means in ((10, 0.5, 0.1), (100, 0.2, 0.1), (1000, 0.0, 0.1))
        for form, mean in zip(("", "exponential mechanism"), means, strict=True)
    ]
    summary = pd.DataFrame(rows, columns=["n", "form", "mean"]).assign(
        se=0.01, d=5, epsilon=1.0, calibration="tight", metric="excess_loss"
    )
    (shown,) = selection_rules.draw(None, summary, {"metric": "excess_loss"})
    assert "random stopping loses less from m = 1,000 on" in shown.text
    assert [row[2] for row in shown.table.rows] == ["10", "100", "1,000"]
    (shown,) = selection_rules.draw(None, summary.assign(se=1.0), {"metric": "excess_loss"})
    assert "at no m up to 1,000" in shown.text
    assert selection_rules.draw(None, summary.assign(calibration="paper"), {"metric": "excess_loss"}) == ()


def test_users_of_a_regression_have_m_rows_each_and_risks_are_half_the_squared_distance():
    problem = made_problem("user_regression_simulation", users=40, samples="2*n", d=4, coef=0.5)
    (first,) = problem.draws(drawn(problem, 3, replicates=1), None)
    assert [one.n_rows.tolist() for one in first.sample.users] == [[6] * 40]
    assert set(np.unique(first.sample.X)) == {-1.0, 1.0}
    assert np.abs(first.sample.y - first.sample.X @ [0.5, 0.5, 0, 0]).max() <= 1
    assert measured_of(problem, first, made_answer(np.zeros(4)))["excess_risk"] == pytest.approx(0.25)
    assert measured_of(problem, first, made_answer([0.5, 0.5, 0, 0]))["excess_risk"] == 0


def test_a_radius_that_cuts_users_off_is_told_as_bias_and_one_that_covers_them_as_none(prepared):
    made, path, *_ = prepared
    cells = tuple(
        made_cell(
            "user_level_mean",
            n=5,
            panel="map",
            form=form,
            epsilon=0.1,
            delta=1e-6,
            value_bound=bound,
            concentration_radius=1.0,
            aggregation="clipped",
        )
        for form, bound in (("wide", 1e3), ("narrow", 1e-3))
    )
    run = HeadlineRun(table=None, design=path, replicates=drawn(MAP, 5), cells=cells, selected={})
    rows = MAP.exhibits(run)["user_bias"]["rows"]
    assert [row[:2] for row in rows] == [["user_level_mean", cell.form] for cell in cells]
    size = float(np.abs(next(MAP.draws(drawn(MAP, 5), made)).target[0]))
    assert rows[0][2] < 0.3 * size
    assert rows[1][2] > 0.9 * size
