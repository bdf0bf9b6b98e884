"""The page that compares libraries: our scripts come near the answers, and verdicts count both errors."""

import json
import sys

import numpy as np
import pytest

from data.store.folders import PROJECT_ROOT
from tests.bench.compared import __main__ as compared


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
