"""Cells and blocks: keys, seeds, and what is computed of the same rows."""

from dataclasses import replace

import numpy as np
import pytest

import dpalgos
from data.prepare.table_design import PreparedTable
from data.results.table import validate_results
from flows.studies.find_study import find_study, study_names
from tasks.cells import Cell, Replicates, derive_seed
from tasks.problems.problem import DatasetSource
from tasks.run.compute import compute_block
from tests.tasks.blocks import made_block, made_cell, made_problem

PRIVATE = {"covariate_bound": 3.0, "response_bound": 2.0}


def cell(estimator):
    params = PRIVATE if dpalgos.get_estimator(estimator).private else {}
    return made_cell(estimator, n=40, panel="public", **params)


def block(*cells):
    asked = {"dataset": "housing", "response": "y", "covariates": ("a", "b"), "units": "public"}
    problem = made_problem("subsamples", **asked)
    return made_block(problem, *cells, n=40, replicates=4, panel="public")


@pytest.fixture(scope="module")
def design():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=(200, 2)), np.ones(200)])
    y = X @ [1.0, -0.5, 0.1] + 0.1 * rng.normal(size=200)
    return PreparedTable(X=X, y=y, column_names=("a", "b", "intercept"), to_standard=np.eye(2, 3))


def test_seeds_are_those_of_the_cells_and_least_squares_beats_zero(design):
    rows = compute_block(block(cell("zero"), cell("ols"), cell("adassp")), design)
    assert (rows["seed"] == rows["cell"].map(lambda key: derive_seed(7, "mine", key))).all()
    errors = rows[rows["metric"] == "l2_error"].pivot(index="replicate", columns="estimator", values="value")
    assert (errors["ols"] < errors["zero"]).all()


def test_nothing_is_certified_where_the_data_decided_their_own_preparation(design):
    both = block(cell("ols"), cell("adassp"))
    standardized = replace(both, problem=both.problem.model_copy(update={"units": "standardized"}))
    rows = validate_results(compute_block(standardized, design))
    private = rows["estimator"] == "adassp"
    assert np.isinf(rows["certified_epsilon"][private]).all()
    assert rows["certified_epsilon"][~private].isna().all()
    expected = compute_block(both, design)["certified_epsilon"]
    assert rows["estimator_epsilon"].equals(expected)
    assert (expected[private] <= 1.0).all()


def test_the_steps_of_a_path_are_read_from_one_run(design, monkeypatch):
    run = cell("dp_glm")
    run = replace(run, params={"family": "gaussian", **PRIVATE, "n_iterations": 8, "step_size": 0.1})
    calls, estimate = [], dpalgos.estimate
    monkeypatch.setattr(
        dpalgos, "estimate", lambda *args, **named: calls.append(1) or estimate(*args, **named)
    )
    rows = compute_block(block(*(replace(run, steps=t, of_path=True) for t in (2, 5, 8)), run), design)
    values = validate_results(rows).pivot_table(index="replicate", columns="steps", values="value")
    assert len(calls) == 2  # one run of all replicates for the path, one for the cell without it
    assert (values.nunique(axis=1) == 3).all()


def fails(result, design):
    raise np.linalg.LinAlgError(f"singular near {design.y[0]}")


@pytest.mark.parametrize("after", [fails, lambda found, _: replace(found, estimate=found.estimate * np.inf)])
def test_an_estimator_that_fails_does_so_alone_and_quotes_no_row(design, monkeypatch, after):
    estimate = dpalgos.estimate

    def estimated(name, *arguments, **keywords):
        result = estimate(name, *arguments, **keywords)
        return after(result, design) if name == "adassp" else result

    monkeypatch.setattr(dpalgos, "estimate", estimated)
    with np.errstate(invalid="ignore"):
        rows = validate_results(compute_block(block(cell("adassp"), cell("ols")), design))
    failed = rows[rows["estimator"] == "adassp"]
    assert set(failed["status"]) == {"failed"}
    assert not failed["message"].str.contains("singular").any()
    assert failed["value"].isna().all()
    assert len(failed) == 4
    assert set(rows[rows["estimator"] == "ols"]["status"]) == {"ok"}


def test_what_an_estimator_refuses_is_told(design):
    refused = replace(cell("adassp"), params={"covariate_bound": 3.0})
    rows = validate_results(compute_block(block(refused), design))
    assert set(rows["status"]) == {"refused"}
    assert "response_bound" in rows["message"][0]
    assert rows["value"].isna().all()


BUDGET = {"calibration": "tight", "epsilon": 0.5, "delta": 1e-4, "delta_rule": "1/n^2"}
BUDGET |= {"n": 100, "params": {"covariate_bound": 3.0}}
PRIVATE_CELL = Cell(estimator="adassp", panel="public", form="some form", **BUDGET)
DRAWN = Replicates(study="housing", panel="public", n=100, first=0, count=3, of=3, seed=20191112)


def test_keys_say_what_is_drawn_and_settings_never_override_the_budget_of_a_cell():
    assert DRAWN.key == "public:n=100"
    assert replace(DRAWN, first=1, count=2).key == "public:n=100:r=1-2"
    overriding = replace(PRIVATE_CELL, params={"epsilon": 9.0, "delta": 0.4, "calibration": "paper"})
    assert overriding.keywords() == {"epsilon": 0.5, "delta": 1e-4, "calibration": "tight"}


def test_rows_depend_on_study_size_and_seed_only():
    def draws(replicates):
        return [int(rng.integers(2**62)) for rng in replicates.row_generators()]

    first = draws(DRAWN)
    assert len(set(first)) == 3
    assert draws(replace(DRAWN, panel="paper")) == first
    assert draws(replace(DRAWN, count=2)) == first[:2]
    assert draws(replace(DRAWN, first=1, count=2)) == first[1:]
    for change in ({"seed": 1}, {"n": 101}, {"study": "other"}):
        assert not set(draws(replace(DRAWN, **change))) & set(first)
    assert first == [int(r.integers(2**62)) for r in np.random.default_rng(4492109200057952922).spawn(3)]


@pytest.mark.parametrize("name", study_names())
def test_every_study_loads_and_expands(name):
    study = find_study(name)
    for profile in ("smoke", "standard", "paper"):
        replicates = study.replicates[profile]
        blocks = study.blocks(profile, replicates=replicates, seed=1)
        assert len({block.key for block in blocks}) == len(blocks)
        assert {block.problem == study.panel(block.replicates.panel).problem for block in blocks} == {True}
        read = {block.problem.source for block in blocks if isinstance(block.problem, DatasetSource)}
        assert set(study.datasets_at(profile)) == read
        assert all(study.stand_in_rows(dataset, profile) != 0 for dataset in read)
        counted = {}
        for block in blocks:
            for cell in block.cells:
                counted.setdefault(cell.key, []).extend(block.replicates.numbers)
        assert all(found == [*range(replicates)] for found in counted.values())
        assert study.headline_cells(blocks)
