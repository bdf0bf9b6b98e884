"""Kinds of problems: which rows they draw, and what their measures say of an answer."""

from dataclasses import replace

import numpy as np
import pytest

import dpalgos
from data.collections import wang2018
from data.prepare.genotype_groups import GroupDifference
from data.prepare.table_design import PreparedTable, design_bytes
from data.results.table import validate_results
from data.store.folders import sha256_file
from flows.studies.find_study import find_study
from tasks.problems.measures import prediction
from tasks.problems.measures.estimation import EXCESS_RISK, right_signs, support_recall
from tasks.problems.problem import Draw
from tasks.problems.reference_answer import reference_answer
from tasks.run.compute import compute_block
from tasks.run.datasets import fetch, parquet
from tests.tasks.blocks import made_answer, made_block, made_cell, made_problem, measured_of, prepared_data

SNP = find_study("snp")


def two_groups(n_snps, sizes=(30, 25)):
    rng = np.random.default_rng(4)
    first = rng.binomial(2, np.where(np.arange(n_snps) < 5, 0.9, 0.5), (sizes[0], n_snps))
    second = rng.binomial(2, 0.5, (sizes[1], n_snps))
    snps = {"name": [f"rs{j}" for j in range(n_snps)], "chromosome": [str(1 + j % 3) for j in range(n_snps)]}
    return GroupDifference(
        X=np.concatenate([2.0 * (first - 1), -2.0 * (second - 1)]),
        sizes=sizes,
        target=first.mean(axis=0) - second.mean(axis=0),
        snps={**snps, "position": list(range(n_snps))},
        panel=2.0 * (rng.binomial(2, 0.5, (6, n_snps)) - 1),
        panel_labels=np.arange(6) % 2,
    )


@pytest.fixture
def of_groups():
    problem = SNP.head_panel.problem.model_copy(update={"n_snps": 40, "s": 5})
    grid = SNP.grid.model_copy(update={"n": (10,), "delta": ("1/n^2",)})
    panel = SNP.head_panel.model_copy(update={"problem": problem, "grid": grid})
    small = SNP.model_copy(update={"panels": (panel,)})
    (found,) = small.blocks("standard", replicates=3, seed=7)
    return found


def test_recall_counts_true_hits_among_the_largest():
    target = np.array([3.0, -2.0, 0.5, 0.1])
    coef = np.array([[1.0, 0.0, -9.0], [0.5, 0.0, 8.0], [0.7, 0.0, 0.0], [0.0, 1.0, 0.0]])
    draw = Draw(sample=dpalgos.Sample(np.zeros((2, 4)), n_replicates=3), first=0, target=target, s=2)
    assert support_recall(draw, coef).tolist() == [0.5, 0.0, 1.0]


def test_right_signs_are_counted_and_zeros_are_none():
    draw = Draw(sample=dpalgos.Sample(np.zeros((2, 3))), first=0, target=np.array([1.0, -2.0, 0.5]))
    assert right_signs(draw, np.array([3.0, 1.0, 0.0])).tolist() == [1]
    halved = replace(draw, to_target=np.diag([1.0, -0.5, 1.0]))
    assert right_signs(halved, np.array([3.0, 1.0, 0.0])).tolist() == [2]


def test_public_rows_are_the_panel_as_members_of_either_group(tmp_path):
    (tmp_path / "design.npz").write_bytes(design_bytes(two_groups(40)))
    design = SNP.head_panel.problem.load(tmp_path / "design.npz")
    assert design.public_rows.shape == (12, 40)
    np.testing.assert_array_equal(design.public_rows[:6], two_groups(40).panel)
    np.testing.assert_array_equal(design.public_rows[6:], -design.public_rows[:6])
    assert len(set(design.public_groups)) == 4


COVARIATES = ("median_income", "population")
ASKED = {"dataset": "housing", "response": "median_house_value", "covariates": COVARIATES, "units": "public"}
HELD_OUT = made_problem("held_out_regression", **ASKED)
PLAIN = made_cell("ols", n=200, panel="houses")


