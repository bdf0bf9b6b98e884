"""What is measured on intervals, on simulated rows and on resampled tables, and what the page shows of it."""

import numpy as np
import pandas as pd
import pytest

import dpalgos
from data.prepare.table_design import PreparedTable
from data.simulations import simulator
from dpalgos.intervals.half_widths import NAIVE_HALF_WIDTH
from flows.studies.find_study import find_study
from reports.exhibits import covered_shares as exhibit
from reports.series import Setting
from tasks.problems.measures.intervals import COVERAGE, FLAGGED, SIGNS
from tasks.problems.problem import Draw
from tasks.run.block import compute_block
from tasks.study.spec import StudySpec
from tests.tasks.blocks import made_block, made_cell, made_problem, measured_of, metrics_of

STUDY = find_study("intervals")


PROBLEM = STUDY.panels[0].problem


def measured(target, answer):
    draw = Draw(sample=dpalgos.Sample(np.zeros((2, len(target)))), first=0, target=np.array(target))
    return measured_of(PROBLEM, draw, answer)


def answer(estimate, half, naive):
    estimate, half = np.array(estimate), np.array(half)
    return dpalgos.Result(
        estimate=estimate,
        certified_epsilon=1.0,
        delta=1e-5,
        events=(),
        diagnostics={NAIVE_HALF_WIDTH: np.array(naive)[:, None]},
        interval=np.stack([estimate - half, estimate + half]),
    )


def test_coverage_counts_the_coordinates_that_have_intervals():
    found = measured(
        [0.0, 0.0, 0.0, 0.0], answer([1.0, -1.0, 3.0, 0.5], [2.0, 2.0, 2.0, np.nan], [0.9, 1.1, 0.1, 1.0])
    )
    metrics = metrics_of(PROBLEM, found)
    assert metrics[COVERAGE] == pytest.approx(2 / 3)
    assert metrics[FLAGGED] == pytest.approx(1 / 4)
    assert metrics["coverage_without_noise"] == pytest.approx(1 / 2)
    assert metrics["squared_error_over_half_width"] == pytest.approx((1 / 4 + 1 / 4 + 9 / 4) / 3)


def test_a_sign_is_known_where_the_interval_lies_on_the_side_of_the_truth():
    found = measured(
        [1.0, 1.0, -1.0, 1.0], answer([2.0, 2.0, 2.0, 2.0], [1.0, 3.0, 1.0, np.nan], [1.0, 1.0, 1.0, 1.0])
    )
    assert metrics_of(PROBLEM, found)[SIGNS] == pytest.approx(1 / 4)


def test_nothing_is_covered_where_no_coordinate_has_an_interval():
    found = measured([0.0, 0.0], answer([1.0, 2.0], [np.nan, np.nan], [np.nan, np.nan]))
    assert np.isfinite([*found.values()]).all()
    metrics = metrics_of(PROBLEM, found)
    assert np.isnan(metrics[COVERAGE]).all()
    assert np.isnan(metrics["coverage_without_noise"]).all()
    assert metrics[FLAGGED] == 1


def test_resamples_have_the_answer_of_the_whole_table_as_their_truth():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2))
    y = X @ [1.0, 2.0] + rng.standard_normal(400)
    table = PreparedTable(X=X, y=y, column_names=("a", "b"), to_standard=None)
    problem = made_problem(
        "interval_resamples",
        dataset="housing",
        response="median_house_value",
        covariates=("households", "population"),
        units="public",
    )
    cell = made_cell("ols", n=300, panel="v", interval=0.95)
    block = made_block(problem, cell, n=300, replicates=60, panel="v", seed=1)
    drawn = list(problem.draws(block.replicates, table))
    assert len({d.sample.X.tobytes() for d in drawn}) == 60
    assert len(np.unique(drawn[0].sample.X, axis=0)) < 300
    np.testing.assert_allclose(drawn[0].target, np.linalg.lstsq(X, y, rcond=None)[0])
    rows = compute_block(block, table)
    assert rows[rows["metric"] == COVERAGE]["value"].mean() == pytest.approx(0.95, abs=0.06)


