"""Regressions judged by their coefficients and by rows left out: what is measured, and what is refused."""

import numpy as np
import pytest

import dpalgos
from data.prepare.table_design import PreparedTable
from tasks.problems.measures.estimation import EXCESS_RISK
from tests.tasks.blocks import made_answer, made_block, made_cell, made_problem, measured_of

COVARIATES = ("median_income", "population")
PROBLEM = made_problem(
    "held_out_regression",
    dataset="housing",
    response="median_house_value",
    covariates=COVARIATES,
    units="public",
)
OLS = made_cell("ols", n=200, panel="houses")


def drawn(n=300, replicates=4):
    rng = np.random.default_rng(0)
    X = np.column_stack([2 * rng.standard_normal((n, 2)), np.ones(n)])
    table = PreparedTable(
        X=X,
        y=X @ [1.0, -0.5, 0.3] + rng.standard_normal(n),
        column_names=(*COVARIATES, "intercept"),
        to_standard=np.array([[2.0, 0, 0], [0, 2.0, 0]]),
        groups=None,
    )
    block = made_block(
        PROBLEM, OLS, n=200, replicates=replicates, study="regressions", panel="houses", seed=3
    )
    (draw,) = PROBLEM.draws(block.replicates, table)
    return table, draw


def test_the_excess_risk_of_least_squares_is_zero_and_that_of_others_by_hand():
    table, draw = drawn()
    fit = dpalgos.estimate("ols", draw.sample, rng=np.random.default_rng(0), replicates=4).estimate
    measured = measured_of(PROBLEM, draw, made_answer(fit))
    assert np.abs(measured[EXCESS_RISK]).max() < 1e-12
    target = table.to_standard @ np.linalg.lstsq(table.X, table.y, rcond=None)[0]
    by_hand = np.linalg.norm(table.to_standard @ fit - target[:, None], axis=0)
    np.testing.assert_allclose(measured["l2_error"], by_hand)

    zero = measured_of(PROBLEM, draw, made_answer(np.zeros((3, 4))))
    left_out = ~draw.sample.row_mask[:, 1]
    X, y = table.X[left_out], table.y[left_out]
    assert left_out.sum() == 100
    assert zero[EXCESS_RISK][1] == pytest.approx(np.mean(y**2) - np.mean((y - X @ fit[:, 1]) ** 2))
    np.testing.assert_allclose(zero["l2_error"], np.linalg.norm(target))