def drawn_regression(n=300):
    rng = np.random.default_rng(0)
    X = np.column_stack([2 * rng.standard_normal((n, 2)), np.ones(n)])
    y = X @ [1.0, -0.5, 0.3] + rng.standard_normal(n)
    table = PreparedTable(X=X, y=y, column_names=(*COVARIATES, "intercept"), to_standard=2 * np.eye(2, 3))
    block = made_block(HELD_OUT, PLAIN, n=200, replicates=4, study="regressions", panel="houses", seed=3)
    (draw,) = HELD_OUT.draws(block.replicates, table)
    return table, draw


def test_the_excess_risk_of_least_squares_is_zero_and_that_of_others_by_hand():
    table, draw = drawn_regression()
    fit = dpalgos.estimate("ols", draw.sample, rng=np.random.default_rng(0), replicates=4).estimate
    measured = measured_of(HELD_OUT, draw, made_answer(fit))
    assert np.abs(measured[EXCESS_RISK]).max() < 1e-12
    target = table.to_standard @ np.linalg.lstsq(table.X, table.y, rcond=None)[0]
    by_hand = np.linalg.norm(table.to_standard @ fit - target[:, None], axis=0)
    np.testing.assert_allclose(measured["l2_error"], by_hand)

    zero = measured_of(HELD_OUT, draw, made_answer(np.zeros((3, 4))))
    left_out = ~draw.sample.row_mask[:, 1]
    X, y = table.X[left_out], table.y[left_out]
    assert left_out.sum() == 100
    assert zero[EXCESS_RISK][1] == pytest.approx(np.mean(y**2) - np.mean((y - X @ fit[:, 1]) ** 2))
    np.testing.assert_allclose(zero["l2_error"], np.linalg.norm(target))


def separable(n=400):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal(n), (rng.random(n) < 0.3) * 1.0, np.ones(n)])
    return rng, X


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_a_column_that_separates_is_left_out_and_named(family):
    rng, X = separable()
    y = (rng.random(len(X)) < 0.4) * 1.0
    never = np.where(y == 0, rng.random(len(X)) < 0.1, 0.0)  # at 1, all responses are 0
    found = reference_answer(np.insert(X, 1, never, axis=1), y, family, None)
    assert found.columns.tolist() == [True, False, True, True]
    alone = dpalgos.estimate("glm", X, y, family=family, rng=rng).estimate
    np.testing.assert_allclose(found.coef, np.insert(alone, 1, 0.0), atol=1e-9)


def test_a_whole_answer_is_that_of_glm():
    rng, X = separable()
    y = rng.integers(0, 3, len(X)) * 1.0
    found = reference_answer(X, y, "multinomial", 3)
    assert found.is_whole
    expected = dpalgos.estimate("glm", X, y, family="multinomial", n_classes=3, rng=rng).estimate
    np.testing.assert_array_equal(found.coef, expected)


SPLIT = made_problem("train_test_split", dataset="swarm", family="logistic", units="public")


