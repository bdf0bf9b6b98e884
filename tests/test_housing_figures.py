"""The figures that the housing study must show, computed afresh on the real file."""

import numpy as np
import pandas as pd
import pytest

from data.ingest import to_parquet
from data.raw_files import fetch, mirror_from_environment
from data.refs import read_table
from data.registry import get_dataset
from data.table_design import design
from flows.find_study import find_study
from tasks.run.block import compute_block
from tasks.run.deletion_influence import compute_limit

pytestmark = pytest.mark.real_data
SEED = 20191112


@pytest.fixture(scope="module")
def study():
    return find_study("housing")


@pytest.fixture(scope="module")
def designs(study, tmp_path_factory):
    dataset = get_dataset("housing")
    raw = fetch(dataset, home=tmp_path_factory.mktemp("home"), mirror=mirror_from_environment(), offline=True)
    table = read_table(to_parquet(dataset, raw, home=tmp_path_factory.mktemp("store")))
    return {
        panel.name: design(
            table,
            dataset,
            response=panel.problem.response,
            covariates=panel.problem.covariates,
            variant=panel.problem.prepare,
        )
        for panel in study.panels
    }


@pytest.fixture(scope="module")
def results(study, designs):
    wanted = ("preconditioned_regression", "adassp", "dp_linear_regression", "ols", "zero")
    tables = []
    for block in study.blocks("standard", replicates=30, seed=SEED):
        if block.panel == "public" and block.n in (2000, 5000, 10_000, 20_000):
            cells = tuple(
                cell for cell in block.cells if cell.estimator in wanted and cell.epsilon in (None, 0.5)
            )
            chosen = type(block)(**{**vars(block), "cells": cells})
            tables.append(compute_block(chosen, designs["public"]))
    rows = pd.concat(tables)
    assert (rows["status"] == "ok").all()
    return rows


def error(results, estimator, n, calibration="tight", rule="10/n^1.1", form="public", how="mean"):
    rows = results[(results["estimator"] == estimator) & (results["n"] == n) & (results["variant"] == form)]
    if estimator not in ("ols", "zero"):
        rows = rows[
            (rows["calibration"] == calibration) & rows["cell"].str.contains(f"delta={rule}:", regex=False)
        ]
    assert len(rows) == 30
    return getattr(rows["value"], how)()


@pytest.mark.parametrize(("n", "bound"), [(20_000, 0.125), (10_000, 0.15), (5_000, 0.18), (2_000, 0.22)])
def test_preconditioned_regression(results, n, bound):
    assert error(results, "preconditioned_regression", n) <= bound
    assert error(results, "ols", n) < error(results, "preconditioned_regression", n)


def test_preconditioned_regression_at_a_respectable_delta(results):
    assert error(results, "preconditioned_regression", 20_000, rule="1/n^2") < 0.2


def test_adassp_beats_gradient_descent(results):
    ours = error(results, "adassp", 20_000)
    assert ours <= 0.30
    for form in ("public", "public, residual-clipped"):
        assert ours < error(results, "dp_linear_regression", 20_000, form=form)
    assert ours < error(results, "dp_linear_regression", 20_000, calibration="paper")


def test_tight_noise_halves_the_error_of_the_printed(results):
    tight, paper = (
        error(results, "dp_linear_regression", 20_000, calibration, how="median")
        for calibration in ("tight", "paper")
    )
    assert tight <= 0.5 * paper


def test_certificates(results):
    private = results[results["calibration"] != "none"]
    tight = private[private["calibration"] == "tight"]
    assert (tight["certified_epsilon"] <= tight["epsilon"]).all()
    assert (tight["certified_epsilon"] >= 0.99 * tight["epsilon"]).all()
    assert np.isfinite(private["certified_epsilon"]).all()


def test_the_data_limit(study, designs):
    block = next(b for b in study.blocks("smoke", replicates=1, seed=0) if b.panel == "public")
    shifts = compute_limit(block, designs["public"], [1, 10])["value"]
    assert shifts.tolist() == pytest.approx([0.051, 0.114], rel=0.05)


def test_zero_is_as_far_as_the_target_is_long(results):
    assert error(results, "zero", 2000) == pytest.approx(1.156, abs=1e-3)
