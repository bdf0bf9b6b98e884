"""Every benchmark runs, at its smallest size; one that fails is reported and the others go on."""

import json

import pytest

from tests.bench import __main__ as bench
from tests.bench.goals import Goal, Measurement

FUNCTIONS = dict(bench.benchmarks([]))
SLOW = ("release_widths", "orchestration_cost", "two_workers_on_swarm", "make_run", "advice")
SLOW += ("streamed_rows", "partitions")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in FUNCTIONS]
)
def test_a_benchmark_runs_at_its_smallest_size(name):
    measured = FUNCTIONS[name](small=True)
    assert measured.figure
    assert measured.data
    assert all(goal.cells() for goal in measured.goals)


def test_a_benchmark_that_fails_is_reported_and_the_others_go_on(tmp_path, monkeypatch, capsys):
    def fails():
        raise NameError("name 'peak_memory' is not defined")

    def works():
        return Measurement(figure="3 s", goals=[Goal(what="it", values=[3.0], wanted=4)], data="iris (real)")

    monkeypatch.setattr(bench, "benchmarks", lambda chosen: iter([("first", fails), ("second", works)]))
    assert bench.main([], tmp_path) == 1
    said = capsys.readouterr().out
    assert "first: FAILED: NameError: name 'peak_memory' is not defined" in said
    assert "second [iris (real)]: 3 s" in said
    rows = json.loads((tmp_path / "bench.json").read_text())["benchmarks"]
    assert [row["benchmark"] for row in rows] == ["first", "second"]
    assert "iris (real)" in (tmp_path / "bench.md").read_text()
