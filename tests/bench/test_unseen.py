"""The ten unseen tables are those of their rule, are named nowhere else, and have generous bounds."""

import importlib
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from data.collections.league import GROUPS
from data.store.folders import PROJECT_ROOT
from tests.bench import unseen

REASONS = {"named", "other", "computed", "dates", "enough"}
WANTED = {"linear": 5, "logistic": 3, "counts": 2}


def family(name):
    return GROUPS[unseen.TABLES[name].get("family", "")]


def test_the_first_candidates_of_each_family_are_taken():
    names, verdicts = list(unseen.CANDIDATES), list(unseen.CANDIDATES.values())
    taken = [verdict for verdict in verdicts if verdict not in REASONS]
    assert names == sorted(names, key=unseen.place)
    assert taken == list(unseen.TABLES)
    assert Counter(map(family, taken)) == WANTED
    assert verdicts[-1] == taken[-1]
    assert {name for name, verdict in unseen.CANDIDATES.items() if verdict in taken} == {
        "/".join(about["source"]) for about in unseen.TABLES.values()
    }
    before = verdicts[: verdicts.index("enough")]
    assert any(
        sum(family(each) == group for each in before if each in taken) == n for group, n in WANTED.items()
    )


@pytest.mark.skipif("R_DATASETS" not in os.environ, reason="R_DATASETS names no checkout of Rdatasets")
def test_the_candidates_are_those_of_the_rule():
    found = unseen.candidates(Path(os.environ["R_DATASETS"]))
    assert found[: len(unseen.CANDIDATES)] == list(unseen.CANDIDATES)


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
    assert set(files.split()) - {"docs/measured/unseen.json"} == {"tests/bench/unseen.toml"}


def test_a_difference_within_the_errors_is_neither_better_nor_worse():
    errors = {"dpcost": [0.1, 0.2, 0.3], "AdaSSP": [0.1, 0.3, 0.5], "diffprivlib": [1.0, 1.1, 1.2]}
    rows = [
        {"table": "cards", "method": method, "epsilon": 1.0, "error": error}
        for method, values in errors.items()
        for error in values
    ]
    facts = unseen.facts_of(pd.DataFrame(rows), {"cards": unseen.TABLES["cards"]})
    assert facts["cards/dpcost/1"] == "0.2 ± 0.1"
    assert facts["against/AdaSSP"] == "smaller in 0, larger in 0 of 1"
    assert facts["against/diffprivlib"] == "smaller in 1, larger in 0 of 1"


def test_the_page_shows_each_method_of_each_table(monkeypatch):
    monkeypatch.syspath_prepend(str(PROJECT_ROOT / "docs"))
    page = importlib.import_module("generate.evidence").unseen
    rows = [
        {"table": name, "method": method, "epsilon": epsilon, "error": epsilon + len(method) + repetition}
        for name, method in (
            ("cards", "dpcost"),
            ("cards", "AdaSSP"),
            ("cards", "diffprivlib"),
            ("webworms", "dpcost"),
        )
        for epsilon in unseen.EPSILONS
        for repetition in range(2)
    ]
    rows += [
        {"table": name, "method": unseen.NONPRIVATE, "epsilon": np.inf, "error": 0.5}
        for name in ("cards", "cards", "webworms", "webworms")
    ]
    facts = unseen.facts_of(pd.DataFrame(rows), {name: unseen.TABLES[name] for name in ("cards", "webworms")})
    shown = page({f"unseen/{name}": text for name, text in facts.items()})
    lines = [line.split(" | ") for line in shown.splitlines() if line.startswith("| ")][2:]
    assert [line[1] for line in lines] == ["dpcost", "AdaSSP", "diffprivlib", "dpcost"]
    assert lines[0][2:6] == [facts[f"cards/dpcost/{epsilon:g}"] for epsilon in unseen.EPSILONS]
    assert "against AdaSSP: smaller in 0, larger in 0 of 4" in shown
    assert page({}) == "Not measured yet.\n"
