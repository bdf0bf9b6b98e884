"""The housing study: published numbers again, and the figures that it must show on the real file."""

import hashlib
import tomllib
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from flows.studies.find_study import find_study
from tasks.cells import derive_seed
from tasks.run.compute import compute_block
from tasks.run.datasets import fetch, parquet
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
def errors(study, prepared):
    """Mean and median errors at ε = 0.5 by estimator, calibration and number of rows."""
    wanted = ("preconditioned_regression", "adassp", "dp_linear_regression", "ols", "zero")
    tables = []
    for block in study.blocks("standard", replicates=REPLICATES, seed=SEED):
        if block.replicates.panel == "public" and block.replicates.n in (2000, 5000, 10_000, 20_000):
            cells = [cell for cell in block.cells if cell.estimator in wanted and cell.epsilon in (None, 0.5)]
            tables.append(compute_block(replace(block, cells=tuple(cells)), prepared))
    rows = pd.concat(tables).query("metric == 'l2_error'")
    assert (rows["status"] == "ok").all()
    rows = rows[rows["delta_rule"].isin(["", "10/n^1.1"]) & rows["form"].eq("")]
    by_cell = rows.groupby(["estimator", "calibration", "n"])["value"]
    assert (by_cell.count() == REPLICATES).all()
    return by_cell.agg(["mean", "median"])


@pytest.mark.parametrize(("n", "bound"), [(20_000, 0.115), (10_000, 0.135), (5_000, 0.155), (2_000, 0.215)])
def test_errors_of_preconditioned_regression_stay_below_the_published(errors, n, bound):
    private = errors["mean"]["preconditioned_regression", "tight", n]
    assert errors["mean"]["ols", "none", n] < private <= bound


def test_tight_noise_halves_the_error_of_the_printed(errors):
    of_size = errors["median"]["dp_linear_regression", :, 20_000]
    assert of_size["tight"] <= 0.5 * of_size["paper"]


PUBLISHED = tomllib.loads(Path(__file__).with_name("housing_figures.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def blocks():
    study = find_study("housing")
    of_paper = study.grid.model_copy(update={"delta": (study.headline.paper_delta,)})
    return study.model_copy(update={"grid": of_paper}).blocks("smoke", replicates=3, seed=SEED)


def test_cells_and_seeds(blocks):
    keys = [cell.key for block in blocks for cell in block.cells for _ in range(3)]
    lines = [f"{key} {derive_seed(SEED, 'housing', key)} {k % 3}" for k, key in enumerate(keys)]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    assert digest == "086ea6f6ceee17c6ce9295766e25b7a35383878fe0d299869718020d23219f6f"


def test_numbers(blocks, home):
    table = parquet(fetch("housing", offline=True))
    found = {}
    for block in blocks:
        if block.replicates.n != 100:
            continue
        rows = compute_block(block, prepared_data(block.problem, table, home))
        for cell in set(rows["cell"]) & set(PUBLISHED):
            found[cell] = rows.loc[rows["cell"].eq(cell) & rows["metric"].eq("l2_error"), "value"].tolist()
    assert found.keys() == PUBLISHED.keys()
    for cell, values in PUBLISHED.items():
        assert found[cell] == pytest.approx(values, rel=1e-9)
