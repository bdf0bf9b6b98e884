"""Models nested in a release, from its record alone: ``dpcost submodel`` and ``dpcost table --models``."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpalgos.formula as private
from data.ledger import open_ledger
from dpalgos.answers.stored import plain_model
from tasks.release.record import record_of, write_record
from tasks.report.coefficients import released_model
from tests.tasks import analyst_tables

CATEGORIES = {"region": ["north", "south", "west"]}
BOUNDS = {"age": (18, 75), "cost": (0, 400)}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The record of a release by formula, and of one whose study lists the columns."""
    folder, rng, n = tmp_path_factory.mktemp("release"), np.random.default_rng(2), 20_000
    table = pd.DataFrame({"age": rng.uniform(20, 70, n), "region": rng.choice(CATEGORIES["region"], n)})
    effect = table.region.map({"north": 0, "south": 10, "west": -5})
    table["cost"] = 100 + 2 * table.age + effect + 20 * rng.standard_normal(n)
    records = {}
    asked_of = {"formula": {"formula": "cost ~ age + C(region)"}, "plain": {"response": "cost"}}
    for name, options in asked_of.items():
        here = folder / name
        here.mkdir()
        options |= {"bounds": BOUNDS, "categories": CATEGORIES, "target": "robust"}
        analyst_tables.initialized(here, table, **options)
        ledger = open_ledger(here / "home")
        ledger.open_dataset("mine", 10.0, 1e-5)
        asked = ledger, "preconditioned_regression", here / "table.csv", here / "mine-release.toml"
        budget = {"epsilon": 3.0, "delta": 1e-6, "interval": 0.95}
        records[name], replayed = (record_of(analyst_tables.release(*asked, **budget)) for _ in range(2))
        assert replayed["release"]["released_model"] == records[name]["release"]["released_model"]
    # The numbers that tests look at have noise with a seed.
    budget = {"epsilon": 3.0, "delta": 1e-6, "random_state": 1}
    seeded = private.ols("cost ~ age + C(region)", table, bounds=BOUNDS, levels=CATEGORIES, **budget)
    assert set(records["formula"]["release"]["released_model"]) == set(plain_model(seeded.model))
    records["formula"]["release"]["released_model"] = plain_model(seeded.model)
    return records


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    for name, record in made.items():
        write_record(record, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_nested_model_and_its_tests_are_printed(place, command_line):
    tests = ["--test", "age = 2", "--test", "Intercept = -1e3"]
    status, out, err = command_line("submodel", "formula", "--formula", "cost ~ age", *tests)
    assert (status, err) == (0, "")
    assert "C(region)" not in out
    assert [words for words in ("spends nothing", "age = 2", "Intercept = -1e3") if words not in out] == []


@pytest.mark.parametrize("words", [["--models", "cost ~ age", "cost ~ age + C(region)"], None])
def test_a_table_of_models_has_a_column_for_each(words, place, command_line):
    words = words or ["--models", "cost ~ age", "--models", "cost ~ age + C(region)"]
    assert command_line("table", "formula", *words, "--out", "three.csv")[0] == 0
    rows = list(csv.DictReader(Path("three.csv").read_text().splitlines()))
    models = {row["release"] for row in rows}
    assert models == {"cost ~ age", "cost ~ age + C(region)"}
    model = released_model(json.loads((place / "formula" / "release.json").read_text()))
    numbers = {row["term"]: float(row["estimate"]) for row in rows if row["release"] != "cost ~ age"}
    assert numbers == pytest.approx(dict(model.params))


@pytest.mark.parametrize(
    ("formula", "test", "named"),
    [
        *[("cost ~ log(age)", [], "log(age)"), ("age ~ region", [], "cost"), ("cost ~ bmi", [], "bmi")],
        *[("cost ~", [], "formula"), ("cost ~ age", ["--test", "bmi = 0"], "bmi")],
    ],
)
def test_a_model_or_test_that_the_release_does_not_hold_is_refused(formula, test, named, place, command_line):
    status, _, err = command_line("submodel", "formula", "--formula", formula, *test)
    assert (status, err.count("\n"), named in err) == (2, 1, True)


def test_a_study_without_a_formula_nests_by_its_columns(place, command_line):
    status, out, _ = command_line("submodel", "plain", "--formula", "cost ~ region")
    assert status == 0
    assert "region=south" in out
    assert "age" not in out.split("response")[0].split("\n", 2)[2]
