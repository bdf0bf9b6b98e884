"""Differences of two groups: recall, and the map of one release."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dpalgos
from data.prepare.genotype_groups import GroupDifference
from flows.studies.find_study import find_study
from tasks.problems.measures.estimation import right_signs, support_recall
from tasks.problems.problem import Draw, HeadlineRun
from tasks.problems.sources.genotypes import groups_bytes
from tasks.run.block import compute_block

SPEC = find_study("snp")


def prepared(n_snps, sizes=(30, 25)):
    rng = np.random.default_rng(4)
    first = rng.binomial(2, np.where(np.arange(n_snps) < 5, 0.9, 0.5), (sizes[0], n_snps))
    second = rng.binomial(2, 0.5, (sizes[1], n_snps))
    snps = {"name": [f"rs{j}" for j in range(n_snps)], "chromosome": [str(1 + j % 3) for j in range(n_snps)]}
    return GroupDifference(
        X=np.concatenate([2.0 * (first - 1), -2.0 * (second - 1)]),
        sizes=sizes,
        target=first.mean(axis=0) - second.mean(axis=0),
        snps=pd.DataFrame({**snps, "position": range(n_snps), "allele_1": "A", "allele_2": "C"}),
        panel=2.0 * (rng.binomial(2, 0.5, (6, n_snps)) - 1),
        panel_labels=np.arange(6) % 2,
    )


@pytest.fixture
def block():
    panel = SPEC.head_panel.model_copy(
        update={
            "problem": SPEC.head_panel.problem.model_copy(update={"n_snps": 40, "s": 5}),
            "grid": SPEC.grid.model_copy(update={"n": (10,), "delta": ("1/n^2",)}),
        }
    )
    small = SPEC.model_copy(update={"panels": (panel,)})
    (found,) = small.blocks("standard", replicates=3, seed=7)
    return found


def test_recall_counts_true_hits_among_the_largest():
    target = np.array([3.0, -2.0, 0.5, 0.1])
    coef = np.array([[1.0, 0.0, -9.0], [0.5, 0.0, 8.0], [0.7, 0.0, 0.0], [0.0, 1.0, 0.0]])
    draw = Draw(sample=dpalgos.Sample(np.zeros((2, 4)), n_replicates=3), first=0, target=target, s=2)
    assert support_recall(draw, coef).tolist() == [0.5, 0.0, 1.0]


def test_right_signs_are_counted_and_zeros_are_none():
    draw = Draw(sample=dpalgos.Sample(np.zeros((2, 3))), first=0, target=np.array([1.0, -2.0, 0.5]))
    assert right_signs(draw, np.array([3.0, 1.0, 0.0])).tolist() == [1]
    halved = replace(draw, to_target=np.diag([1.0, -0.5, 1.0]))
    assert right_signs(halved, np.array([3.0, 1.0, 0.0])).tolist() == [2]


def test_public_rows_are_the_panel_as_members_of_either_group(tmp_path):
    (tmp_path / "design.npz").write_bytes(groups_bytes(prepared(40)))
    design = SPEC.head_panel.problem.load(tmp_path / "design.npz")
    assert design.public_rows.shape == (12, 40)
    np.testing.assert_array_equal(design.public_rows[:6], prepared(40).panel)
    np.testing.assert_array_equal(design.public_rows[6:], -design.public_rows[:6])
    assert len(set(design.public_groups)) == 4


def mapped(block, design, folder):
    (folder / "design.npz").write_bytes(groups_bytes(design))
    run = HeadlineRun(
        table=None, design=folder / "design.npz", replicates=block.replicates, cells=block.cells, selected={}
    )
    (content,) = json.loads(json.dumps(block.problem.exhibits(run))).values()
    return SimpleNamespace(**content)


def test_the_map_shows_the_very_release_of_the_first_repetition(block, tmp_path):
    design = prepared(40)
    genome = mapped(block, design, tmp_path)
    assert genome.truth == pytest.approx(design.target, abs=1e-6)
    rows = compute_block(block, design)
    first = rows[(rows["replicate"] == 0) & (rows["metric"] == "l2_error")].set_index("cell")["value"]
    assert set(first.index) == set(genome.estimates)
    for cell, estimate in genome.estimates.items():
        assert np.linalg.norm(np.array(estimate) - design.target) == pytest.approx(first[cell], abs=1e-4)
