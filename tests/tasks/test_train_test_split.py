"""Classification of labeled frames: metrics, batches of replicates, and the study's cells."""

from dataclasses import replace

import numpy as np
import pytest

from data.prepare.table_design import PreparedTable
from reports.results import validate_results
from tasks.problems.measures.prediction import CLASSIFICATION, MISCLASSIFICATION, classification
from tasks.run.block import compute_block
from tests.tasks.blocks import made_answer, made_block, made_cell, made_problem, measured_of

PROBLEM = made_problem("train_test_split", dataset="swarm", family="logistic", units="public")


def frames(n=600, seed=0):
    """Twelve features of 200 boids; the first two determine the label."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2401)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] + 0.2 * rng.standard_normal(n) > 0).astype(float)
    names = (*(f"f{j}" for j in range(2400)), "intercept")
    return PreparedTable(X=X, y=y, column_names=names, to_standard=None, groups=np.arange(n) // 4)


def cell(name="iht_glm", **params):
    found = made_cell(name, n=300, panel="public", epsilon=2.0, delta=1e-4, **params)
    return replace(found, s=params.get("sparsity"))


IHT = cell(family="logistic", sparsity=2, n_iterations=5, step_size=2.0)
PRIVATE = cell(
    "dp_sparse_glm", family="logistic", covariate_bound=1.0, sparsity=2, n_iterations=2, step_size=2.0
)


def block(first=0, replicates=4, cells=(IHT, PRIVATE), problem=PROBLEM):
    return made_block(
        problem,
        *cells,
        n=300,
        replicates=replicates,
        first=first,
        of=4,
        study="swarm",
        panel="public",
        seed=3,
    )


def value(rows, metric="misclassification", name="iht_glm"):
    return rows[(rows["metric"] == metric) & (rows["estimator"] == name)]["value"].to_numpy()


def test_the_area_is_the_share_of_pairs_in_the_right_order():
    rng = np.random.default_rng(0)
    scores, y = rng.integers(-3, 4, 200).astype(float), rng.integers(0, 2, 200).astype(float)
    ones, zeros = scores[y == 1], scores[y == 0]
    pairs = (ones[:, None] > zeros).mean() + 0.5 * (ones[:, None] == zeros).mean()
    found = classification(scores, y)
    assert found["auc"] == pytest.approx(pairs)
    assert found["misclassification"] == np.mean((scores > 0) != y)
    assert set(found) == set(CLASSIFICATION)


def test_errors_are_those_on_the_rows_that_were_not_trained_on():
    data = frames()
    rows = validate_results(compute_block(block(), data))
    assert set(rows["metric"]) == set(CLASSIFICATION)
    assert set(rows["status"]) == {"ok"}
    assert set(rows["s"]) == {2}
    assert (value(rows) < 0.2).all()
    # Labels of the test rows that are turned round turn the errors round; the fit does not see them.
    draw = next(PROBLEM.draws(block().replicates, data))
    coef = np.zeros((2401, 4))
    coef[:2] = 1
    measured = measured_of(PROBLEM, draw, made_answer(coef))[MISCLASSIFICATION]
    X, y = draw.sample.X, draw.sample.response()
    for r in range(4):
        test = ~draw.sample.row_mask[:, r]
        assert test.sum() == 300
        assert measured[r] == np.mean((X[test, :2].sum(axis=1) > 0) != y[test])


def test_a_cell_beside_others_has_the_answers_that_it_has_alone(monkeypatch):
    private = [replace(PRIVATE, epsilon=epsilon) for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0)]
    cells, prepared = (IHT, *private), frames()
    beside = compute_block(block(cells=cells), prepared)
    monkeypatch.setattr("tasks.run.block._COLUMNS_PER_FIT", 2401)
    alone = compute_block(block(cells=cells), prepared)
    left, right = (rows[rows["metric"] == "misclassification"]["value"] for rows in (beside, alone))
    np.testing.assert_allclose(left, right, atol=1e-12)
    assert left.nunique() > 5
