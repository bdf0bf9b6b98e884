"""All that is missing or wrong in a file, in one go; levels with several spellings."""

import numpy as np
import pandas as pd

from data.ledger import open_ledger
from flows.studies.find_study import find_study
from tasks.release.request import checked_request, read_request
from tasks.release.rows import read_rows
from tasks.study.study_file import checked_study
from tests.tasks.analyst_tables import edited, refusal, study_of

BOUNDS, CATEGORIES = {"age": (0, 120), "cost": (0, 5000)}, {"sex": ["female", "male"]}


def people(n=100):
    rng = np.random.default_rng(1)
    sex = rng.choice(["female", "male"], n)
    return pd.DataFrame({"age": rng.integers(18, 90, n), "sex": sex, "cost": rng.integers(0, 5000, n)})


study = study_of(people, bounds=BOUNDS, categories=CATEGORIES)


def test_open_lines_and_faults_of_columns_sizes_and_grid_are_listed_together(tmp_path, command_line):
    file = study(tmp_path, response="cost")
    edited(file, 'privacy_unit = "one row, a person"', 'privacy_unit = "?"')
    edited(file, "lower = 0 ", "lower = 200 ")
    edited(file, "['female', 'male']", "[\n'?'\n]")
    edited(file, 'missing = "refuse"', 'missing = "mean"')
    edited(file, "n = [9, 25, 90]", "n = [9, 25, -90]")
    status, _, said = command_line("check", file)
    assert status == 2
    wanted = ("data.privacy_unit", "'age': lower", "data.columns.1.categories", "data.missing", "grid.n")
    for text in (said, refusal(find_study, str(file))):
        assert [words for words in wanted if words not in text] == []
    (tmp_path / "other").mkdir()
    file = study(tmp_path / "other", response="cost")
    edited(file, "n = [9, 25, 90]", "n = [90, 900]")
    (fault,) = checked_study(file)[1]  # which depends on the table
    assert "grid.n" in fault


def test_a_release_lists_its_own_faults_with_those_of_its_study(tmp_path, command_line):
    file = study(tmp_path, response="cost")
    edited(file, "lower = 0 ", "lower = 200 ")
    config = tmp_path / "mine-release.toml"
    edited(config, 'y = "cost"', 'y = "costs"\nz = 1')
    edited(config, 'name = "mine"', 'name = "?"')
    budget = {"epsilon": 1.0, "delta": 1e-7}
    refused = refusal(read_request, config, "preconditioned_regression", **budget)
    for said in (command_line("check", config)[2], refused):
        for words in ("dataset.name", "columns.z: ", "'age': lower must be below"):
            assert words in said
    edited(config, "\nz = 1", "")
    edited(config, 'name = "?"', 'name = "mine"')
    edited(file, "lower = 200 ", "lower = 0 ")
    assert "'costs'" in " ".join(checked_request(config)[2])


def test_the_owner_is_shown_undeclared_text_outside_of_any_release(tmp_path, home, command_line):
    table = people()
    table.loc[:2, "sex"] = ["F", "diverse", "n.a."]
    table["age"] = table["age"].astype(str)
    table.loc[3:4, "age"] = ["unknown", "121"]
    file = study(tmp_path, table, response="cost")
    edited(file, "categories = ['?']", "lower = 0\nupper = 120")
    edited(file, 'source = "a codebook"', 'missing = ["unknown"]\nsource = "a codebook"')
    status, said, _ = command_line("show-private", file)
    assert (status, "no release" in said) == (0, True)
    assert "sex: 'F', 'diverse', 'n.a.'" in said
    assert "age: blank or NaN in 1 rows, beyond the bounds in 1 rows" in said
    assert "unknown" not in said
    assert not (home / "ledger").exists()


def test_other_spellings_are_another_question(tmp_path, home):
    file = study(tmp_path, response="cost")
    budget = {"epsilon": 1.0, "delta": 1e-7}
    open_ledger(home).open_dataset("mine", 1.0, 1e-6)

    def declared():
        request = read_request(tmp_path / "mine-release.toml", "preconditioned_regression", **budget)
        reader = open_ledger(home).fingerprinter({})
        return read_rows(reader, tmp_path / "table.csv", request).units.declared

    before = declared()
    edited(file, "categories = ['female', 'male']", 'levels = { female = ["F"], male = [] } #')
    assert declared()["spellings"] == {"sex": [["F", "female"]]}
    assert {name: each for name, each in declared().items() if name != "spellings"} == before


def test_a_response_of_0_and_1_needs_no_bounds(tmp_path, home, command_line):
    table = people().assign(ill=lambda rows: (rows.cost > 2500) * 1)
    for options in ({"response": "ill"}, {"formula": "ill ~ age + sex"}):
        folder = tmp_path / next(iter(options))
        folder.mkdir()
        file = study(folder, table, family="logistic", **options)
        text = file.read_text()
        start = text.index("lower", text.index('name = "ill"'))
        end = text.index("\n\n", start)
        file.write_text(text[:start] + text[end:])
        assert command_line("check", file)[0] == 0
        column = next(each for each in find_study(str(file)).analyst_table.columns if each.name == "ill")
        assert (column.lower, column.upper) == (0, 1)
        edited(file, 'name = "age"\nlower = 0', 'name = "age"\n# lower = 0')
        assert "'age'" in refusal(find_study, str(file))
