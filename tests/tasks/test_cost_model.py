"""What blocks will take, from short runs of them."""

import json
from unittest.mock import Mock

import pytest

from flows.studies.find_study import find_study
from tasks.run.cost_model import costs_of
from tests.tasks.blocks import small_means


@pytest.fixture
def blocks(tmp_path):
    study = find_study(str(small_means(tmp_path)))
    blocks = study.blocks("standard", replicates=40, seed=0)
    return [block for block in blocks if block.replicates.panel == "low-dimensional"]


def test_seconds_follow_sizes_and_replicates(blocks, monkeypatch):
    now = 0.0

    def seconds_of(block, count):
        elements = block.problem.cost(block.replicates.n).elements
        return count * (len(block.cells) + 1) * (elements + 200_000) / 1e6

    def compute(block, prepared):
        """Take what the work is, and the first time two seconds more."""
        nonlocal now
        now += seconds_of(block, block.replicates.count) + (0 if now else 2)

    monkeypatch.setattr("tasks.run.cost_model.time", Mock(process_time=lambda: now))
    monkeypatch.setattr("tasks.run.cost_model.compute_block", compute)
    costs = costs_of(blocks, lambda block: None)
    assert [cost.block for cost in costs] == blocks
    for number, cost in enumerate(costs):
        seconds = seconds_of(cost.block, cost.block.replicates.count)
        assert cost.seconds == pytest.approx(seconds + (0 if number else 2))
        assert cost.n_bytes >= 0


def test_a_plan_from_the_command_line(tmp_path, command_line):
    study = small_means(tmp_path)

    def call(*words):
        return command_line("plan", study, *words)

    status, out, err = call("--profile", "smoke", "--workers", "2", "--json")
    assert status == 0, err
    found = json.loads(out)
    assert found["seconds"] <= found["core_seconds"]
    assert found["panels"][0]["core_seconds"] > 0
    status, out, _ = call("--profile", "smoke")
    assert "means at profile smoke: " in out
    assert "  low-dimensional: " in out
    status, _, err = call("--profile", "smokey")
    assert status == 2
    assert "did you mean 'smoke'?" in err
