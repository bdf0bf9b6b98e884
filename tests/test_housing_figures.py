"""The housing study: numbers of a seed again, and the figures that it must show on the real file."""

import tomllib
from pathlib import Path

import pytest

from flows.studies.find_study import find_study
from tasks.run.compute import compute_block
from tasks.run.datasets import fetch, parquet
from tests.tasks.blocks import prepared_data

SEED = 20191112


PUBLISHED = tomllib.loads(Path(__file__).with_name("housing_figures.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def blocks():
    study = find_study("housing")
    of_paper = study.grid.model_copy(update={"delta": (study.headline.paper_delta,)})
    return study.model_copy(update={"grid": of_paper}).blocks("smoke", replicates=3, seed=SEED)


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


def test_error_of_own_estimator_with_many_rows(home):
    """At n = 20,000, far rows along narrow directions stay in the estimate (version 2.1: 0.09 to 0.13)."""
    study = find_study("housing").without({"chronic conditions"})
    grid = study.grid.model_copy(update={"n": (20000,), "epsilon": (0.5, 2.0), "delta": ("1/n^2",)})
    own = tuple(one for one in study.estimators if one.name == "preconditioned_regression")
    small = study.model_copy(update={"grid": grid, "estimators": own})
    blocks = small.blocks("standard", replicates=8, seed=1)
    table, errors = parquet(fetch("housing", offline=True)), {}
    for block in blocks:
        rows = compute_block(block, prepared_data(block.problem, table, home))
        rows = rows[rows["metric"].eq("l2_error") & rows["estimator"].eq("preconditioned_regression")]
        errors |= rows.groupby("cell")["value"].mean()
    many = {cell: error for cell, error in errors.items() if cell.endswith("n=20000")}
    assert len(many) >= 3
    assert max(many.values()) < 0.15, many
