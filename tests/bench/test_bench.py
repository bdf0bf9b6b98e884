"""Every benchmark runs, at its smallest size; our scripts of other libraries' page come near the answers."""

import json
import sys
from unittest.mock import Mock
from urllib.error import URLError

import numpy as np
import pytest

from data.store.folders import PROJECT_ROOT
from tasks.errors import SpecError
from tests.bench import __main__ as bench
from tests.bench import advice
from tests.bench.compared import __main__ as compared
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


@pytest.mark.parametrize("folder", ["/nowhere", None])
def test_a_table_of_r_that_cannot_be_had_names_the_variable_of_its_folder(folder, monkeypatch):
    monkeypatch.setattr(advice.sm.datasets, "get_rdataset", Mock(side_effect=URLError("no such host")))
    monkeypatch.delenv("R_DATASETS", raising=False)
    if folder:
        monkeypatch.setenv("R_DATASETS", folder)
    with pytest.raises(SpecError, match=r"^R_DATASETS .*\bdatasets/quakes\b"):
        advice._frame("datasets", "quakes")


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


@pytest.fixture(scope="module")
def rows():
    return compared.table()


@pytest.mark.parametrize(
    ("name", "percent"), [("diffprivlib", 15), ("opendp", 1), ("smartnoise", 5), ("dp_wizard", 5)]
)
def test_our_script_comes_near_the_exact_answer(name, percent, rows, tmp_path):
    rows.to_csv(tmp_path / "rows.csv", index=False)
    runs, seconds = compared.run(sys.executable, f"{name}_ours.py", 2, tmp_path)
    truth = compared.exact(rows)[name]
    assert seconds > 0
    for made in runs:
        assert np.abs(np.array(made["answer"]) / truth - 1).max() < percent / 100
        assert len(made["low"]) == len(made["high"]) == len(truth)
    assert runs[0]["answer"] != runs[1]["answer"]


def script(errors, seconds, lines=5):
    return {"errors": errors, "fresh": seconds, "lines": lines}


def test_nobody_is_called_better_within_the_errors():
    noisy, near, far = [1.0, 2.0, 3.0, 2.0], [1.5, 2.5, 3.0, 2.0], [0.1, 0.2, 0.15, 0.15]
    assert compared.verdict(script(noisy, [1, 3]), script(near, [2, 4])).startswith("Neither")
    theirs_better = compared.verdict(script(far, [1, 2], 3), script(noisy, [3, 4]))
    assert theirs_better.startswith(
        "The other library is better in the error (13.3 times smaller), the seconds"
    )
    assert "dpcost" not in theirs_better
    ours_better = compared.verdict(script(noisy, [3, 4]), script(far, [1, 2], 3))
    assert "The other library" not in ours_better


def test_an_interval_that_is_not_always_stated_says_so():
    found = {**script([1.0, 2.0], [1.0]), "again": [0.1], "stated": 93.0, "covers": 97.0, "width": 2.0}
    assert compared.facts_of(found)["interval"] == "± 2 %, covers 97 %, stated in 93 %"
    assert compared.facts_of({**found, "stated": 0.0})["interval"] == "none"


def test_the_page_has_figures_of_every_library():
    facts = json.loads((PROJECT_ROOT / "docs/measured/compared.json").read_text())
    assert {name.split("/")[1] for name in facts} == {"repetitions", *compared.LIBRARIES}
