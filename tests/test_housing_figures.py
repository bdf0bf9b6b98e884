"""The figures that the housing study must show, computed afresh on the real file."""

import pandas as pd
import pytest

from flows.studies.find_study import find_study
from tasks.run.block import compute_block
from tasks.run.tables import fetch, parquet
from tests.tasks.blocks import prepared_data

SEED = 20191112
REPLICATES = 30


@pytest.fixture(scope="module")
def study():
    return find_study("housing")


@pytest.fixture(scope="module")
def prepared(study, tmp_path_factory):
    problem = next(panel.problem for panel in study.panels if panel.name == "public")
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPCOST_HOME", str(home))
        return prepared_data(problem, parquet(fetch("housing", offline=True)), home)


@pytest.fixture(scope="module")
def results(study, prepared):
    wanted = ("preconditioned_regression", "adassp", "dp_linear_regression", "ols", "zero")
    tables = []
    for block in study.blocks("standard", replicates=REPLICATES, seed=SEED):
        if block.replicates.panel == "public" and block.replicates.n in (2000, 5000, 10_000, 20_000):
            cells = tuple(
                cell for cell in block.cells if cell.estimator in wanted and cell.epsilon in (None, 0.5)
            )
            chosen = type(block)(**{**vars(block), "cells": cells})
            tables.append(compute_block(chosen, prepared))
    rows = pd.concat(tables)
    rows = rows[rows["metric"] == "l2_error"]
    assert (rows["status"] == "ok").all()
    return rows


def error(results, estimator, n, calibration="tight", rule="10/n^1.1", form="", how="mean"):
    rows = results[(results["estimator"] == estimator) & (results["n"] == n)]
    rows = rows[(rows["panel"] == "public") & (rows["form"] == form)]
    if estimator not in ("ols", "zero"):
        rows = rows[(rows["calibration"] == calibration) & (rows["delta_rule"] == rule)]
    assert len(rows) == REPLICATES
    return getattr(rows["value"], how)()


@pytest.mark.parametrize(("n", "bound"), [(20_000, 0.115), (10_000, 0.135), (5_000, 0.155), (2_000, 0.215)])
def test_errors_of_preconditioned_regression_stay_below_the_published(results, n, bound):
    assert error(results, "preconditioned_regression", n) <= bound
    assert error(results, "ols", n) < error(results, "preconditioned_regression", n)


def test_tight_noise_halves_the_error_of_the_printed(results):
    tight, paper = (
        error(results, "dp_linear_regression", 20_000, calibration, how="median")
        for calibration in ("tight", "paper")
    )
    assert tight <= 0.5 * paper
