"""Every benchmark runs at its smallest size; comparisons count both errors; its tables were unseen before."""

import json
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from data.collections.league import GROUPS
from data.store.folders import PROJECT_ROOT
from tests.bench import __main__ as bench
from tests.bench import unseen, unseen_people
from tests.bench.compared import __main__ as compared
from tests.bench.goals import Goal, Measurement
from tests.bench.speed import Speed, judged

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


def test_the_page_has_figures_of_every_library():
    facts = json.loads((PROJECT_ROOT / "docs/measured/compared.json").read_text())
    assert {name.split("/")[1] for name in facts} == {"repetitions", *compared.LIBRARIES}


REASONS = {"named", "other", "computed", "dates", "family", "enough"}
WANTED = {"linear": 5, "logistic": 3, "counts": 2}


def family(name):
    return GROUPS[unseen.TABLES[name].get("family", "")]


def test_the_first_candidates_of_each_family_are_taken_and_then_the_next():
    """The second choice goes on in the same order; there is no third logistic regression."""
    names = list(unseen.CANDIDATES)
    tables = {verdict: name for name, verdict in unseen.CANDIDATES.items() if verdict not in REASONS}
    assert names == sorted(names, key=unseen.place)
    assert tables == {table: "/".join(about["source"]) for table, about in unseen.TABLES.items()}
    first, second = list(unseen.TABLES)[:10], list(unseen.TABLES)[10:]
    for choice in (first, second):
        assert choice == sorted(choice, key=lambda table: names.index(tables[table]))
    assert Counter(map(family, first)) == WANTED
    assert Counter(map(family, second)) == {**WANTED, "logistic": 2}
    last = {family(table): names.index(tables[table]) for table in first}
    assert all(names.index(tables[table]) > last[family(table)] for table in second)


@pytest.mark.parametrize("name", unseen.TABLES)
def test_bounds_are_rounded_and_wider_than_the_published_range(name):
    about = unseen.TABLES[name]
    numbers = {column: each for column, each in about["columns"].items() if not isinstance(each[0], str)}
    assert set(numbers) == set(about["ranges"])
    for column, (lower, upper) in numbers.items():
        least, most = about["ranges"][column]
        assert lower <= least <= most <= upper
        assert 1.2 <= (upper - lower) / (most - least) <= 3, column


@pytest.mark.parametrize("name", unseen.TABLES)
def test_a_table_is_named_nowhere_else(name):
    item = unseen.TABLES[name]["source"][1]
    command = ["git", "grep", "--untracked", "-lP", rf"(?<![\w.]){re.escape(item)}(?!\.?\w)"]
    files = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False).stdout
    lists = {"docs/measured/unseen.json", "tests/bench/unseen_people.toml"}
    assert set(files.split()) - lists == {"tests/bench/unseen.toml"}


def test_the_first_five_tables_of_times_and_of_people_are_taken():
    reasons = {"named", "other", "misnamed", "dates", "few", "family"}
    taken = []
    for names in unseen_people.CANDIDATES.values():
        assert list(names) == sorted(names, key=unseen.place)
        taken.append({table: name for name, table in names.items() if table not in reasons})
    assert list(map(len, taken)) == [5, 5]
    sources = {table: "/".join(about["source"]) for table, about in unseen_people.TABLES.items()}
    assert {**taken[0], **taken[1]} == sources