def labeled_frames(n=600):
    """Twelve features of 200 boids; the first two determine the label."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 2401)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] + 0.2 * rng.standard_normal(n) > 0).astype(float)
    names = (*(f"f{j}" for j in range(2400)), "intercept")
    return PreparedTable(X=X, y=y, column_names=names, to_standard=None, groups=np.arange(n) // 4)


def split_cell(name, **params):
    same = {"n": 300, "panel": "public", "epsilon": 2.0, "delta": 1e-4, "family": "logistic"}
    return replace(made_cell(name, sparsity=2, step_size=2.0, **same, **params), s=2)


IHT = split_cell("iht_glm", n_iterations=5)
PRIVATE_IHT = split_cell("dp_sparse_glm", covariate_bound=1.0, n_iterations=2)


def split_block(cells=(IHT, PRIVATE_IHT)):
    return made_block(SPLIT, *cells, n=300, replicates=4, study="swarm", panel="public", seed=3)


def test_errors_are_those_on_the_rows_that_were_not_trained_on():
    data = labeled_frames()
    rows = validate_results(compute_block(split_block(), data))
    assert set(rows["metric"]) == set(prediction.CLASSIFICATION)
    assert set(rows["status"]) == {"ok"}
    assert set(rows["s"]) == {2}
    errors = rows[rows["metric"] == prediction.MISCLASSIFICATION].set_index("estimator")["value"]
    assert (errors["iht_glm"] < 0.2).all()
    # Labels of the test rows that are turned round turn the errors round; the fit does not see them.
    draw = next(SPLIT.draws(split_block().replicates, data))
    coef = np.zeros((2401, 4))
    coef[:2] = 1
    measured = measured_of(SPLIT, draw, made_answer(coef))[prediction.MISCLASSIFICATION]
    X, y = draw.sample.X, draw.sample.response()
    for r in range(4):
        test = ~draw.sample.row_mask[:, r]
        assert test.sum() == 300
        assert measured[r] == np.mean((X[test, :2].sum(axis=1) > 0) != y[test])


N_RIVERS, D_RIVERS = 57, 3


@pytest.fixture
def wang_study(tmp_path, monkeypatch):
    """Return the study with a small table in place of an unknown file."""
    monkeypatch.setenv("DPCOST_DATA_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.setenv("DPCOST_HOME", str(tmp_path / "home"))
    folder = tmp_path / "mirror" / "wang2018"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(5, 2, (N_RIVERS, D_RIVERS - 1)), np.ones(N_RIVERS)])
    np.savez(folder / "rivers.npz", X=X, y=3 * X[:, 0] + rng.normal(size=N_RIVERS))
    digest = sha256_file(folder / "rivers.npz")
    monkeypatch.setitem(wang2018._KNOWN, "rivers", (N_RIVERS, D_RIVERS, digest, 0.5, 0.25))
    return find_study("wang_tables")


def prepared_table(problem, tmp_path):
    return prepared_data(problem, parquet(fetch(problem.source, offline=True)), tmp_path)


def test_ten_folds_leave_out_each_row_at_most_once_and_are_dealt_anew(wang_study, tmp_path):
    problem = wang_study.panel("rivers").problem
    table = prepared_table(problem, tmp_path)
    block = made_block(problem, made_cell("ols", n=52), n=52, replicates=20, study="wang_tables")
    (draw,) = problem.draws(block.replicates, table)
    left_out = ~draw.sample.row_mask
    assert (left_out.sum(axis=0) == 5).all()
    for first in (0, 10):
        assert left_out[:, first : first + 10].sum(axis=1).max() == 1
    assert not np.array_equal(left_out[:, 0], left_out[:, 10])
    with pytest.raises(ValueError, match=r"grid\.n must"):
        problem.check_data(40)


def test_the_data_prepare_themselves_as_the_paper_says(wang_study, tmp_path):
    table = prepared_table(wang_study.panel("rivers").problem, tmp_path)
    np.testing.assert_allclose(np.linalg.norm(table.X, axis=1), np.sqrt(D_RIVERS))
    assert not table.X[:, -1].any()  # a constant column says nothing
    assert table.y.mean() == pytest.approx(0, abs=1e-12)
    assert np.abs(table.y).max() == 1


def test_errors_are_divided_by_the_printed_one_of_the_same_epsilon(wang_study, tmp_path):
    problem = wang_study.panel("rivers").problem
    blocks = wang_study.blocks("standard", replicates=10, seed=1)
    (block,) = (each for each in blocks if each.replicates.panel == "rivers")
    rows = compute_block(block, prepared_table(problem, tmp_path))
    assert set(rows["status"]) == {"ok"}
    wide = rows.pivot_table(index=["cell", "replicate"], columns="metric", values="value")
    cells = wide.index.get_level_values("cell")
    ratio = wide[prediction.OVER_PRINTED]
    assert ratio[~cells.str.contains("eps")].isna().all()
    for epsilon, printed in (("0.1", 0.5), ("1", 0.25)):
        at = cells.str.contains(f"eps={epsilon}:")
        np.testing.assert_allclose(ratio[at], wide[prediction.SQUARED_ERROR][at] / printed)
    private = rows["epsilon"].notna() & (rows["metric"] == prediction.SQUARED_ERROR)
    np.testing.assert_array_equal(rows.loc[private, "certified_epsilon"], np.inf)

    zero = rows.query("estimator == 'zero'").set_index("metric")["value"][prediction.SQUARED_ERROR]
    (draw,) = problem.draws(block.replicates, prepared_table(problem, tmp_path))
    y = draw.sample.response()
    by_hand = [np.mean(y[out] ** 2) for out in ~draw.sample.row_mask.T]
    np.testing.assert_allclose(zero, by_hand)
