"""Regressions judged by their coefficients and by rows left out: what is measured, and what is refused."""

import numpy as np
import pandas as pd
import pytest

import dpalgos
from data.prepare.table_design import PreparedTable
from reports.exhibits import performance_profile as exhibit
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


class Page:
    estimators = tuple(dpalgos.get_estimator(name) for name in ("adassp", "sheffet_ols"))
    data_source = "real"

    def estimator(self, name):
        return dpalgos.get_estimator(name)


def test_the_profile_tells_how_often_each_is_best_and_by_what_factor_it_errs():
    errors = {  # panel, ε → AdaSSP, AdaSSP in a form, sketches
        ("houses", 0.5): (1.0, 2.0, 4.0),
        ("houses", 1.0): (1.0, 2.0, 0.5),
        ("visits", 0.5): (1e-9, 2.0, -1.0),
    }
    solvers = (("adassp", ""), ("adassp", "rounds"), ("sheffet_ols", ""))
    rows = [
        {"estimator": name, "form": form, "panel": panel, "epsilon": epsilon, "mean": mean}
        for (panel, epsilon), means in errors.items()
        for (name, form), mean in zip(solvers, means, strict=True)
    ]
    zeros = [
        {"estimator": "zero", "form": "", "panel": panel, "epsilon": np.nan, "mean": 1000.0}
        for panel in ("houses", "visits")
    ]
    summary = pd.DataFrame(rows + zeros).assign(n=100, metric=EXCESS_RISK)
    summary["calibration"] = summary["epsilon"].map(lambda asked: "none" if np.isnan(asked) else "tight")
    view = type("View", (), {"page": Page()})
    (shown,) = exhibit.draw(view, summary, {"l2_error": "error", EXCESS_RISK: "excess risk"})
    # Below 1, a thousandth of the zero vector's, all excess risks count as 1.
    assert "in 3 settings" in shown.text
    assert "best in 3 of them" in shown.text
    assert "AdaSSP 1.00, Sketched least squares 1.59, AdaSSP (rounds) 2.00." in shown.text
    assert b"AdaSSP (rounds)" in shown.picture.svg