def test_the_study_has_every_estimator_with_intervals_and_at_smoke_no_large_size():
    known = {one.name for one in dpalgos.catalog() if one.has_interval}
    smoke, standard = (STUDY.blocks(profile, replicates=1, seed=0) for profile in ("smoke", "standard"))
    for blocks in (smoke, standard):
        cells = [cell for block in blocks for cell in block.cells]
        assert {cell.estimator for cell in cells} == known
        assert {cell.params["interval"] for cell in cells} == {0.95}
    assert max(block.replicates.n for block in smoke) < 30_000
    assert max(block.replicates.n for block in standard) == 200_000


def test_a_study_of_several_tasks_needs_problems_that_name_theirs():
    plain = STUDY.model_dump(exclude_unset=True)
    plain["panels"][0]["problem"] = {"kind": "simulation", "model": "shaped_regression", "d": 5}
    with pytest.raises(ValueError, match=r"task must .*got 'several'"):
        StudySpec(**plain)


@pytest.mark.parametrize("family", ["gaussian", "logistic", "poisson"])
def test_responses_of_shaped_models_have_the_mean_of_their_family(family):
    data = simulator("shaped_glm")(np.random.default_rng(0), 40_000, 3, family=family)
    found = dpalgos.estimate("glm", data.X, data.y, family=family, rng=np.random.default_rng(0))
    np.testing.assert_allclose(found.estimate, data.truth, atol=0.06)


@pytest.mark.parametrize("law", ["gaussian", "student", "exponential"])
def test_rows_and_errors_have_the_stated_spread(law):
    rng = np.random.default_rng(0)
    data = simulator("shaped_regression")(rng, 60_000, 3, rows=law, errors=law, unequal=True, correlation=0.0)
    error = data.y - data.X @ data.truth
    np.testing.assert_allclose(data.X.std(axis=0), 1, atol=0.05)
    assert error.std() == pytest.approx(0.7, abs=0.05)
    outer = np.abs(data.X[:, 0]) > 1
    assert error[outer].std() > 1.3 * error[~outer].std()
    mean = simulator("shaped_mean")(rng, 60_000, 3, rows=law)
    np.testing.assert_allclose(mean.X.mean(axis=0), mean.truth, atol=0.03)


class Page:
    estimators = (dpalgos.get_estimator("adassp"),)
    data_source = "simulated"

    def estimator(self, name):
        return self.estimators[0]


def test_the_page_tells_coverage_beside_the_naive_one_and_what_has_no_interval():
    cells = {
        "coverage": 0.8,
        FLAGGED: 0.25,
        "coverage_without_noise": 0.4,
        "squared_error_over_half_width": 0.3,
        SIGNS: 0.6,
    }
    summary = pd.DataFrame(
        [
            {
                "estimator": "adassp",
                "panel": "plain",
                "form": "",
                "calibration": "tight",
                "epsilon": 1.0,
                "n": 500,
                "metric": metric,
                "mean": mean,
                "se": 0.01,
            }
            for metric, mean in cells.items()
        ]
    )
    view = type("View", (), {"page": Page(), "headline": Setting(1.0, "", "plain")})
    names = {"coverage": COVERAGE, "flagged": FLAGGED, "naive": "coverage_without_noise", "signs": SIGNS}
    content = {**names, "pivot": "squared_error_over_half_width", "n": 500}
    figure, estimators, signs, table = exhibit.draw(view, summary, content)
    assert "80.0 % of the time" in figure.text
    assert "less than 94 %" in figure.text
    assert figure.text.startswith(figure.answer)
    assert "80.0 % of the time" in figure.answer
    width = f"{1 / (1.959964 * 0.3**0.5):.2f}"
    found = ("AdaSSP", "adassp", "1", "80.0", "80.0", "1", "40.0", "25.0", width)
    assert tuple(estimators.table.rows) == (found,)
    assert tuple(signs.table.rows) == (("plain", "AdaSSP", "500", "none", "60.0"),)
    assert tuple(table.table.rows) == (
        ("plain", "AdaSSP", "1", "500", "80.0 ± 1.0", "40.0", "25.0", f"{1 / (1.959964 * 0.3**0.5):.2f}"),
    )
    assert b"plain: AdaSSP" in figure.picture.svg
    assert exhibit.draw(view, summary.assign(metric="l2_error"), content) == ()
