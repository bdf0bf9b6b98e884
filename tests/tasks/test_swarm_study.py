"""The swarm study: order parameters of a flock, splits by simulation, and the paper's rule."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpalgos
from data.datasets import get_dataset
from data.fetch.ingest import to_parquet
from data.fetch.raw import RawFile
from data.prepare.frame_features import stream_frames
from data.prepare.order_parameters import ORDER_PARAMETERS, order_parameters
from flows.studies.find_study import find_study
from reports.cells import cells_of
from reports.exhibits.paper_rule import draw
from reports.page import Axis, StudyPage
from reports.ranking import headline_of
from reports.results import summarize
from tasks.problems.sources.table_splits import MILD_COST
from tests.tasks.blocks import made_block, prepared_data, results_table

SWARM = find_study("swarm")
ORDERED = {panel.name: panel for panel in SWARM.panels if panel.problem.features == "order parameters"}
SMALL = 640  # frames of 40 simulations


@pytest.fixture(scope="module")
def ref(tmp_path_factory):
    raw = RawFile("swarm", "", "", "", "", "stand-in", ("offline",))
    return to_parquet(get_dataset("swarm"), raw, home=tmp_path_factory.mktemp("home"), stand_in_rows=SMALL)


def test_order_parameters_by_hand():
    columns = get_dataset("swarm").column_names
    boids = pd.DataFrame(0.0, index=range(3), columns=columns)
    boids["xVel"], boids["yVel"] = [3.0, 0.0, 0.0], [4.0, 2.0, 0.0]  # the last does not move
    boids["xA"], boids["yA"], boids["nAC"] = [1.0, 0.0, 1.0], [0.0, -1.0, 0.0], [4, 5, 0]
    frame = boids.to_numpy().reshape(-1, 1)
    (found,) = order_parameters(frame, columns)
    polarization = math.hypot(0.6, 0.8 + 1.0) / 3
    np.testing.assert_allclose(found, [polarization, (0.6 - 1.0) / 3, 3.0, 7.0 / 3])


def test_a_frame_has_four_bounded_features_and_a_simulation_is_the_mean_of_its_frames(ref, tmp_path):
    frames = prepared_data(ORDERED["order parameters"].problem, ref, tmp_path)
    assert frames.X.shape == (SMALL, 5)
    assert frames.column_names == (*(name for name, _, _ in ORDER_PARAMETERS), "intercept")
    assert np.abs(frames.X).max() <= 3
    np.testing.assert_array_equal(frames.groups, np.arange(SMALL) // 16)
    y = np.concatenate([labels for _, labels in stream_frames(ref)])
    np.testing.assert_array_equal(frames.y, y)
    whole = prepared_data(ORDERED["whole simulations"].problem, ref, tmp_path)
    np.testing.assert_allclose(whole.X, frames.X.reshape(-1, 16, 5).mean(axis=1), atol=1e-12)
    np.testing.assert_array_equal(whole.y, frames.y[::16])


def test_test_frames_are_of_unseen_simulations(ref, tmp_path):
    problem = ORDERED["order parameters by simulation"].problem
    prepared = prepared_data(problem, ref, tmp_path)
    block = made_block(problem, n=SMALL // 2, replicates=5, study="swarm", panel="p", seed=2)
    (draw_of_rows,) = problem.draws(block.replicates, prepared)
    trained = draw_of_rows.sample.row_mask.reshape(-1, 16, 5)
    assert (trained.all(axis=1) | ~trained.any(axis=1)).all()
    assert (trained[:, 0].sum(axis=0) == 20).all()


def test_real_frames_leave_out_what_needs_simulations_and_say_so(ref):
    real = replace(ref, data_source="real", origin="store", reasons=(), frames_per_simulation=0)
    spec, tables = SWARM.on({"swarm": real})
    assert [panel.name for panel in spec.panels] == ["public", "standardised", "order parameters"]
    assert set(spec.not_run) == {"by simulation", "order parameters by simulation", "whole simulations"}
    assert all("do not say from which simulation" in note for note in spec.not_run.values())
    assert SWARM.on({"swarm": ref})[0].not_run == {}
    assert tables == {"swarm": real}


PAGE = {
    "name": "swarm",
    "title": "Swarm",
    "question": "",
    "estimators": tuple(map(dpalgos.get_estimator, ("zero", "iht_glm", "dp_sparse_glm"))),
    "headline": {"epsilon": 0.5, "delta_rule": "0.001", "n": 300, "panel": "public"},
    "axis": Axis("rows", "n", "n"),
    "metric": "misclassification",
    "metric_label": "share misclassified",
    "panel_sources": {"public": "stand-in"},
}
RATIOS = [([0.30, 0.31, 0.29], "fails in 1 of 1 settings"), ([0.20, 0.21, 0.19], "holds in all 1 settings")]
RATIOS += [([0.26, 0.31, 0.21], "holds in 0 of 1 settings; the others are undecided")]


@pytest.mark.parametrize(("ours", "verdict"), RATIOS)
def test_the_page_says_whether_privacy_is_mild(ours, verdict):
    same = {"metric": "misclassification", "n": 300}
    private = {"calibration": "tight", "privacy_model": "central", "epsilon": 0.5, "delta": 0.001}
    private |= {"delta_rule": "0.001", "certified_epsilon": 0.5, "estimator_epsilon": 0.5}
    base = results_table([0.2, 0.2, 0.2], cell="base").assign(estimator="iht_glm", **same)
    noisy = results_table(ours, cell="ours").assign(estimator="dp_sparse_glm", **same, **private)
    results = pd.concat([base, noisy])
    page = StudyPage(**PAGE)
    cells = cells_of(summarize(results), page)
    (section,) = draw(page, cells, headline_of(cells, page), MILD_COST)
    assert verdict in section.facts["answer"]
    assert section.facts["answer"].count("On the stand-in") == 1
    ratio = np.mean(ours) / 0.2
    assert float(section.facts["table"].rows[0][-1].text) == pytest.approx(ratio, rel=0.01)
