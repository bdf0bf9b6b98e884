"""Somebody else's tables: folds, the benchmark's preparation, printed errors, a panel per table."""

import numpy as np
import pytest

from data.collections import wang2018
from flows.studies.find_study import find_study
from tasks.problems.measures.prediction import OVER_PRINTED, SQUARED_ERROR
from tasks.run.block import compute_block
from tasks.run.tables import fetch, parquet
from tests.tasks.blocks import made_block, made_cell

ROWS, D = 57, 3
README = "| table | best printed private, ε = 1 |\n|---|---|\n| `rivers` | 0.25 |\n"


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Return the study where a further table lies in the mirror's folder."""
    monkeypatch.setenv("DPCOST_DATA_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.setenv("DPCOST_HOME", str(tmp_path / "home"))
    folder = tmp_path / "mirror" / "wang2018"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(5, 2, (ROWS, D - 1)), np.ones(ROWS)])
    np.savez(folder / "rivers.npz", X=X, y=3 * X[:, 0] + rng.normal(size=ROWS))
    (folder / "README.md").write_text(README)
    return find_study("wang_tables")


def prepared(problem, tmp_path):
    content, suffix = problem.prepare(parquet(fetch(problem.source, offline=True))), problem.file_type
    path = tmp_path / f"design{suffix}"
    path.write_bytes(content)
    return problem.load(path)


def test_a_table_in_the_folder_is_a_panel_and_nothing_stands_in_for_any_but_the_headline(study):
    assert len(study.panels) == len(wang2018.tables()) == 9
    panel = study.panel("rivers")
    assert study.grid_of(panel).n == (52,)
    assert panel.problem.printed == {1.0: 0.25}
    assert [each.name for each in study.panels if not each.real_data] == [study.headline.panel]
    assert study.panel(study.headline.panel).problem.printed == {}


def test_ten_folds_leave_out_each_row_at_most_once_and_are_dealt_anew(study, tmp_path):
    problem = study.panel("rivers").problem
    table = prepared(problem, tmp_path)
    block = made_block(
        problem, made_cell("ols", n=52, panel="rivers"), n=52, replicates=20, study="wang_tables"
    )
    (draw,) = problem.draws(block.replicates, table)
    left_out = ~draw.sample.row_mask
    assert (left_out.sum(axis=0) == 5).all()
    for first in (0, 10):
        assert left_out[:, first : first + 10].sum(axis=1).max() == 1
    assert not np.array_equal(left_out[:, 0], left_out[:, 10])
    with pytest.raises(ValueError, match=r"grid\.n must"):
        problem.check_data(40)


def test_the_data_prepare_themselves_as_the_paper_says(study, tmp_path):
    table = prepared(study.panel("rivers").problem, tmp_path)
    np.testing.assert_allclose(np.linalg.norm(table.X, axis=1), np.sqrt(D))
    assert not table.X[:, -1].any()  # a constant column says nothing
    assert table.y.mean() == pytest.approx(0, abs=1e-12)
    assert np.abs(table.y).max() == 1


def test_errors_are_divided_by_the_printed_one_of_the_same_epsilon(study, tmp_path):
    problem = study.panel("rivers").problem
    (block,) = (b for b in study.blocks("standard", replicates=10, seed=1) if b.replicates.panel == "rivers")
    rows = compute_block(block, prepared(problem, tmp_path))
    assert set(rows["status"]) == {"ok"}
    wide = rows.pivot_table(index=["cell", "replicate"], columns="metric", values="value")
    ratio = wide[OVER_PRINTED]
    at_one = ratio.index.get_level_values("cell").str.contains("eps=1:")
    assert ratio[~at_one].isna().all()
    np.testing.assert_allclose(ratio[at_one], wide[SQUARED_ERROR][at_one] / 0.25)
    np.testing.assert_array_equal(rows.loc[rows["epsilon"].notna(), "certified_epsilon"], np.inf)

    zero = rows[(rows["estimator"] == "zero") & (rows["metric"] == SQUARED_ERROR)]["value"]
    (draw,) = problem.draws(block.replicates, prepared(problem, tmp_path))
    y = draw.sample.response()
    by_hand = [np.mean(y[out] ** 2) for out in ~draw.sample.row_mask.T]
    np.testing.assert_allclose(zero, by_hand)
