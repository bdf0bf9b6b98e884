"""What holds for every kind of problem: blocks are valid tables, decided by their cells and seeds."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from data.prepare.genotype_groups import GroupDifference, TracedGroup
from data.prepare.table_design import PreparedTable
from reports.analysis.results import validate_results
from tasks.problems.grid_users import GriddedTable
from tasks.problems.kinds import kinds
from tasks.problems.problem import Draw, ReadsTable
from tasks.run.block import compute_block
from tests.tasks.blocks import made_block, made_cell

RNG = np.random.default_rng(3)
X = np.column_stack([RNG.normal(size=(120, 2)), np.ones(120)])
TABLE = PreparedTable(
    X=X,
    y=X @ [1.0, -0.5, 0.1] + 0.1 * RNG.normal(size=120),
    column_names=("households", "population", "intercept"),
    to_standard=np.eye(2, 3),
)
CALLS = 2.0 * RNG.integers(-1, 2, (17, 6))
GROUPS = GroupDifference(
    X=CALLS,
    sizes=(9, 8),
    target=CALLS[:9].mean(axis=0) / 2 + CALLS[9:].mean(axis=0) / 2,
    snps=pd.DataFrame({"snp": list("abcdef")}),
)
TRACED = TracedGroup(X=RNG.integers(-1, 2, (41, 6)).astype(float), panel_mean=np.zeros(6))

HOUSING = {"dataset": "housing", "response": "median_house_value", "units": "public"}
HOUSING["covariates"] = ("households", "population")
PEOPLE = {"model": "sign_regression", "d": 3, "s": 2, "settings": {"sparsity": "s"}, "public_rows": 500}
USERS = {"users": 600, "samples": 25, "d": 2}
SNPS = {"dataset": "snp_hapmap3", "n_snps": 6}

OLS = {"ols": {}, "adassp": {"covariate_bound": 3.0, "response_bound": 2.0}}
MEANS = {"sample_mean": {}, "clipped_mean": {"center": 0.0, "clip_norm": 3.0}}
LOCAL = {"ols": {}, "ldp_nldp_public": {"covariate_bound": 1.0, "response_bound": 2.0}}
OF_USERS = {"user_level_mean": {"value_bound": 10.0, "concentration_radius": 2.0}}
STEPS = {"radius": 2.0, "n_iterations": 2, "step_size": 0.5, "aggregation": "clipped"}
FIT_OF_USERS = {"loss": "squared", "gradient_bound": 4.0, "concentration_radius": 1.0, **STEPS}
CHOICE = {"candidates": 5, "loss": "squared", "loss_bound": 1.0, "concentration_radius": 1.0}

# Kind → its settings, n, estimators with their keywords, and prepared data where it reads a table.
CASES = {
    "simulation": ({"model": "gaussian_mean", "d": "n/10"}, 50, MEANS, None),
    "interval_simulation": ({"model": "shaped_regression", "d": 3}, 400, OLS, None),
    "local_regression": (PEOPLE, 800, LOCAL, None),
    "interval_reports": (PEOPLE, 800, LOCAL, None),
    "user_simulation": (USERS, 5, OF_USERS, None),
    "interval_users": (USERS, 5, OF_USERS, None),
    "user_regression_simulation": ({**USERS, "coef": 0.5}, 3, {"user_level_regression": FIT_OF_USERS}, None),
    "interval_user_regression": ({**USERS, "coef": 0.5}, 3, {"ols": {}}, None),
    "user_selection": ({"users": 600, "candidates": 5}, 8, {"user_level_selection": CHOICE}, None),
    "tracing": ({"attack": "mean", "model": "gaussian_mean", "d": 40}, 20, MEANS, None),
    "subsamples": (HOUSING, 40, OLS, TABLE),
    "held_out_regression": (HOUSING, 40, OLS, TABLE),
    "train_test_split": (HOUSING, 40, OLS, TABLE),
    "interval_resamples": (HOUSING, 60, OLS, TABLE),
    "grid_users": (
        {**HOUSING, "degrees": 1.0, "least_rows": 30},
        20,
        {"ols": {}},
        GriddedTable(TABLE, np.arange(120) // 40),
    ),
    "group_differences": ({**SNPS, "s": 2, "selection": "public_panel", "unit": "pair"}, 5, MEANS, GROUPS),
    "group_tracing": ({**SNPS, "truth": "public_panel"}, 15, MEANS, TRACED),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    """A small block of a kind, its prepared data, and its rows."""
    settings, n, estimators, prepared = CASES[request.param]
    intervals = {"interval": 0.95} if request.param.startswith("interval_") else {}
    cells = [made_cell(name, n=n, **keywords, **intervals) for name, keywords in estimators.items()]
    problem = kinds()[request.param](kind=request.param, **settings)
    block = made_block(problem, *cells, n=n, replicates=4)
    return block, prepared, compute_block(block, prepared)


def ordered(rows):
    return rows.sort_values(["cell", "metric", "replicate"], ignore_index=True)


def test_every_kind_is_tested_here():
    assert set(CASES) == set(kinds())


def test_a_block_is_a_valid_table_with_a_row_for_each_cell_metric_and_replicate(case):
    block, _, rows = case
    validate_results(rows)
    assert set(rows["status"]) == {"ok"}, rows["message"].unique()
    assert list(rows["cell"].unique()) == [cell.key for cell in block.cells]
    assert block.problem.metric in set(rows["metric"])
    counts = rows.groupby(["cell", "metric"])["replicate"].agg(["count", "nunique"])
    assert (counts == 4).all(axis=None)
    headline = rows[rows["metric"] == block.problem.metric]
    assert headline.groupby("cell")["value"].nunique().min() > 1
    assert (rows["certified_epsilon"].dropna() <= 1.0).all()
    assert set(rows["d"]) == {block.problem.sizes(block.replicates.n)["d"]}
    assert set(rows["data_source"]) == {"real" if isinstance(block.problem, ReadsTable) else "simulated"}


def test_the_same_block_has_the_same_rows_and_so_has_each_cell_alone(case):
    block, prepared, rows = case
    pd.testing.assert_frame_equal(compute_block(block, prepared), rows)
    last = block.cells[-1].key
    alone = compute_block(block, prepared, only=last)
    pd.testing.assert_frame_equal(alone, rows[rows["cell"] == last].reset_index(drop=True))


def test_replicates_in_parts_are_those_of_the_whole(case):
    block, prepared, rows = case
    if block.problem.in_one_block:
        pytest.skip("its replicates are never divided")
    drawn = block.replicates
    parts = [replace(drawn, first=first, count=count) for first, count in ((0, 1), (1, 3))]
    divided = [compute_block(replace(block, replicates=part), prepared) for part in parts]
    pd.testing.assert_frame_equal(ordered(pd.concat(divided)), ordered(rows))


def test_all_cells_get_the_same_data_and_replicates_others(case, monkeypatch):
    block, prepared, _ = case
    seen, answer = {}, Draw.answer

    def watched(draw, cell, replicates):
        sample, mask = draw.sample, draw.sample.row_mask
        content = mask if mask is not None else np.asarray(sample.X)
        seen.setdefault(cell.key, []).append(content.tobytes())
        return answer(draw, cell, replicates)

    monkeypatch.setattr(Draw, "answer", watched)
    compute_block(block, prepared)
    first, *others = seen.values()
    assert all(other == first for other in others)
    assert len(set(first)) == len(first)


def test_a_block_is_described_by_plain_data(case):
    plain = case[0].described()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["problem"]["kind"] == case[0].problem.kind
