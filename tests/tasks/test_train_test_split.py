"""Classification of labeled frames: metrics, batches of replicates, and the study's cells."""

import json
import re
import weakref
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from data.prepare.table_design import PreparedTable
from flows.studies.find_study import STUDIES, find_study
from reports.results import validate_results
from tasks.problems.measures.prediction import CLASSIFICATION, MISCLASSIFICATION, classification
from tasks.problems.problem import Draw
from tasks.problems.sources.table_splits import BATCH
from tasks.run import block as block_of_cells
from tasks.run.block import compute_block
from tests.tasks.blocks import made_answer, made_block, made_cell, made_problem, measured_of, refused_study

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


def test_frames_as_read_are_let_go_once_they_are_in_the_order_of_their_use(monkeypatch):
    tables, held = [frames()], []
    read, run = weakref.ref(tables[0].X), block_of_cells._run_cell
    watched = lambda *given: [held.append(read() is not None), run(*given)][1]  # noqa: E731
    monkeypatch.setattr("tasks.run.block._run_cell", watched)
    compute_block(block(), tables.pop())
    assert held
    assert not any(held)


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


def test_rates_are_points_of_the_curve():
    scores = np.array([4.0, 3, 2, 1, 0, -1, -2, -3, -4, -5])
    y = np.array([1.0, 1, 0, 1, 0, 0, 0, 0, 1, 0])
    found = classification(scores, y)
    # Of six zeros one is called at a rate of 1/6; before it two of four ones are found.
    assert found["tpr_at_fpr_10"] == pytest.approx(0.5 + (0.1 * 6) * 0.25)
    assert found["tpr_at_fpr_90"] == pytest.approx(1.0)
    perfect = classification(y - 0.5, y)
    assert (perfect["auc"], perfect["misclassification"], perfect["tpr_at_fpr_01"]) == (1, 0, 1)
    constant = classification(np.zeros(10), y)
    assert (constant["auc"], constant["tpr_at_fpr_20"]) == (0.5, pytest.approx(0.2))
    assert np.isnan(classification(scores, np.ones(10))["auc"])


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


def test_what_was_selected_is_counted():
    selected = {}
    compute_block(block(cells=(IHT, PRIVATE, cell("zero"))), frames(), selected=selected)
    assert set(selected) == {IHT.key, PRIVATE.key}
    for counts in selected.values():
        assert sum(counts.values()) == 2 * 4
    assert selected[IHT.key] == {"f0": 4, "f1": 4}


def test_a_cell_names_its_sparsity():
    assert IHT.key.endswith(":n=300:s=2")
    assert ":s=" not in replace(IHT, s=None).key
    assert json.loads(json.dumps(block().described()))["problem"]["dataset"] == "swarm"


def test_the_study_and_its_profiles():
    spec = find_study("swarm")
    assert (spec.axis, spec.datasets) == ("s", ("swarm",))
    blocks = spec.blocks("standard", replicates=20, seed=0, data_sources={"swarm": "stand-in"})
    assert {block.data_source for block in blocks} == {"stand-in"}
    assert all(block.replicates.count <= BATCH for block in blocks)
    public = [
        cell
        for block in blocks
        if block.replicates.panel == "public" and not block.replicates.first
        for cell in block.cells
    ]
    asked = {(c.epsilon, c.delta_rule, c.s) for c in public if c.calibration == "tight"}
    assert asked == {(e, d, s) for e in (0.2, 0.5) for d in ("1/(2*n)", "1/n^2") for s in (25, 50, 100)}
    assert all(c.delta == pytest.approx(1 / 24016) for c in public if c.delta_rule == "1/(2*n)")
    smoke = spec.blocks("smoke", replicates=3, seed=0)
    assert {block.replicates.n for block in smoke} == {800}
    assert {cell.s for block in smoke for cell in block.cells} == {25, 100}
    assert spec.stand_in_rows("swarm", "smoke") == 1600
    assert spec.stand_in_rows("swarm", "standard") is None
    head = spec.headline_cells(blocks)
    assert head
    assert all((cell.s, cell.epsilon) == (100, 0.5) for cell in head)


def test_printed_numbers_are_the_papers():
    printed = {(row.delta, row.epsilon): row for row in find_study("swarm").printed}
    assert printed["1/n^2", 0.5].mean == (0.33, 0.19, 0.08)
    assert printed["1/(2*n)", float("inf")].spread == (0.05, 0.05, 0.03)
    assert len(printed) == 6


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("s = 100\nepsilon", "s = 99\nepsilon", "headline.s must be one of the study's .25, 50, 100., got"),
        ("s = 100\nepsilon", "epsilon", "headline.s must be one of the study's .25, 50, 100., got None"),
        ('task = "glm"', 'task = "mean"', "task must be glm for panels .public..problem, got 'mean'"),
        ('units = "public"', 'units = "odd"', "units: "),
        ("n = [12008]", "n = [12008, 24016]", "grid.n must be below the 24,016 rows of swarm.*got 24016"),
        ('dataset = "swarm"', 'dataset = "housing"', "covariates must have at least one entry"),
        ("mean = [0.33, 0.21, 0.13]", "mean = [0.33]", "printed.mean and printed.spread need one number per"),
        ("covariate_bound = 3.0", "covariate_bond = 3.0", "covariate_bond"),
    ],
)
def test_a_faulty_study_is_refused_by_what_is_wrong(tmp_path, old, new, message):
    assert re.search(message, refused_study(tmp_path, (STUDIES / "swarm.toml").read_text(), old, new))


def test_seconds_are_per_replicate_and_not_per_metric():
    timings: list[pd.DataFrame] = []
    rows = compute_block(block(cells=(IHT,)), frames(), timings=timings)
    (times,) = timings
    assert list(times["replicate"]) == sorted(set(rows["replicate"]))


def test_what_does_not_depend_on_s_is_asked_once(monkeypatch):
    doubled = cell(**{**PRIVATE.params, "sparsity": 4}, name="dp_sparse_glm")
    cells = tuple(replace(one, s=s) for one, s in ((PRIVATE, 10), (PRIVATE, 20), (doubled, 30)))
    asked, ask = [], Draw.answer
    monkeypatch.setattr(Draw, "answer", lambda *given: [asked.append(given[1].s), ask(*given)][1])
    rows = compute_block(block(cells=cells), frames())
    values = [value(rows[rows["s"] == s], name="dp_sparse_glm") for s in (10, 20, 30)]
    assert asked == [10, 30]
    np.testing.assert_array_equal(values[0], values[1])
    assert (values[0] != values[2]).any()


def test_a_cell_beside_others_has_the_answers_that_it_has_alone(monkeypatch):
    private = [replace(PRIVATE, epsilon=epsilon) for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0)]
    cells, prepared = (IHT, *private), frames()
    beside = compute_block(block(cells=cells), prepared)
    monkeypatch.setattr("tasks.run.block._COLUMNS_PER_FIT", 2401)
    alone = compute_block(block(cells=cells), prepared)
    left, right = (rows[rows["metric"] == "misclassification"]["value"] for rows in (beside, alone))
    np.testing.assert_allclose(left, right, atol=1e-12)
    assert left.nunique() > 5
