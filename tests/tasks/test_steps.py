"""Studies with the number of steps on the horizontal axis, and logarithms of errors."""

import numpy as np
import pandas as pd
import pytest

from flows.studies.find_study import find_study
from reports.results import summarize, validate_results
from reports.series import View
from tasks.report.build_page import _risk, build_page
from tasks.report.manifest import budget_split
from tasks.run.block import compute_block
from tests.tasks.blocks import refused_study

STUDY = """
title = "Steps"
question = "How many?"
data = "simulated"
task = "glm"
size_label = "steps T"
metric_label = "ℓ2 distance"
grid = { n = [400], epsilon = [0.5, 2.0], delta = ["1/(2*n)"] }
replicates = { smoke = 2, standard = 3, paper = 3 }
headline = { n = 400, steps = 4, epsilon = 0.5, delta = "1/(2*n)", panel = "dense" }

[[panels]]
name = "dense"
problem = { kind = "simulation", model = "uniform_glm", d = 3 }

[[estimators]]
name = "zero"

[[estimators]]
name = "glm"
params = { family = "logistic" }

[[estimators]]
name = "dp_glm"
form = "long steps"
calibrations = ["tight", "paper"]
steps = [1, 4, 2]
params = { family = "logistic", covariate_bound = "sqrt(d)", n_iterations = "T", step_size = "8/T" }
"""
PAGE = {
    "data": [],
    "budgets": [],
    "command": "",
    "rerun_commands": [],
    "profile": "standard",
    "started": "",
    "finished": "",
    "machine": "",
}


@pytest.fixture
def study(tmp_path, home):
    (tmp_path / "steps.toml").write_text(STUDY)
    return find_study(str(tmp_path / "steps.toml"))


@pytest.fixture
def results(study):
    blocks = study.blocks("standard", replicates=3, seed=1)
    return validate_results(pd.concat([compute_block(block) for block in blocks], ignore_index=True))


def test_a_cell_for_every_number_of_steps(study):
    (block,) = study.blocks("standard", replicates=3, seed=1)
    tight = [cell for cell in block.cells if cell.calibration == "tight" and cell.epsilon == 0.5]
    assert [(cell.form, cell.steps) for cell in tight] == [("long steps", T) for T in (1, 4, 2)]
    assert [cell.params["n_iterations"] for cell in tight] == [1, 4, 2]
    assert [cell.params["step_size"] for cell in tight] == [8.0, 2.0, 4.0]
    (smoke,) = study.blocks("smoke", replicates=2, seed=1)
    assert {(cell.form, cell.steps) for cell in smoke.cells} == {
        ("", None),
        ("long steps", 1),
        ("long steps", 4),
    }


def test_logarithms_stand_beside_the_errors(results):
    pairs = results.pivot_table(index=["cell", "replicate"], columns="metric", values="value", dropna=False)
    np.testing.assert_allclose(pairs["log_squared_error"], 2 * np.log(pairs["l2_error"]))
    assert (pairs["l2_error"] > 0).all()


def test_the_budget_is_split_at_the_largest_number(study):
    assert budget_split(study)["dp_glm", "long steps"] == {"gradient": pytest.approx(1.0)}


def test_the_budget_is_split_as_at_the_headlines_number_of_rows():
    split = budget_split(find_study("housing"))["preconditioned_regression", ""]
    assert sum(split.values()) == pytest.approx(1.0)
    assert {"means about centers", "values by power of two"} < set(split)  # of 50 rows neither is released


def test_every_number_in_a_figure_is_a_cells(study, results):
    page = build_page(study, results, PAGE)
    assert (page.axis.column, page.axis.symbol, page.axis.rows_symbol) == ("steps", "T", "n")
    view = View.build(summarize(results), page)
    series = {(s.info.name, s.calibration): s for s in view.series(view.headline)}
    assert view.headline_size == 4
    for calibration in ("tight", "paper"):
        line = series["dp_glm", calibration]
        assert [point.x for point in line.points] == [1, 2, 4]
        assert line.form == "long steps"
        for point in line.points:
            assert point.cell.startswith(f"dp_glm:dense+long steps+T={point.x:g}:{calibration}:eps=0.5")
            values = results.query("cell == @point.cell and metric == 'l2_error'")["value"]
            assert point.mean == pytest.approx(values.mean())
            assert point.n == 400
    flat = series["glm", "none"]
    assert [point.x for point in flat.points] == [1, 2, 4]
    assert len({point.mean for point in flat.points}) == 1
    guide = page.guides[0]
    assert guide.n == (1.0, 2.0, 4.0)
    assert len(set(guide.value)) == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("steps = 4, ", "", "headline.steps must be one of the study's (1, 2, 4), got None"),
        ("steps = 4, ", "steps = 3, ", "headline.steps must be one of the study's (1, 2, 4), got 3"),
        ("steps = [1, 4, 2]", "steps = []", "'T' has no value here"),
        ("steps = [1, 4, 2]", "steps = [1, 1]", "each entry must be there once, got 1 twice"),
        ("n = [400]", "n = [400, 800]", "grid.n must be one size where steps are the horizontal axis"),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path, old, new, message):
    assert message in refused_study(tmp_path, STUDY, old, new)


def test_no_limit_of_an_attacker_is_told_where_the_preparation_is_not_private(study, results):
    assert "Most is learned from" in build_page(study, results, PAGE).risk
    assert not any(panel.problem.traits.protected for panel in find_study("wang_tables").panels)
    assert _risk(find_study("wang_tables")) == ""


def test_the_risk_is_that_at_the_size_that_ran(study, results):
    fewer = study.model_copy(update={"headline": study.headline.model_copy(update={"n": 10**6})})
    assert build_page(fewer, results, PAGE).risk == build_page(study, results, PAGE).risk
