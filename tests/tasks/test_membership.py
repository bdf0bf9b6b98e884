"""Studies of attacks: from a file to rows and a report; the figures that were promised."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from data.prepare.genotype_groups import TracedGroup
from flows.studies.find_study import find_study
from reports.results import TRUE_POSITIVE_RATES
from tasks.report.attack_facts import attack_facts
from tasks.run.block import compute_block
from tests.tasks.blocks import made_problem

PLAIN = "sample_mean:gaussian 2000:n=40"
PRIVATE = "clipped_mean:gaussian 2000:tight:eps=0.5:delta=1/n^2:n=40"


@pytest.fixture(scope="module")
def study():
    """The study of attacks with four of its panels, 40 members and few columns."""
    spec = find_study("tracing_attack")
    of_panels = {"gaussian 2000": 400, "sparse": "2*n", "regression": "n/4", "logistic": 4}
    panels = []
    for panel in map(spec.panel, of_panels):
        problem = panel.problem.model_copy(update={"d": of_panels[panel.name]})
        panels.append(panel.model_copy(update={"problem": problem, "grid": None}))
    grid = spec.grid.model_copy(update={"n": (40,), "epsilon": (0.5, 8.0)})
    headline = spec.headline.model_copy(update={"n": 40})
    return spec.model_copy(update={"panels": tuple(panels), "grid": grid, "headline": headline})


def test_rates_are_told_where_enough_non_members_lie_above_a_threshold(study):
    for block in study.blocks("standard", replicates=6, seed=3):
        rows = compute_block(block)
        assert rows.loc[rows["metric"].str.startswith(("tpr", "auc")), "value"].between(0, 1).all()
        # 240 non-members: ten of them lie above a threshold from a rate of .042 on.
        resolved = {TRUE_POSITIVE_RATES[metric] for metric in rows["metric"] if metric in TRUE_POSITIVE_RATES}
        assert resolved == {0.05, 0.1, 0.2, 0.5}


def test_members_are_who_the_estimator_saw_and_others_are_not(study):
    block = study.blocks("standard", replicates=2, seed=3)[0]
    draws = list(block.problem.draws(block.replicates, None))
    for draw in draws:
        assert (draw.X[draw.inside[:, 0]] == draw.sample.X).all()
        assert (draw.inside ^ draw.outside).all()
        assert not set(map(tuple, draw.X[draw.outside[:, 0]])) & set(map(tuple, draw.sample.X))
    assert not np.array_equal(draws[0].truth, draws[1].truth)


def test_a_group_is_traced_through_its_own_frequencies():
    rng = np.random.default_rng(1)
    frequency = rng.uniform(0.05, 0.95, 600)
    X = rng.binomial(2, frequency, (101, 600)) - 1.0
    group = TracedGroup(X=X, panel_mean=2 * frequency - 1)
    assert group.panel_std == pytest.approx(np.sqrt(2 * frequency * (1 - frequency)))
    problem = made_problem("group_tracing", dataset="snp_hapmap3", n_snps=600, truth="same_population")
    study = find_study("tracing_attack")
    block = next(b for b in study.blocks("smoke", replicates=4, seed=0) if b.replicates.panel == "genotypes")
    rows = compute_block(replace(block, problem=problem), group)
    auc = rows[rows["metric"] == "auc"].groupby("calibration")["value"].mean()
    assert auc["none"] > 0.95
    assert auc["tight"] < 0.7


def test_a_certificate_that_an_attack_contradicts_is_named(study):
    rows = pd.concat([compute_block(block) for block in study.blocks("standard", replicates=6, seed=1)])
    assert attack_facts(study, rows).exceeding == ()
    # A release without noise that claims ε = .5: the sample mean's scores under the private cell's name.
    bold = rows[rows["cell"] == PLAIN].set_index(["metric", "replicate"])["value"]
    private = rows["cell"] == PRIVATE
    places = rows.loc[private, ["metric", "replicate"]].itertuples(index=False, name=None)
    rows.loc[private, "value"] = [bold[place] for place in places]
    found = attack_facts(study, rows).exceeding
    assert {cell for cell, _ in found} == {PRIVATE}
    assert {"auc", "tpr_at_fpr_1"} <= {metric for _, metric in found}
