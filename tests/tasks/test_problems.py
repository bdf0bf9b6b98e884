"""Simulated data: fresh for each replicate, the same for all cells, however the replicates are split."""

import numpy as np
import pytest

import dpalgos
from data.simulations import simulator
from flows.studies.find_study import find_study, study_names
from reports.results import validate_results
from tasks.cells import derive_seed
from tasks.problems.problem import DatasetSource
from tasks.run.block import compute_block
from tests.tasks.blocks import made_block, made_cell, made_problem

MEAN = made_problem("simulation", model="gaussian_mean", d="n/10", s=3, settings={"sparsity": "s"})
PLAIN = made_cell("sparse_sample_mean", n=50, panel="sparse", sparsity=3)
PRIVATE = made_cell("dp_sparse_mean", n=50, panel="sparse", sparsity=3, value_bound=12.0)
BLOCK = made_block(MEAN, PLAIN, PRIVATE, n=50, replicates=4, panel="sparse")


def rows_of(block, **options):
    rows = validate_results(compute_block(block, **options))
    return rows.sort_values(["cell", "replicate"], ignore_index=True)


def test_a_replicate_depends_on_its_own_generators_only():
    rows = rows_of(BLOCK).query("cell == @PRIVATE.key")
    data_rng = np.random.default_rng(derive_seed(7, "mine", "data", "sparse", 50)).spawn(4)[2]
    data = simulator("gaussian_mean")(data_rng, 50, 5, sparsity=3)
    rng = np.random.default_rng(derive_seed(7, "mine", PRIVATE.key)).spawn(4)[2]
    result = dpalgos.estimate("dp_sparse_mean", data.X, rng=rng, **PRIVATE.keywords())
    assert np.linalg.norm(result.estimate - data.truth) == pytest.approx(rows["value"].iloc[2], rel=1e-12)


def test_one_failing_replicate_leaves_the_others(monkeypatch):
    estimate, calls = dpalgos.estimate, []

    def fails(*arguments, **keywords):
        calls.append(arguments)
        if len(calls) == 1:
            raise ZeroDivisionError
        return estimate(*arguments, **keywords)

    monkeypatch.setattr(dpalgos, "estimate", fails)
    rows = rows_of(BLOCK)
    assert (rows["status"] == "failed").sum() == 1
    assert rows["value"].isna().sum() == 1


@pytest.mark.parametrize("name", study_names())
def test_every_study_loads_and_expands(name):
    study = find_study(name)
    for profile in ("smoke", "standard", "paper"):
        replicates = study.replicates[profile]
        blocks = study.blocks(profile, replicates=replicates, seed=1)
        assert len({block.key for block in blocks}) == len(blocks)
        assert {block.problem == study.panel(block.replicates.panel).problem for block in blocks} == {True}
        read = {block.problem.source for block in blocks if isinstance(block.problem, DatasetSource)}
        assert set(study.datasets_at(profile)) == read, (
            "a run brings the datasets of its blocks and no others"
        )
        assert all(study.stand_in_rows(dataset, profile) != 0 for dataset in read)
        counted = {}
        for block in blocks:
            for cell in block.cells:
                counted.setdefault(cell.key, []).extend(block.replicates.numbers)
        assert all(found == [*range(replicates)] for found in counted.values())
        assert study.headline_cells(blocks)
