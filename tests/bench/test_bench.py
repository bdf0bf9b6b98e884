"""Every benchmark runs, at its smallest size; one that fails is reported and the others go on."""

import json

import pytest

from tests.bench import __main__ as bench
from tests.bench.goals import Goal, Measurement
from tests.bench.speed import Speed, judged, measured_ratio

FUNCTIONS = dict(bench.benchmarks([]))
SLOW = ("accuracy", "orchestration_cost", "make_run", "advice")
SLOW += ("streamed_rows", "release_forecasts", "event_forecasts")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in FUNCTIONS]
)
def test_a_benchmark_runs_at_its_smallest_size(name):
    measured = FUNCTIONS[name](small=True)
    assert measured.figure
    assert measured.data
    assert all(goal.cells() for goal in measured.goals)


def test_a_quarter_of_a_speed_lost_ends_with_status_1_and_its_line(tmp_path, monkeypatch, capsys):
    kept = {"slower": 10.0, "as before": 10.0}
    for ratio, status in ((13.0, 0), (13.5, 1)):
        of_today = {"slower": ratio, "as before": 10.0, "new": 1e9}
        goals = [judged(Speed(what, "sort", print), found, kept) for what, found in of_today.items()]
        speeds = [("speeds", lambda g=goals: Measurement(figure="", goals=g))]
        monkeypatch.setattr(bench, "benchmarks", lambda chosen, speeds=speeds: speeds)
        assert bench.main(["speed"], tmp_path) == status
        assert ("TOO SLOW: slower" in capsys.readouterr().out) == bool(status)


def test_a_ratio_is_that_of_the_seconds_of_a_call_and_its_kernel():
    assert measured_ratio(lambda: 6.0, lambda: 2.0) == 3.0


def test_a_benchmark_that_fails_is_reported_and_the_others_go_on(tmp_path, monkeypatch, capsys):
    def fails():
        raise NameError("name 'peak_memory' is not defined")

    def works():
        return Measurement(figure="3 s", goals=[Goal(what="it", values=[3.0], wanted=4)], data="iris (real)")

    monkeypatch.setattr(bench, "benchmarks", lambda chosen: iter([("first", fails), ("second", works)]))
    assert bench.main([], tmp_path) == 1
    said = capsys.readouterr().out
    assert "first: FAILED: NameError" in said
    assert "second [iris (real)]: 3 s" in said
    rows = json.loads((tmp_path / "bench.json").read_text())["benchmarks"]
    assert [row["benchmark"] for row in rows] == ["first", "second"]
    assert "iris (real)" in (tmp_path / "bench.md").read_text()
