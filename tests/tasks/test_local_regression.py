"""The study of local privacy: its problem brings public rows, measures two errors, and knows its rates."""

from tasks.run.block import compute_block
from tests.tasks.blocks import made_block, made_cell, made_problem

PROBLEM = {
    "kind": "local_regression",
    "model": "sign_regression",
    "d": 4,
    "s": 2,
    "settings": {"sparsity": "s"},
    "public_rows": 500,
}


def cell(estimator, **params):
    return made_cell(estimator, n=2000, panel="people", epsilon=4.0, delta=1e-6, **params)


def block(*cells, replicates=2):
    return made_block(made_problem(**PROBLEM), *cells, n=2000, replicates=replicates, panel="people", seed=1)


def test_public_rows_reach_the_estimator_and_two_errors_are_measured():
    bounds = {"covariate_bound": 1.0, "response_bound": 2.0}
    rows = compute_block(block(cell("ols"), cell("ldp_nldp_public", **bounds)))
    assert (rows["status"] == "ok").all()
    assert set(rows["metric"]) == {"l2_error", "sup_error"}
    wide = rows.pivot_table(index=["estimator", "replicate"], columns="metric", values="value")
    assert (wide["sup_error"] <= wide["l2_error"]).all()
    assert (wide["l2_error"] <= 2 * wide["sup_error"]).all()
    assert wide.loc["ols", "l2_error"].max() < 0.1 < wide.loc["ldp_nldp_public", "l2_error"].max() < 2
    private = rows[rows["estimator"] == "ldp_nldp_public"]
    assert set(private["privacy_model"]) == {"local"}
    assert ((private["certified_epsilon"] > 3.99) & (private["certified_epsilon"] <= 4)).all()
