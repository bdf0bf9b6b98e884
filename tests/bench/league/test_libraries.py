"""Foreign libraries: their processes, their tables, attacks on them, and the results that are stored."""

import json
from unittest.mock import Mock

import numpy as np
import pytest

import dpalgos
from tests.bench.league import __main__ as league
from tests.bench.league import libraries
from tests.bench.league.attack import attack
from tests.bench.league.libraries import Library, proved
from tests.bench.league.worker import Table

SCRIPT = """
# /// script
# dependencies = []
# ///
import time
import numpy as np

FAMILIES = {
    "Least squares": ["linear"], "Always zero": ["linear"], "Failing": ["linear"], "Slow": ["linear"]
}

def least_squares(table, epsilon, delta, seed):
    return np.linalg.lstsq(np.column_stack([table.X, np.ones(len(table.X))]), table.y, rcond=None)[0]

def zero(table, epsilon, delta, seed):
    table.shows(50.0)
    return np.zeros(table.X.shape[1] + 1)

def failing(table, epsilon, delta, seed):
    raise ValueError("it wants more rows")

def slow(table, epsilon, delta, seed):
    print("what a library prints is no answer")
    time.sleep(3)

METHODS = dict(zip(FAMILIES, (least_squares, zero, failing, slow)))
"""
BUDGET = {"epsilon": 1.0, "delta": 1e-5}
X = np.column_stack([np.linspace(-1, 1, 200), np.random.default_rng(0).uniform(-1, 1, 200)])
ENDS = {"lower": -np.ones(2), "upper": np.ones(2), "y_lower": -2.0, "y_upper": 2.0}
ROWS = {"X": X, "y": X @ [0.5, -1] + 0.2, "family": "linear", **ENDS}


@pytest.fixture
def library(tmp_path):
    """Make a library that needs nothing installed."""
    script = tmp_path / "theirs.py"
    script.write_text(SCRIPT)
    library = Library(script)
    yield library
    library.close()


def test_a_fit_that_fails_or_takes_too_long_is_refused_with_the_reason(library):
    library.load(ROWS)
    with pytest.raises(dpalgos.InputError, match="ValueError: it wants more rows"):
        library.fits("Failing", [1], **BUDGET)
    with pytest.raises(dpalgos.InputError, match="takes more than"):
        library.fits("Slow", [1, 2], **BUDGET, seconds=0.5)
    fits = library.fits("Least squares", [1, 2], **BUDGET)  # in a new process, with the same table
    assert [fit["coef"] for fit in fits] == [pytest.approx([0.5, -1, 0.2])] * 2
    assert np.isnan(proved(fits[0], **BUDGET))


def test_attacks_find_a_library_without_noise_and_prove_nothing_of_a_constant(library, monkeypatch):
    found = {name: attack(library, name, "linear", 150, 1, **BUDGET) for name in [*library.families()][:3]}
    assert found["Least squares"]["violated"]
    assert found["Always zero"]["proved"] == 0
    assert "more rows" in found["Failing"]["error"]
    monkeypatch.setattr("tests.bench.league.attack._SECONDS", 0.5)
    assert "takes more than" in attack(library, "Slow", "linear", 150, 1, **BUDGET)["error"]


def test_noise_that_proves_more_than_is_claimed_is_refused():
    release = {"rate": 0.5, "times": 20.0}
    assert 0 < proved({"releases": [{"multiplier": 50.0, **release}]}, **BUDGET) <= 1
    with pytest.raises(dpalgos.InputError, match="it claims 1"):
        proved({"releases": [{"multiplier": 2.0, **release}]}, **BUDGET)


def test_a_table_gives_libraries_what_they_lack():
    table = Table(**ROWS)
    products = table.products()
    assert all(((low <= values) & (values <= high)).all() for values, low, high in products)
    assert table.solved(values.sum() for values, _, _ in products) == pytest.approx([0.5, -1, 0.2])
    for family, mean in (("logistic", lambda u: 1 / (1 + np.exp(-u))), ("counts", np.exp)):
        table.family = family
        y = mean(X @ [0.5, -1] + 0.2)
        assert table.regression(X, y) == pytest.approx([0.5, -1, 0.2], abs=0.01)
    table.family = "means"
    assert table.solved(values.sum() for values, _, _ in table.products()) == pytest.approx(X.mean(axis=0))


def test_a_run_replaces_the_stored_results_of_its_script_alone(library, tmp_path, home, monkeypatch):
    monkeypatch.setattr(league, "SCRIPTS", {"theirs": library.script})
    monkeypatch.setattr(league, "PROJECT_ROOT", tmp_path)
    monkeypatch.setattr(league, "TRIALS", 100)
    monkeypatch.setattr(libraries, "SECONDS", 2.0)
    settings = league.tables.problems(["linear"])["league_progression"]
    monkeypatch.setattr(league, "tables", Mock(problems=lambda _: {"league_progression": settings}))
    kept = json.loads(league.FILE.read_text())
    kept["fits"]["Failing"] = {"progression": [[1.0, 0.3, 0.1, None, 2, None]]}
    (tmp_path / "league.json").write_text(json.dumps(kept))
    league.main(["theirs", "--repetitions", "2"], tmp_path / "league.json")
    found = json.loads((tmp_path / "league.json").read_text())
    titles = list(library.families())
    assert found["fits"] | dict.fromkeys(titles) == kept["fits"] | dict.fromkeys(titles)
    assert found["fits"]["Failing"]["progression"][0] == [0.1, "ValueError: it wants more rows"]
    assert "takes more than" in found["fits"]["Slow"]["progression"][0][1]
    assert found["fits"]["Least squares"]["progression"][0][1] < 1e-9
    violated = {each["method"] for each in found["audits"] if each.get("violated")}
    assert violated >= {"Least squares"}
    assert found["methods"]["Slow"]["file"] == "theirs.py"
    assert list(found["machines"])[-1] == ", ".join(titles)
