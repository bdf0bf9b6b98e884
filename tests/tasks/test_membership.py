"""Studies of attacks, of intervals and of users: from a file to rows and a report."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpalgos
from data.datasets import get_dataset
from data.prepare.genotype_groups import TracedGroup
from data.prepare.table_design import PreparedTable
from data.results.table import TRUE_POSITIVE_RATES
from dpalgos.interval import Interval
from flows.studies.find_study import find_study
from reports.pages.study import render_study
from reports.writing import num
from tasks.problems.measures.intervals import COVERAGE, FLAGGED, SIGNS
from tasks.problems.problem import Draw
from tasks.report.build_page import attack_findings, build_page
from tasks.run.compute import compute_block
from tests.tasks.blocks import (
    made_answer,
    made_block,
    made_cell,
    made_problem,
    measured_of,
    metrics_of,
    prepared_data,
)

PLAIN = "sample_mean:gaussian 2000:n=40"
PRIVATE = "clipped_mean:gaussian 2000:tight:eps=0.5:delta=1/n^2:n=40"


@pytest.fixture(scope="module")
def study():
    """The study of attacks with four of its panels, 40 members and few columns."""
    spec = find_study("tracing_attack")
    of_panels = {"gaussian 2000": 400, "sparse": "2*n", "regression": "n/4", "logistic": 4}
    panels = []
    for panel in map(spec.panel, of_panels):
        problem = panel.problem.model_copy(update={"d": of_panels[panel.name]})
        panels.append(panel.model_copy(update={"problem": problem, "grid": None}))
    grid = spec.grid.model_copy(update={"n": (40,), "epsilon": (0.5, 8.0)})
    headline = spec.headline.model_copy(update={"n": 40})
    return spec.model_copy(update={"panels": tuple(panels), "grid": grid, "headline": headline})


def test_rates_are_told_where_enough_non_members_lie_above_a_threshold(study):
    for block in study.blocks("standard", replicates=6, seed=3):
        rows = compute_block(block)
        assert rows.loc[rows["metric"].str.startswith(("tpr", "auc")), "value"].between(0, 1).all()
        # 240 non-members: ten of them lie above a threshold from a rate of .042 on.
        resolved = {TRUE_POSITIVE_RATES[metric] for metric in rows["metric"] if metric in TRUE_POSITIVE_RATES}
        assert resolved == {0.05, 0.1, 0.2, 0.5}


def test_members_are_who_the_estimator_saw_and_others_are_not(study):
    block = study.blocks("standard", replicates=2, seed=3)[0]
    draws = list(block.problem.draws(block.replicates, None))
    for draw in draws:
        assert (draw.judge.X[draw.judge.inside[:, 0]] == draw.sample.X).all()
        assert (draw.judge.inside ^ draw.judge.outside).all()
        assert not set(map(tuple, draw.judge.X[draw.judge.outside[:, 0]])) & set(map(tuple, draw.sample.X))
    assert not np.array_equal(draws[0].judge.truth, draws[1].judge.truth)


def test_a_group_is_traced_through_its_own_frequencies():
    rng = np.random.default_rng(1)
    frequency = rng.uniform(0.05, 0.95, 600)
    X = rng.binomial(2, frequency, (101, 600)) - 1.0
    group = TracedGroup(X=X, panel_mean=2 * frequency - 1)
    assert group.panel_std == pytest.approx(np.sqrt(2 * frequency * (1 - frequency)))
    problem = made_problem("group_tracing", dataset="snp_hapmap3", n_snps=600, truth="same_population")
    study = find_study("tracing_attack")
    block = next(b for b in study.blocks("smoke", replicates=4, seed=0) if b.replicates.panel == "genotypes")
    rows = compute_block(replace(block, problem=problem), group)
    auc = rows[rows["metric"] == "auc"].groupby("calibration")["value"].mean()
    assert auc["none"] > 0.95
    assert auc["tight"] < 0.7


def test_a_certificate_that_an_attack_contradicts_is_named(study):
    rows = pd.concat([compute_block(block) for block in study.blocks("standard", replicates=6, seed=1)])
    assert attack_findings(study, rows).exceeding == ()
    # A release without noise that claims ε = .5: the sample mean's scores under the private cell's name.
    bold = rows[rows["cell"] == PLAIN].set_index(["metric", "replicate"])["value"]
    private = rows["cell"] == PRIVATE
    places = rows.loc[private, ["metric", "replicate"]].itertuples(index=False, name=None)
    rows.loc[private, "value"] = [bold[place] for place in places]
    found = attack_findings(study, rows).exceeding
    assert {cell for cell, _ in found} == {PRIVATE}
    assert {"auc", "tpr_at_fpr_1"} <= {metric for _, metric in found}


def test_an_attack_page_has_a_row_for_each_method_and_one_picture_of_all_roc_curves(study):
    rows = pd.concat([compute_block(block) for block in study.blocks("standard", replicates=2, seed=1)])
    report = render_study(rows, build_page(study, rows, {"data": []}))
    assert [name for name in report.files if "roc" in name and name.endswith(".svg")] == ["figures/roc.svg"]
    text = report.files["report.md"].decode()
    assert len(text.split()) <= 1300
    table = [line.split("|") for line in text.splitlines() if line.startswith("|")]
    methods = rows.drop_duplicates(["estimator", "form", "calibration"])
    assert len(table) - 2 == len(methods[methods["panel"] == study.headline.panel])
    column = table[0].index(" AUC at ε = 0.5 ")
    auc = rows.loc[(rows["cell"] == PRIVATE) & (rows["metric"] == "auc"), "value"].mean()
    assert any(row[column].startswith(f" {num(auc)} ±") for row in table)


def test_two_values_of_an_attack_have_the_interval_of_student(study):
    rows = pd.concat([compute_block(block) for block in study.blocks("smoke", replicates=2, seed=1)])
    is_auc = (rows["cell"] == PRIVATE) & (rows["metric"] == "auc")
    assert is_auc.sum() == 2
    for values, interval in (([0.7, 0.7], (0.7, 0.7)), ([0.69, 0.71], (0.573, 0.827))):
        rows.loc[is_auc, "value"] = values
        found = attack_findings(study, rows)
        assert (PRIVATE, "auc") not in found.exceeding
        assert found.intervals[PRIVATE, "auc"] == pytest.approx(interval, abs=1e-3)


PROBLEM = find_study("intervals").panels[0].problem


def metrics(target, estimate, half, naive):
    half, naive = np.array(half)[:, None], np.array(naive)[:, None]
    about = {"certified_epsilon": 1.0, "delta": 1e-5, "events": (), "diagnostics": {}}
    intervals = Interval(half_width=half, without_noise=naive)
    answer = dpalgos.Result(estimate=np.array(estimate), intervals=intervals, **about)
    draw = Draw(sample=dpalgos.Sample(np.zeros((2, len(target)))), first=0, target=np.array(target))
    return metrics_of(PROBLEM, measured_of(PROBLEM, draw, answer))


def test_coverage_counts_the_coordinates_that_have_intervals():
    found = metrics([0.0] * 4, [1.0, -1.0, 3.0, 0.5], [2.0, 2.0, 2.0, np.nan], [0.9, 1.1, 0.1, 1.0])
    assert found[COVERAGE] == pytest.approx(2 / 3)
    assert found[FLAGGED] == pytest.approx(1 / 4)
    assert found["coverage_without_noise"] == pytest.approx(1 / 2)
    assert found["squared_error_over_half_width"] == pytest.approx((1 / 4 + 1 / 4 + 9 / 4) / 3)


def test_a_sign_is_known_where_the_interval_lies_on_the_side_of_the_truth():
    found = metrics([1.0, 1.0, -1.0, 1.0], [2.0] * 4, [1.0, 3.0, 1.0, np.nan], [1.0] * 4)
    assert found[SIGNS] == pytest.approx(1 / 4)


def test_resamples_have_the_answer_of_the_whole_table_as_their_truth():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2))
    y = X @ [1.0, 2.0] + rng.standard_normal(400)
    table = PreparedTable(X=X, y=y, column_names=("a", "b"), to_standard=None)
    about = {"response": "median_house_value", "covariates": ("households", "population")}
    problem = made_problem("resamples", measure="intervals", dataset="housing", units="public", **about)
    cell = made_cell("ols", n=300, panel="v", interval=0.95)
    block = made_block(problem, cell, n=300, replicates=60, panel="v", seed=1)
    drawn = list(problem.draws(block.replicates, table))
    assert len({d.sample.X.tobytes() for d in drawn}) == 60
    assert len(np.unique(drawn[0].sample.X, axis=0)) < 300
    np.testing.assert_allclose(drawn[0].target, np.linalg.lstsq(X, y, rcond=None)[0])
    rows = compute_block(block, table)
    assert rows[rows["metric"] == COVERAGE]["value"].mean() == pytest.approx(0.95, abs=0.06)


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
        assert draw.sample.n_users[0] == len(draw.sample.X) == 1000
        assert draw.sample.X.std() == pytest.approx(0.2, rel=0.05)
        np.testing.assert_array_equal(draw.target, np.full(3, 0.5))


def test_every_user_gives_m_different_rows_and_counts_once(map_table, tmp_path):
    table, cell = map_table
    made = prepared_data(MAP, None, tmp_path)
    for m in (1, 5):
        for draw in drawn(MAP, m, made):
            users = draw.sample.in_units()
            assert np.diff(users.units.starts).tolist() == [m] * 3
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
