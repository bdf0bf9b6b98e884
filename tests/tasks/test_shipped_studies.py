"""Studies of the package: frames of a flock, groups of people by SNPs, trials; what their pages say."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpalgos
from data.datasets import get_dataset
from data.fetch.ingest import to_parquet
from data.fetch.raw import RawFile
from data.prepare.frame_features import ORDER_PARAMETERS, order_parameters, stream_frames
from data.prepare.genotype_groups import GroupDifference
from data.results.table import validate_results
from flows.studies.find_study import find_study, study_names
from reports.page import Axis, StudyPage
from tasks.report.build_page import _limit_guides, _without_signal
from tasks.run.compute import compute_block
from tests.tasks.blocks import made_block, made_cell, made_problem, prepared_data

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
    assert [panel.name for panel in spec.panels] == ["public", "standardized", "order parameters"]
    assert set(spec.not_run) == {"by simulation", "order parameters by simulation", "whole simulations"}
    assert all("do not say from which simulation" in note for note in spec.not_run.values())
    assert SWARM.on({"swarm": ref})[0].not_run == {}
    assert tables == {"swarm": real}


def page_of(estimators, headline, **facts):
    about = {"name": "mine", "title": "Mine", "question": "", "metric_label": "error"}
    about["estimators"] = tuple(map(dpalgos.get_estimator, estimators))
    return StudyPage(headline={"delta_rule": "0.001", **headline}, **about, **facts)


def groups(n_people, shift, d=12):
    rng = np.random.default_rng(5)
    first = rng.binomial(2, 0.5 + shift, (n_people, d))
    second = rng.binomial(2, 0.5, (n_people, d))
    snps = {"name": [f"rs{j}" for j in range(d)], "chromosome": ["1"] * d}
    return GroupDifference(
        X=np.concatenate([2.0 * (first - 1), -2.0 * (second - 1)]),
        sizes=(n_people, n_people),
        target=first.mean(axis=0) - second.mean(axis=0),
        snps=pd.DataFrame({**snps, "position": range(d), "allele_1": "A", "allele_2": "C"}),
        panel=np.zeros((0, d)),
        panel_labels=np.zeros(0, dtype=int),
    )


SETTINGS = {"dataset": "snp_hapmap3", "n_snps": 12, "s": 3, "selection": "public_panel", "unit": "person"}
PROBLEM = made_problem("group_differences", **SETTINGS)


@pytest.fixture(scope="module")
def panels():
    """Two panels, of which one has a signal, at two sizes and ε = 1."""
    parts = []
    for panel, shift in (("differs", 0.3), ("is null", 0.0)):
        for n in (30, 150):
            same = {"n": n, "panel": panel}
            cells = [made_cell("zero", **same), made_cell("sample_mean", **same)]
            clipped = {"center": 0.0, "clip_norm": math.sqrt(24), "shrinkage": "james_stein"}
            cells.append(made_cell("clipped_mean", **same, **clipped))
            block = made_block(PROBLEM, *cells, **same, replicates=8, study="snp", seed=1)
            parts.append(compute_block(block, groups(200, shift)))
    return validate_results(pd.concat(parts))


def test_errors_are_root_mean_squares_per_snp(panels):
    wide = panels.pivot_table(index=["cell", "replicate"], columns="metric", values="value")
    np.testing.assert_allclose(wide["rms_error"], wide["l2_error"] / math.sqrt(12))
    assert set(panels[panels["metric"] == "chance"]["privacy_model"]) == {"none"}


SNP_PAGE = page_of(
    ("zero", "sample_mean", "clipped_mean"),
    {"epsilon": 1.0, "n": 150, "panel": "differs"},
    axis=Axis("people", "n", "m"),
    metric="rms_error",
)


def test_a_panel_without_signal_says_so_and_the_limits_are_lines(panels):
    assert _without_signal(panels) == ("is null",)
    assert _without_signal(panels[panels["panel"] == "differs"]) == ()
    page = replace(SNP_PAGE, without_signal=_without_signal(panels))
    assert (page.panel_title("differs"), page.panel_title("is null")) == ("differs", "is null: no signal")
    lines = {(guide.label, guide.panel): guide.value for guide in _limit_guides(panels)}
    expected = groups(200, 0.0).limits(3)
    assert lines["difference of two random groups", "is null"] == (expected["chance"],)
    assert lines["smallest error with s entries", "is null"] == (expected["sparse_floor"],)
    assert all(guide.shown for guide in _limit_guides(panels))


@pytest.mark.filterwarnings("ignore::dpalgos.PrivacyWarning")
def test_without_noise_all_estimates_are_near_the_truth():
    spec = find_study("survival")
    blocks = [each for each in spec.blocks("standard", replicates=3, seed=1) if each.replicates.n == 10_000]
    rows = pd.concat([compute_block(each) for each in blocks])
    mean = rows.fillna({"epsilon": 0.0}).groupby(["panel", "estimator", "epsilon"])["value"].mean()
    assert mean["scores", "glm", 0.0] < 0.1
    assert mean["scores", "preconditioned_glm", 3.0] < 0.15
    assert mean["counts", "cumulative_counts", 3.0] < 0.1
    assert mean["curves", "cumulative_counts", 1000.0] < 0.03
    assert mean["scores", "zero", 0.0] == pytest.approx(np.hypot(0.5, 0.4))


@pytest.mark.parametrize("name", study_names())
def test_a_trial_run_has_at_least_three_repetitions(name):
    assert find_study(name).replicates["smoke"] >= 3
