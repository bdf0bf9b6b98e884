from dataclasses import replace

import numpy as np
import pytest

import dpalgos
from data.prepare.table_design import PreparedTable
from reports.results import validate_results
from tasks.cells import derive_seed
from tasks.run.block import compute_block
from tests.tasks.blocks import made_block, made_cell, made_problem

PRIVATE = {"covariate_bound": 3.0, "response_bound": 2.0}


def cell(estimator):
    params = PRIVATE if dpalgos.get_estimator(estimator).private else {}
    return made_cell(estimator, n=40, panel="public", **params)


def block(*cells, replicates=4):
    return made_block(
        made_problem("subsamples", dataset="housing", response="y", covariates=("a", "b"), units="public"),
        *cells,
        n=40,
        replicates=replicates,
        panel="public",
    )


@pytest.fixture(scope="module")
def design():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=(200, 2)), np.ones(200)])
    return PreparedTable(
        X=X,
        y=X @ [1.0, -0.5, 0.1] + 0.1 * rng.normal(size=200),
        column_names=("a", "b", "intercept"),
        to_standard=np.eye(2, 3),
    )


def test_seeds_are_those_of_the_cells_and_least_squares_beats_zero(design):
    rows = compute_block(block(cell("zero"), cell("ols"), cell("adassp")), design)
    assert (rows["seed"] == rows["cell"].map(lambda key: derive_seed(7, "mine", key))).all()
    ols, zero = (
        rows[rows["estimator"].eq(name) & rows["metric"].eq("l2_error")]["value"].to_numpy()
        for name in ("ols", "zero")
    )
    assert (ols < zero).all()


def test_nothing_is_certified_where_the_data_decided_their_own_preparation(design):
    both = block(cell("ols"), cell("adassp"))
    standardized = replace(both, problem=both.problem.model_copy(update={"units": "standardised"}))
    rows = validate_results(compute_block(standardized, design))
    private = rows["estimator"] == "adassp"
    assert np.isinf(rows["certified_epsilon"][private]).all()
    assert rows["certified_epsilon"][~private].isna().all()
    expected = compute_block(both, design)["certified_epsilon"]
    assert rows["estimator_epsilon"].equals(expected)
    assert (expected[private] <= 1.0).all()


def test_a_failing_estimator_fails_alone_and_silently(design, monkeypatch):
    estimate = dpalgos.estimate

    def fails(name, *arguments, **keywords):
        if name == "adassp":
            raise np.linalg.LinAlgError(f"singular near {design.y[0]}")
        return estimate(name, *arguments, **keywords)

    monkeypatch.setattr(dpalgos, "estimate", fails)
    rows = validate_results(compute_block(block(cell("adassp"), cell("ols")), design))
    failed = rows[rows["estimator"] == "adassp"]
    assert set(failed["status"]) == {"failed"}
    assert set(failed["message"]) == {"LinAlgError in adassp"}
    assert failed["value"].isna().all()
    assert len(failed) == 4
    assert set(rows[rows["estimator"] == "ols"]["status"]) == {"ok"}


def test_what_an_estimator_refuses_is_told(design):
    refused = replace(cell("adassp"), params={"covariate_bound": 3.0})
    rows = validate_results(compute_block(block(refused), design))
    assert set(rows["status"]) == {"refused"}
    assert "response_bound" in rows["message"][0]
    assert rows["value"].isna().all()


def test_an_answer_that_is_not_finite_is_a_failure(design, monkeypatch):
    estimate = dpalgos.estimate

    def infinite(*arguments, **keywords):
        result = estimate(*arguments, **keywords)
        return replace(result, estimate=result.estimate * np.inf)

    monkeypatch.setattr(dpalgos, "estimate", infinite)
    with np.errstate(invalid="ignore"):
        rows = validate_results(compute_block(block(cell("ols")), design))
    assert set(rows["status"]) == {"failed"}
    assert set(rows["message"]) == {"the estimate is not finite"}
