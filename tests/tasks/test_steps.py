"""Studies with the number of steps on the horizontal axis, and logarithms of errors."""

import pandas as pd
import pytest

from flows.studies.find_study import find_study
from reports.results import summarize, validate_results
from reports.series import View
from tasks.report.build_page import build_page
from tasks.run.block import compute_block

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
PAGE = dict.fromkeys(("command", "started", "finished", "machine"), "")
PAGE |= {"profile": "standard", "data": [], "budgets": [], "rerun_commands": []}


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
