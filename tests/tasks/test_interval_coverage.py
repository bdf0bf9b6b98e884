"""What is measured on intervals, on simulated rows and on resampled tables, and what the page shows of it."""

import numpy as np
import pytest

import dpalgos
from data.prepare.table_design import PreparedTable
from dpalgos.interval import Interval
from flows.studies.find_study import find_study
from tasks.problems.measures.intervals import COVERAGE, FLAGGED, SIGNS
from tasks.problems.problem import Draw
from tasks.run.block import compute_block
from tests.tasks.blocks import made_block, made_cell, made_problem, measured_of, metrics_of

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
    about = {
        "dataset": "housing",
        "response": "median_house_value",
        "covariates": ("households", "population"),
    }
    problem = made_problem("interval_resamples", units="public", **about)
    cell = made_cell("ols", n=300, panel="v", interval=0.95)
    block = made_block(problem, cell, n=300, replicates=60, panel="v", seed=1)
    drawn = list(problem.draws(block.replicates, table))
    assert len({d.sample.X.tobytes() for d in drawn}) == 60
    assert len(np.unique(drawn[0].sample.X, axis=0)) < 300
    np.testing.assert_allclose(drawn[0].target, np.linalg.lstsq(X, y, rcond=None)[0])
    rows = compute_block(block, table)
    assert rows[rows["metric"] == COVERAGE]["value"].mean() == pytest.approx(0.95, abs=0.06)
