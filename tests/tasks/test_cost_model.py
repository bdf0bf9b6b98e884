"""What blocks will take, from short runs of them."""

import json
from dataclasses import replace
from unittest.mock import Mock

import pandas as pd
import pytest

from flows.studies.find_study import find_study
from reports.analysis.results import timings_path, to_parquet_bytes
from tasks.run.cost_model import (
    BlockCost,
    PerReplicate,
    costs_of,
    earlier_seconds,
    memory_at_once,
    wall_seconds,
)
from tests.tasks.blocks import small_means


@pytest.fixture
def blocks(tmp_path):
    study = find_study(str(small_means(tmp_path)))
    blocks = study.blocks("standard", replicates=40, seed=0)
    return [block for block in blocks if block.replicates.panel == "low-dimensional"]


def test_seconds_follow_sizes_and_replicates_and_cells(blocks):
    costs = costs_of(blocks, lambda block: None, {})
    assert [cost.block for cost in costs] == blocks
    for cost in costs:
        assert set(cost.cells) == {cell.estimator for cell in cost.block.cells}
        assert cost.seconds > 0
        assert cost.n_bytes >= 0
    assert sum(c.drawing for c in costs if c.block.replicates.n == 20_000) > sum(
        c.drawing for c in costs if c.block.replicates.n == 200
    )


def test_times_of_earlier_runs_take_the_place_of_measured_ones(blocks, tmp_path):
    cells = [cell.key for cell in blocks[0].cells]
    times = pd.DataFrame(
        [{"study": "means", "cell": c, "replicate": r, "seconds": 7.0} for c in cells for r in range(3)]
    )
    timings_path(tmp_path / "block-1.parquet").write_bytes(to_parquet_bytes(times))
    earlier = earlier_seconds(tmp_path, "means")
    assert earlier == dict.fromkeys(cells, 7.0)
    assert earlier_seconds(tmp_path, "other") == {}
    found = costs_of([block for block in blocks if block.replicates.n == 200], lambda block: None, earlier)
    replicates = sum(cost.block.replicates.count for cost in found)
    assert sum(cost.cells["dp_mean"] for cost in found) == pytest.approx(4 * 7 * replicates, rel=0.05)


def test_an_answer_that_cells_share_is_counted_once(blocks, monkeypatch):
    now = 0.0

    def compute(block, prepared, timings):
        """Take a second for a replicate's data and two for each answer; cells report those of theirs."""
        nonlocal now
        replicates = range(block.replicates.count)
        now += len(replicates) * (1 + 2 * len({cell.question for cell in block.cells}))
        cells = [{"cell": cell.key, "seconds": 2.0} for cell in block.cells for _ in replicates]
        timings.append(pd.DataFrame(cells))

    clocks = Mock(process_time=lambda: now, perf_counter=lambda: now)
    monkeypatch.setattr("tasks.run.cost_model.time", clocks)
    monkeypatch.setattr("tasks.run.cost_model.compute_block", compute)
    alone, other = blocks[0].cells[:2]
    sharing = replace(blocks[0], cells=(*(replace(alone, s=s) for s in (1, 2, 3)), other))
    (cost,) = costs_of([sharing], lambda block: None, {})
    replicates = sharing.replicates.count
    assert cost.drawing == pytest.approx(replicates)
    assert sum(cost.cells.values()) == pytest.approx(2 * 2 * replicates)


def test_workers_share_the_blocks_the_longest_first(blocks):
    def cost(seconds, n_bytes):
        return BlockCost(block=blocks[0], cells={"a": seconds}, drawing=1.0, n_bytes=n_bytes)

    costs = [cost(1, 10), cost(5, 30), cost(2, 20), cost(2, 20)]
    assert wall_seconds(costs, 1) == 14
    assert wall_seconds(costs, 2) == 8
    assert memory_at_once(costs, 2) == 50
    assert PerReplicate(once=2.0, each=3.0).of(4) == 14


def test_a_plan_from_the_command_line(tmp_path, command_line):
    study = small_means(tmp_path)

    def call(*words):
        return command_line("plan", study, *words)

    status, out, err = call("--profile", "smoke", "--workers", "2", "--json")
    assert status == 0, err
    found = json.loads(out)
    assert found["seconds"] <= found["core_seconds"]
    assert set(found["panels"][0]["estimators"]) >= {"sample_mean", "dp_mean"}
    status, out, _ = call("--profile", "smoke")
    assert "means at profile smoke: " in out
    assert "dp_mean" in out
    status, _, err = call("--profile", "smokey")
    assert status == 2
    assert "did you mean 'smoke'?" in err
